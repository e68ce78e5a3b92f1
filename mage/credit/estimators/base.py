"""The protocol of advantage estimators: a frozen struct with one pure method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mage.credit.group_baselines import TrialAdvantages
from mage.credit.running_stats import Stats
from mage.credit.steps import CreditGroup

Advantages = tuple[TrialAdvantages, ...]
"""By group, trial and step, aligned with the groups."""


class Estimator(Protocol):
    """Computes advantages from returns. `mage.checks.estimators` checks the contract."""

    def estimate(self, groups: Sequence[CreditGroup], stats: Stats) -> tuple[Advantages, Stats]:
        """The advantages of one training step, and the statistics for the next; nothing is changed in place."""
