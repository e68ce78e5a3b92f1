"""Summaries of trials, and the index file that holds them.

The index is a cache: what is missing or wrong in it is rebuilt from the trials.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from mage.files import BAD_JSON
from mage.runs.decode_trial import decode_outcome
from mage.types import Ending, Failure, Trial

TRIALS = "trials.jsonl"
INDEX = "index.jsonl"


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """Summary of one trial, and the position of its line in the file."""

    number: int
    """The line in `trials.jsonl`, from 0."""
    offset: int
    length: int
    """Bytes of the line, line break included."""
    world: str
    opponents: tuple[str, ...]
    agent: str | None
    """None for a failure."""
    seat: int
    seed: int
    sibling: int
    scores: tuple[float, ...]
    endings: tuple[Ending, ...]
    forfeits: int
    """Episodes forfeited by the agent itself."""
    invalid_replies: int
    overflows: int
    error: str | None
    """The error of a failure; None for a trial."""
    level: str = ""
    """The task's level; empty where the seed drew what was hidden, and in worlds of several seats."""

    @property
    def end(self) -> int:
        """Offset of the next line."""
        return self.offset + self.length


class Scan(NamedTuple):
    """The contents of a run's files, broken or not."""

    summaries: tuple[Summary, ...]
    num_lines: int
    """Complete lines, readable or not."""
    end: int
    """Offset of the end of the last complete line."""
    tail: int
    """Bytes after it: an incomplete line."""
    damage: tuple[str, ...]
    """One sentence per broken or lost part."""
    num_indexed: int
    """Number of summaries read from a valid index."""


def summarize(outcome: Trial | Failure, number: int, offset: int, length: int) -> Summary:
    """The summary of a trial or a failure whose line begins at `offset`."""
    task = outcome.task
    place = (number, offset, length, task.world, task.opponents)
    if isinstance(outcome, Failure):
        error = f"{outcome.error}: {outcome.message}"
        return Summary(*place, None, task.seat, task.seed, outcome.sibling, (), (), 0, 0, 0, error, task.level)
    results = [episode.result for episode in outcome.episodes]
    return Summary(
        *place,
        outcome.agent.name,
        task.seat,
        task.seed,
        outcome.sibling,
        outcome.scores,
        tuple([r.ending for r in results]),
        sum([r.forfeited_by == task.seat for r in results]),
        num_invalid_replies(outcome),
        len(outcome.overflows),
        None,
        task.level,
    )


def num_invalid_replies(trial: Trial) -> int:
    """Replies of the agent that could not be parsed into an action."""
    seat, num = trial.task.seat, 0
    for episode in trial.episodes:
        for turn in episode.turns:
            if turn.calls and turn.observation.seat == seat:
                num += sum([call.problem is not None for call in turn.calls])
    return num


def scan(folder: Path) -> Scan:
    """Read the index, and the trials that it does not cover."""
    path = folder / TRIALS
    if not path.is_file():
        return Scan((), 0, 0, 0, (f"{TRIALS} is missing; no trial can be read",), 0)
    with path.open("rb") as file:
        size = path.stat().st_size
        summaries, damage = _read_index(folder / INDEX, size)
        if summaries and not _ends_line(file, summaries[-1].end):
            summaries, damage = [], [f"{INDEX} does not fit {TRIALS}; it was rebuilt from there"]
        damage += [_unreadable(n) for n in _gaps(summaries)]
        return _scan_rest(file, summaries, damage)


_summaries = msgspec.json.Decoder(Summary)


def _read_index(path: Path, size: int) -> tuple[list[Summary], list[str]]:
    """The summaries before the first that is broken or beyond the end of the trials."""
    if not path.is_file():
        return [], [f"{INDEX} is missing; it was rebuilt from {TRIALS}"] if size else []
    summaries: list[Summary] = []
    number, end = 0, 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break  # The index lags by a line: a kill between two writes, no damage.
            try:
                entry = _summaries.decode(line)
            except BAD_JSON:
                return summaries, [f"{INDEX} is damaged at line {len(summaries)}; the rest was rebuilt from {TRIALS}"]
            follows = (entry.number == number and entry.offset == end) or (entry.number > number and entry.offset > end)
            if not follows or not _is_sound(entry):
                return summaries, [f"{INDEX} is out of order at line {len(summaries)}; rebuilt from there on"]
            if entry.end > size:
                return summaries, [f"{TRIALS} is shorter than {INDEX} says: trials from number {entry.number} are lost"]
            summaries.append(entry)
            number, end = entry.number + 1, entry.end
    return summaries, []


def _is_sound(entry: Summary) -> bool:
    """Whether the parts of a summary fit each other; a line has one byte at least, so no number is over its offset."""
    is_placed = entry.length > 0 and entry.number <= entry.offset and 0 <= entry.seat <= len(entry.opponents)
    return is_placed and len(entry.scores) == len(entry.endings)


def _gaps(summaries: list[Summary]) -> list[int]:
    known = {s.number for s in summaries}
    return [n for n in range(summaries[-1].number if summaries else 0) if n not in known]


def _scan_rest(file: BinaryIO, summaries: list[Summary], damage: list[str]) -> Scan:
    num_indexed = len(summaries)
    number, end = (summaries[-1].number + 1, summaries[-1].end) if summaries else (0, 0)
    tail = 0
    file.seek(end)
    for line in file:
        if not line.endswith(b"\n"):
            tail = len(line)
            damage.append(f"the last line of {TRIALS} is incomplete ({tail} bytes): its trial was still being written")
            break
        try:
            summaries.append(summarize(decode_outcome(line), number, end, len(line)))
        except BAD_JSON:
            damage.append(_unreadable(number))
        number, end = number + 1, end + len(line)
    return Scan(tuple(summaries), number, end, tail, tuple(damage), num_indexed)


def _ends_line(file: BinaryIO, end: int) -> bool:
    file.seek(end - 1)
    return file.read(1) == b"\n"


def _unreadable(number: int) -> str:
    return f"line {number} of {TRIALS} cannot be read; it was left out"
