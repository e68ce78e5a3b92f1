"""Behaviour cloning: a teacher plays, and whatever it does is worth repeating."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mage.credit.estimators.base import Advantages
from mage.credit.stats import Stats
from mage.credit.steps import CreditGroup


class Cloning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every move of the teacher counts one, however the episode went: there is nothing to compare it with.

    This is no reinforcement learning but its upper baseline. The teacher knows the pool, and its moves are trained
    by cross-entropy; what an agent cannot learn from being shown is beyond its capacity, and what it learns from being
    shown and not by trial is the failure of the method. Groups are never dead, and returns are not looked at.
    """

    teacher: str = "bayes-optimal"
    """Who plays in training: exact Bayes-optimal play for the last episode, or any opponent spec."""

    def estimate(self, groups: Sequence[CreditGroup], stats: Stats) -> tuple[Advantages, Stats]:
        return tuple(tuple(tuple(float(s.trained) for s in trial) for trial in g.trials) for g in groups), stats
