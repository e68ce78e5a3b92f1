"""Task replay: tasks with scores below others of their kind are played again, the worst most often.

Where all siblings of a task fail, the group is dead; where such a task is also rare, the agent hardly ever explores its
way out. Replay gives it more trials and more of the entropy bonus. The idea is prioritised level replay (Jiang et al.
2021, arXiv 2010.03934). There the priority is the value error, which is zero where failure is expected; here it is the
difference to the best score of the same kind of task.

A replayed task has the same opponent and deals, and new siblings: their numbers continue, so that they draw other
moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import msgspec

from mage.config.wordings import in_usual_words
from mage.seeds import uniform
from mage.types import Group, Task

MAX_PLAYED = 2000
"""Most tasks that are kept: those played last."""
MIN_PLAYED_PER_DRAW = 8
"""Tasks are replayed only once this many times as many are kept as are to be drawn."""


class PlayedTask(msgspec.Struct, frozen=True):
    """A task that was played, with its score."""

    task: Task
    score: float
    """The mean over siblings and episodes when it was last played."""
    siblings: int
    """Number of siblings that have played it so far."""


def update_played(played: Sequence[PlayedTask], groups: Sequence[Group], size: int) -> tuple[PlayedTask, ...]:
    """The played tasks after a step, the latest last. Groups in which every trial failed are left out."""
    known = {entry.task.seed: entry for entry in played}
    for group in groups:
        scores = [score for trial in group.trials for score in trial.scores]
        if scores:
            before = known.pop(group.task.seed, None)
            num = size + (before.siblings if before else 0)
            known[group.task.seed] = PlayedTask(group.task, sum(scores) / len(scores), num)
    return tuple(known.values())[-MAX_PLAYED:]


def priorities(played: Sequence[PlayedTask]) -> list[float]:
    """The squared difference of each task's score to the best of its kind: the same world, members and seat.

    The same world in other words is the same kind.
    """
    best: dict[tuple[str, tuple[str, ...], int], float] = {}
    kinds = [(in_usual_words(entry.task.world), entry.task.members, entry.task.seat) for entry in played]
    for kind, entry in zip(kinds, played, strict=True):
        best[kind] = max(entry.score, best.get(kind, entry.score))
    return [(best[kind] - entry.score) ** 2 for kind, entry in zip(kinds, played, strict=True)]


def draw_replayed(played: Sequence[PlayedTask], num: int, seed: int) -> list[PlayedTask]:
    """At most `num` different tasks, drawn in proportion to their priorities; none while too few are kept."""
    if num == 0 or len(played) < MIN_PLAYED_PER_DRAW * num:
        return []
    # The smallest of exponential draws with these rates: weighted sampling without replacement.
    waits = [
        (-log(1.0 - uniform(seed, entry.task.seed)) / priority, index)
        for index, (entry, priority) in enumerate(zip(played, priorities(played), strict=True))
        if priority > 0
    ]
    return [played[index] for _, index in sorted(waits)[:num]]
