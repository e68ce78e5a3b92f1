"""The logs of a run that belong to its checkpoints: their lengths, and cutting them back to a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mage.files import count_lines, fsync, truncate_lines
from mage.runs.credit import CREDIT
from mage.runs.index import TRIALS
from mage.training.event_log import EVENTS
from mage.training.transcripts import Transcripts

METRICS = "metrics.jsonl"
LOGS = (METRICS, EVENTS, TRIALS, CREDIT)
"""Logs that are truncated to the checkpoint when a run is resumed."""


def log_lengths(folder: Path) -> dict[str, int]:
    """The number of lines of each log, all of which are on the disk when this returns."""
    for name in LOGS:
        fsync(folder / name)
    return {name: count_lines(folder / name) for name in LOGS}


def cut_back_logs(folder: Path, lengths: Mapping[str, int], transcripts: Transcripts) -> None:
    """Move later lines than those of a checkpoint aside."""
    transcripts.cut_back(lengths.get(TRIALS, 0), lengths.get(CREDIT, 0))
    for name in (METRICS, EVENTS):
        truncate_lines(folder / name, lengths.get(name, 0), "superseded")


def lost_lines(folder: Path, lengths: Mapping[str, int], step: int) -> list[str]:
    """A sentence for each log that is shorter than the checkpoint of a step says."""
    found = {name: count_lines(folder / name) for name in lengths}
    return [
        f"{name} is shorter than at step {step}: {length - found[name]} of {length} lines are lost"
        for name, length in lengths.items()
        if found[name] < length
    ]
