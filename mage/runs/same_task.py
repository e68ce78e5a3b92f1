"""Finds trials of the same task at several training steps, to compare an agent before, during and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from mage.runs.index import Summary
from mage.runs.store import RunReader
from mage.types import Failure, Trial

Read = Callable[[int], Trial | Failure]
"""Reads a trial by its number."""


class Pair(msgspec.Struct, frozen=True, omit_defaults=True):
    """Trials of one task by different weights, in step order."""

    world: str
    opponents: tuple[str, ...]
    seat: int
    seed: int
    trials: tuple[int, ...]
    """Trial numbers."""
    steps: tuple[int, ...]
    """Number of updates of the weights of each trial, ascending."""
    level: str = ""


def pairs_of(reader: RunReader) -> list[Pair]:
    """The tasks of a training run that were played at more than one step; empty for other kinds of runs."""
    return pairs_among(reader.summaries(), reader.trial) if reader.info.kind == "train" else []


def pairs_among(summaries: Iterable[Summary], read: Read) -> list[Pair]:
    """The same for the summaries of a training run; only trials of repeated tasks are read."""
    by_task: dict[tuple[str, tuple[str, ...], str, int, int, int], list[Summary]] = {}
    for summary in summaries:
        if summary.error is None:  # siblings share a task and a step
            key = (summary.world, summary.opponents, summary.level, summary.seat, summary.seed, summary.sibling)
            by_task.setdefault(key, []).append(summary)
    found = [_pair(some, read) for some in by_task.values() if len(some) > 1]
    return [pair for pair in found if pair is not None]


def _pair(summaries: Sequence[Summary], read: Read) -> Pair | None:
    by_step: dict[int, int] = {}
    for summary in summaries:
        step = step_of(read(summary.number))
        if step is not None:
            by_step[step] = summary.number
    if len(by_step) < 2:
        return None
    first, ordered = summaries[0], sorted(by_step.items())
    return Pair(
        first.world,
        first.opponents,
        first.seat,
        first.seed,
        tuple(number for _, number in ordered),
        tuple(step for step, _ in ordered),
        first.level,
    )


def step_of(trial: Trial | Failure) -> int | None:
    """The version of the weights that played a trial, which is the step they were published at."""
    if isinstance(trial, Failure):
        return None
    turns = (turn for episode in trial.episodes for turn in episode.turns if turn.observation.seat == trial.task.seat)
    return next((call.completion.version for turn in turns for call in turn.calls), None)
