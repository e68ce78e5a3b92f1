"""What every estimator is: a frozen value with one pure method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mage.credit.siblings import TrialAdvantages
from mage.credit.stats import Stats
from mage.credit.steps import CreditGroup

Advantages = tuple[TrialAdvantages, ...]
"""By group, trial and step, aligned with the groups."""


class Estimator(Protocol):
    """Says how much better each step was than expected. `mage.checks.estimators` has the contract as a check."""

    def estimate(self, groups: Sequence[CreditGroup], stats: Stats) -> tuple[Advantages, Stats]:
        """Advantages of one training step, and the statistics for the next; nothing is changed in place."""
