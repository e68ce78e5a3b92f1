"""Tasks played again: those come back more often that went worse than others of their kind.

Where all siblings of a task fail alike nothing in it pays, so it teaches nothing; and where such a task is rare, chance
finds no way out of it. Meeting it more often helps: more attempts, and more of the bonus that keeps moves alive. The
idea is prioritised level replay (Jiang et al. 2021, arXiv 2010.03934). There the priority is the error of a value, of
which there is none where failing is expected; here it is what a task lacks to the best score of its kind.

A task that is played again has the same opponent and the same deals, and siblings of its own: their numbers go on, so that
they draw other moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import msgspec

from mage.seeds import uniform
from mage.types import Group, Task

MAX_PLAYED = 2000
"""How many tasks are remembered: those that were played last."""
MIN_PLAYED_PER_DRAW = 8
"""Tasks come back once so many times as many are remembered."""


class PlayedTask(msgspec.Struct, frozen=True):
    """A task that was played."""

    task: Task
    score: float
    """The mean over its siblings and their episodes, when it was played last."""
    siblings: int
    """How many have played it so far."""


def update_played(played: Sequence[PlayedTask], groups: Sequence[Group], size: int) -> tuple[PlayedTask, ...]:
    """What is known after a step, what was played last at the end. Groups of which every trial failed tell nothing."""
    known = {entry.task.seed: entry for entry in played}
    for group in groups:
        scores = [score for trial in group.trials for score in trial.scores]
        if scores:
            before = known.pop(group.task.seed, None)
            num = size + (before.siblings if before else 0)
            known[group.task.seed] = PlayedTask(group.task, sum(scores) / len(scores), num)
    return tuple(known.values())[-MAX_PLAYED:]


def priorities(played: Sequence[PlayedTask]) -> list[float]:
    """The square of what each task lacks to the best of its kind: the same game, opponents and seat."""
    best: dict[tuple[str, tuple[str, ...], int], float] = {}
    kinds = [(entry.task.world, entry.task.opponents, entry.task.seat) for entry in played]
    for kind, entry in zip(kinds, played, strict=True):
        best[kind] = max(entry.score, best.get(kind, entry.score))
    return [(best[kind] - entry.score) ** 2 for kind, entry in zip(kinds, played, strict=True)]


def draw_replayed(played: Sequence[PlayedTask], num: int, seed: int) -> list[PlayedTask]:
    """At most `num` different tasks, each as likely as its priority has it; none while too few are known."""
    if num == 0 or len(played) < MIN_PLAYED_PER_DRAW * num:
        return []
    # The smallest of exponential draws with these rates: a weighted draw without putting back.
    waits = [
        (-log(1.0 - uniform(seed, entry.task.seed)) / priority, index)
        for index, (entry, priority) in enumerate(zip(played, priorities(played), strict=True))
        if priority > 0
    ]
    return [played[index] for _, index in sorted(waits)[:num]]
