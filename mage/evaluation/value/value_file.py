"""The values of a task as JSON that reads back equal."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mage.errors import RecordError
from mage.evaluation.value.dial import Dial, find_dial, parse_variation
from mage.evaluation.value.find import find_value, value_curve
from mage.evaluation.value.report import ValuePoint, ValueReport, ValueRequest
from mage.evaluation.value.verdict import verdict
from mage.files import BAD_JSON, write_atomically


class ValueFile(msgspec.Struct, frozen=True):
    """What `mage value --json` writes."""

    verdict: str
    """What the task needs, in one sentence."""
    report: ValueReport
    curve: tuple[ValuePoint, ...] = ()
    """By the length of a trial; only with a plot of it."""
    dial: Dial | None = None


def make_value_file(request: ValueRequest, *, vary: str | None = None, curve: bool = False) -> ValueFile:
    """All that was asked for; `vary` is a range as `parse_variation` reads it."""
    variation = None if vary is None else parse_variation(vary)
    report = find_value(request)
    dial = None if variation is None else find_dial(request, variation)
    return ValueFile(verdict(report), report, tuple(value_curve(request)) if curve else (), dial)


def to_json(content: ValueFile) -> bytes:
    """The content as JSON, indented."""
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def write_json(content: ValueFile, path: Path) -> None:
    """Write the content to a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, to_json(content))
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or error}") from None


def read_json(path: Path) -> ValueFile:
    """Read what `write_json` wrote."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ValueFile)
    except (OSError, *BAD_JSON) as error:
        raise RecordError(f"{path} holds no values of a task: {error}") from None
