"""How the trials of a split are averaged: what the intervals are over, and the range of the scores."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from mage.evaluation.splits import SplitKind
from mage.grouped import Units, grouped_mean, grouped_share
from mage.stats import Estimate, Range
from mage.types import Trial


class Averaging(msgspec.Struct, frozen=True):
    """Averages over the trials of one split."""

    units: Units = Units.TRIALS
    score_range: Range | None = None
    """The lowest and highest score of an episode."""

    def mean(self, trials: Sequence[Trial], values: Sequence[float], bounds: Range | None = None) -> Estimate:
        """The mean of one value per trial."""
        return grouped_mean(values, members_of(trials), self.units, bounds)

    def share(self, trials: Sequence[Trial], shares: Sequence[float], num_events: int | None = None) -> Estimate:
        """The mean of one share per trial."""
        return grouped_share(shares, members_of(trials), self.units, num_events)

    def score(self, trials: Sequence[Trial], scores: Sequence[float]) -> Estimate:
        """The mean of one score per trial."""
        return self.mean(trials, scores, self.score_range)

    def gap(self, trials: Sequence[Trial], gaps: Sequence[float], num: int = 1) -> Estimate:
        """The mean of one sum of `num` differences of scores per trial."""
        return self.mean(trials, gaps, gap_range(self.score_range, num))


def members_of(trials: Sequence[Trial]) -> list[Hashable]:
    """The member that each trial is about; where there are none, what its seed draws."""
    return [trial.task.members or trial.task.seed for trial in trials]


def gap_range(score_range: Range | None, num: int = 1) -> Range | None:
    """The range of a sum of `num` differences of scores.

    >>> gap_range((-1.0, 1.0), 2)
    (-4.0, 4.0)
    """
    if score_range is None:
        return None
    width = num * (score_range[1] - score_range[0])
    return -width, width


def units_of(kind: SplitKind, num_members: int) -> Units:
    """What intervals on a split are over: members that are a sample of those not met in training, or else trials.

    A single member says nothing about others. Without members each trial draws what is hidden anew.
    """
    return Units.TRIALS if kind is SplitKind.SEEN or num_members < 2 else Units.MEMBERS
