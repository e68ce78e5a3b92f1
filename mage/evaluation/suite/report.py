"""A report on file: what was found, and all that is needed to find it again."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from shutil import which
from typing import Any, Generic, TypeVar

import msgspec

from mage.config.schema import Config
from mage.errors import RecordError
from mage.version import __version__

T = TypeVar("T")

REPORT, REFLECTIONS, CROSS_PLAY = "report.json", "reflections.json", "crossplay.json"
"""The files of reports in the directories where all was played that they tell of."""
_ROW = re.compile(rb'\[\n\s*([^\[\]{}"]*?)\s*\]')
"""A list without texts or lists, as it is spread over lines. Texts hold no line breaks of their own in JSON."""
_PACKAGES = ("open_spiel", "torch", "transformers")


class EvaluationReport(msgspec.Struct, Generic[T], frozen=True):
    """One report for each split, with the command, config, seeds, versions and machine that made them."""

    reports: tuple[T, ...]
    command: str
    config: Mapping[str, Any]
    step: int
    """How many updates the judged weights have had."""
    eval_agent: Mapping[str, Any]
    """Who was judged."""
    seed: int
    """Fixes the tasks; the seed of the training is in the config."""
    seconds: Mapping[str, Mapping[str, float]]
    """By split, how long each arm took by the clock; empty where nobody looked. All else is the same every time."""
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
    """What was found just now by this process; the subject is the config's model unless it is described."""
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
    """What was found about some agents in one game, with the command, seed, versions and machine that made it."""

    found: T
    eval_agents: tuple[Mapping[str, Any], ...]
    """Who they are."""
    command: str
    seed: int
    versions: Mapping[str, str]
    machine: str


def world_report(found: T, eval_agents: Sequence[Mapping[str, Any]], seed: int) -> WorldReport[T]:
    """What was found just now by this process."""
    return WorldReport(found, tuple(eval_agents), command_line(), seed, installed_versions(), machine_name())


def read_world_report(path: Path, kind: type[T]) -> WorldReport[T]:
    """Such a report from its file, or one line on why it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=WorldReport[kind])  # type: ignore[valid-type]
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} is not a report that can be read: {error}") from None


def to_json(report: EvaluationReport[T] | WorldReport[T]) -> bytes:
    """The report as it is written to a file; rows of plain numbers stay on one line."""
    spread = msgspec.json.format(msgspec.json.encode(report), indent=1)
    return _ROW.sub(lambda row: b"[" + b" ".join(row[1].split()) + b"]", spread) + b"\n"


def read_report(path: Path, kind: type[T]) -> EvaluationReport[T]:
    """A report from its file, or one line on why it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=EvaluationReport[kind])  # type: ignore[valid-type]
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        again = "; another version of mage wrote it: judge again" if "missing required field" in str(error) else ""
        raise RecordError(f"{path} is not a report that can be read: {error}{again}") from None


def command_line() -> str:
    """The command that this process was started by."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def machine_name() -> str:
    """What this process runs on."""
    return f"{platform.system()} {platform.release()} on {platform.machine()}, {os.cpu_count()} CPUs"


def installed_versions() -> dict[str, str]:
    """What is installed, and the commit where mage runs from a checkout; judging known players needs no torch."""
    found = {"mage": __version__, **_commit(), "python": platform.python_version()}
    installed = {dist.name.lower().replace("-", "_") for dist in metadata.distributions()}
    return found | {name: metadata.version(name) for name in _PACKAGES if name in installed}


@cache
def _commit() -> Mapping[str, str]:
    """The commit that is checked out, with a plus where files were changed; a repository around mage is not asked."""
    root = Path(__file__).resolve().parents[2]
    git = which("git")
    if git is None or not (root / ".git").exists():
        return {}
    asked = [git, "--no-optional-locks", "-C", str(root), "describe", "--always", "--dirty=+"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    return {"commit": told.stdout.strip()} if told.returncode == 0 else {}
