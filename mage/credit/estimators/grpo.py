"""GRPO: returns minus the siblings' mean, divided by their standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import msgspec

from mage.credit.estimators.base import Advantages
from mage.credit.group_baselines import Place, Unit, centred, compare, variance
from mage.credit.running_stats import Stats
from mage.credit.steps import CreditGroup

TINY = 1e-6


class Grpo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The group's mean is the baseline, so no value head is needed and easy tasks weigh no more than hard ones.

    The mean includes the trial itself, which shrinks every advantage by (n - 1)/n: `rloo` avoids that.
    Dividing by the group's own standard deviation is the published form; with few siblings it turns the noise of
    nearly equal groups into full-size updates. `divide = false` leaves it out, as the released scripts do.

    Four siblings scored 1, 0, 0, 0: mean 1/4, standard deviation 1/2, advantages 1.5, -0.5, -0.5, -0.5.
    """

    divide: bool = True
    """Whether deviations are divided by the siblings' standard deviation."""
    unit: Unit = Unit.EPISODE
    """What siblings are compared by."""

    def estimate(self, groups: Sequence[CreditGroup], stats: Stats) -> tuple[Advantages, Stats]:
        return tuple(compare(group, self.unit, self._advantages_at) for group in groups), stats

    def _advantages_at(self, place: Place, returns: Sequence[float]) -> list[float]:
        scale = sqrt(variance([returns]) or 0.0) + TINY if self.divide else 1.0
        return [deviation / scale for deviation in centred(returns)]
