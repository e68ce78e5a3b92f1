"""A report on file: what was found, and all that is needed to find it again."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from mage import __version__
from mage.errors import RecordError
from mage.schema import Config

T = TypeVar("T")

_PACKAGES = ("open_spiel", "torch", "transformers")


class EvaluationReport(msgspec.Struct, Generic[T], frozen=True):
    """One report for each split, with the command, config, seeds, versions and machine that made them."""

    reports: tuple[T, ...]
    command: str
    config: Mapping[str, Any]
    step: int
    """How many updates the judged weights have had."""
    seed: int
    """Fixes the tasks; the seed of the training is in the config."""
    versions: Mapping[str, str]
    machine: str


def evaluation_report(reports: Sequence[T], config: Config, step: int) -> EvaluationReport[T]:
    """What was found just now by this process."""
    return EvaluationReport(
        reports=tuple(reports),
        command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        config=config.model_dump(mode="json"),
        step=step,
        seed=config.evaluation.seed,
        versions=_versions(),
        machine=f"{platform.system()} {platform.release()} on {platform.machine()}, {os.cpu_count()} CPUs",
    )


def to_json(report: EvaluationReport[T]) -> bytes:
    """The report as it is written to a file."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def read_report(path: Path, kind: type[T]) -> EvaluationReport[T]:
    """A report from its file, or one line on why it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=EvaluationReport[kind])  # type: ignore[valid-type]
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} is not a report that can be read: {error}") from None


def _versions() -> dict[str, str]:
    """What is installed; playing and judging known players need no torch."""
    found = {"mage": __version__, "python": platform.python_version()}
    installed = {dist.name.lower().replace("-", "_") for dist in metadata.distributions()}
    return found | {name: metadata.version(name) for name in _PACKAGES if name in installed}
