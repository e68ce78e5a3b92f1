"""Running statistics that estimators carry from step to step; stored in checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from mage.types import Phase


class StatKey(NamedTuple):
    """The key of a statistic."""

    learner: str
    opponent: str
    seat: int
    episode: int
    phase: Phase | None
    """None where one statistic serves both phases."""


Pools = Mapping[tuple[str, int, Phase | None], float]
"""A value for each learner, episode and phase."""


class RunningMean(msgspec.Struct, frozen=True):
    """An exponentially decayed mean. Dividing by the decayed weight corrects the bias of the first values.

    >>> RunningMean(0.0, 0.0, 0).plus(4.0, 0.5).plus(1.0, 0.5).mean  # (4/2 + 1) / (1/2 + 1)
    2.0
    """

    total: float
    weight: float
    count: int
    """Number of groups in it."""

    @property
    def mean(self) -> float:
        return self.total / self.weight

    def plus(self, value: float, decay: float) -> RunningMean:
        """With one more value; a decay of 1 gives the plain mean."""
        return RunningMean(decay * self.total + value, decay * self.weight + 1.0, self.count + 1)


class Stats(msgspec.Struct, frozen=True):
    """All running means of an estimator, in the order of their keys."""

    entries: tuple[tuple[StatKey, RunningMean], ...]

    def table(self) -> dict[StatKey, RunningMean]:
        """The means by key."""
        return dict(self.entries)


EMPTY = Stats(())
"""The statistics at the start of a run."""


def merge(stats: Stats, observed: Iterable[tuple[StatKey, float]], decay: float) -> Stats:
    """Statistics with values added one by one, in the order given: later ones weigh more."""
    table = stats.table()
    for key, value in observed:
        table[key] = table.get(key, RunningMean(0.0, 0.0, 0)).plus(value, decay)
    return Stats(tuple(sorted(table.items(), key=lambda item: (*item[0][:4], item[0].phase or ""))))


def pooled(stats: Stats) -> Pools:
    """For each learner, episode and phase the mean over all opponents and seats, weighted by their groups."""
    totals: dict[tuple[str, int, Phase | None], float] = {}
    counts: dict[tuple[str, int, Phase | None], int] = {}
    for key, running in stats.entries:
        pool = (key.learner, key.episode, key.phase)
        totals[pool] = totals.get(pool, 0.0) + running.mean * running.count
        counts[pool] = counts.get(pool, 0) + running.count
    return {pool: total / counts[pool] for pool, total in totals.items()}
