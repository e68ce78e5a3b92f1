"""Behaviour cloning: a teacher plays, and every move of it has advantage one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from mage.credit.estimators.base import Advantages
from mage.credit.running_stats import Stats
from mage.credit.steps import CreditGroup


class Cloning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every trained move has advantage one, whatever the return; the loss is cross-entropy on the teacher's moves.

    This is not reinforcement learning but an upper baseline for it. The teacher knows the population. What the agent
    cannot learn from its moves is beyond the agent's capacity; what it learns this way but not from rewards is a
    shortcoming of the method. Groups are never dead, and returns are not used.
    """

    teacher: str = "bayes-optimal"
    """The policy that plays in training: exact Bayes-optimal play for the last episode, or an opponent spec."""
    noise: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """Share of moves that the teacher draws at random. They are not learned, but what it does after them
    is, so that the agent also knows what to do where a good player never comes."""

    def estimate(self, groups: Sequence[CreditGroup], stats: Stats) -> tuple[Advantages, Stats]:
        return tuple(tuple(tuple(float(s.trained) for s in trial) for trial in g.trials) for g in groups), stats
