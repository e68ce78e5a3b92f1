"""RLOO: each sibling's return minus the mean of the others."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mage.credit.estimators.base import Advantages
from mage.credit.group_baselines import Place, Unit, compare, leave_one_out
from mage.credit.running_stats import Stats
from mage.credit.steps import CreditGroup


class Rloo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leaving the trial itself out makes the baseline independent of its actions, so the gradient is unbiased.

    The obvious group mean includes the return that it is compared with. Advantages are not divided: a group whose
    siblings differ little changes the weights little.

    Three siblings scored 1, 0, 0: advantages 1 - 0 = 1, 0 - 1/2 = -1/2, -1/2.
    """

    unit: Unit = Unit.EPISODE
    """What siblings are compared by."""

    def estimate(self, groups: Sequence[CreditGroup], stats: Stats) -> tuple[Advantages, Stats]:
        return tuple(compare(group, self.unit, _advantages_at) for group in groups), stats


def _advantages_at(place: Place, returns: Sequence[float]) -> list[float]:
    return leave_one_out(returns)
