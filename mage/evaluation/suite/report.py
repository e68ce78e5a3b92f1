"""Report files: results, with the command, config, seeds and versions needed to reproduce them."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from shutil import which
from typing import Any, Generic, TypeVar

import msgspec

from mage.config.schema import Config
from mage.errors import RecordError
from mage.files import BAD_JSON
from mage.version import __version__

T = TypeVar("T")

REPORT, REFLECTIONS, CROSS_PLAY = "report.json", "reflections.json", "crossplay.json"
"""File names of reports in an evaluation's directory."""
_ROW = re.compile(rb'\[\n\s*([^\[\]{}"]*?)\s*\]')
"""A list of plain numbers spread over lines in formatted JSON."""
_PACKAGES = ("open_spiel", "torch", "transformers")


class EvaluationReport(msgspec.Struct, Generic[T], frozen=True):
    """One report for each split, with the command, config, seeds, versions and machine that made them."""

    reports: tuple[T, ...]
    command: str
    config: Mapping[str, Any]
    step: int
    """Number of updates the evaluated weights have had."""
    eval_agent: Mapping[str, Any]
    """Description of the evaluated agent."""
    seed: int
    """Determines the tasks; the training seed is in the config."""
    seconds: Mapping[str, Mapping[str, float]]
    """Wall-clock seconds by split and arm; empty where not measured. All else is deterministic."""
    versions: Mapping[str, str]
    machine: str


def evaluation_report(
    reports: Sequence[T],
    config: Config,
    step: int,
    *,
    eval_agent: Mapping[str, Any] | None = None,
    seconds: Mapping[str, Mapping[str, float]] | None = None,
) -> EvaluationReport[T]:
    """A report of this process; `eval_agent` is the config's model by default."""
    return EvaluationReport(
        reports=tuple(reports),
        command=command_line(),
        config=config.model_dump(mode="json"),
        step=step,
        eval_agent={"name": config.agent.model} if eval_agent is None else eval_agent,
        seed=config.evaluation.seed,
        seconds=seconds or {},
        versions=installed_versions(),
        machine=machine_name(),
    )


class WorldReport(msgspec.Struct, Generic[T], frozen=True):
    """Results of some agents in one world, with the command, seed, versions and machine that made them."""

    found: T
    eval_agents: tuple[Mapping[str, Any], ...]
    """Descriptions of the agents."""
    command: str
    seed: int
    versions: Mapping[str, str]
    machine: str


def world_report(found: T, eval_agents: Sequence[Mapping[str, Any]], seed: int) -> WorldReport[T]:
    """A report of this process."""
    return WorldReport(found, tuple(eval_agents), command_line(), seed, installed_versions(), machine_name())


def read_world_report(path: Path, kind: type[T]) -> WorldReport[T]:
    """Read a report; raises `RecordError`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=WorldReport[kind])  # type: ignore[valid-type]
    except (OSError, *BAD_JSON) as error:
        raise RecordError(f"{path} is not a report that can be read: {error}") from None


def to_json(report: EvaluationReport[T] | WorldReport[T]) -> bytes:
    """The report as JSON; rows of plain numbers stay on one line."""
    spread = msgspec.json.format(msgspec.json.encode(report), indent=1)
    return _ROW.sub(lambda row: b"[" + b" ".join(row[1].split()) + b"]", spread) + b"\n"


def read_report(path: Path, kind: type[T]) -> EvaluationReport[T]:
    """Read a report; raises `RecordError`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=EvaluationReport[kind])  # type: ignore[valid-type]
    except (OSError, *BAD_JSON) as error:
        again = "; another version of mage wrote it: evaluate again" if "missing required field" in str(error) else ""
        raise RecordError(f"{path} is not a report that can be read: {error}{again}") from None


def command_line() -> str:
    """The command that started this process."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def machine_name() -> str:
    """Operating system, architecture and number of CPUs."""
    return f"{platform.system()} {platform.release()} on {platform.machine()}, {os.cpu_count()} CPUs"


def installed_versions() -> dict[str, str]:
    """Versions of mage, python and the packages in use that are installed, and the commit in a checkout."""
    found = {"mage": __version__, **_commit(), "python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@cache
def _commit() -> Mapping[str, str]:
    """The commit of mage's own checkout, with a plus if files were changed."""
    root = Path(__file__).resolve().parents[3]
    git = which("git")
    if git is None or not (root / ".git").exists():
        return {}
    command = [git, "--no-optional-locks", "-C", str(root), "describe", "--always", "--dirty=+"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {"commit": done.stdout.strip()} if done.returncode == 0 else {}
