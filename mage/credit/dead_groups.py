"""Dead groups: groups whose siblings all scored alike, so that every advantage is zero."""

from __future__ import annotations

from collections.abc import Sequence

from mage.credit.group_baselines import TrialAdvantages
from mage.types import DeadGroups

TOLERANCE = 1e-12


def is_dead(advantages: TrialAdvantages) -> bool:
    """Whether all advantages of a group are zero. A group without trials is dead too."""
    return all(abs(advantage) <= TOLERANCE for trial in advantages for advantage in trial)


def trained_groups(live: Sequence[int], dead: Sequence[int], rule: DeadGroups) -> list[int]:
    """The numbers of the groups to train on: the live ones, and the dead ones too where the rule keeps them.

    >>> trained_groups((1, 4), (0, 2, 3), DeadGroups.KEEP), trained_groups((1, 4), (0, 2, 3), DeadGroups.DROP)
    ([0, 1, 2, 3, 4], [1, 4])
    """
    return sorted([*live, *dead]) if rule is DeadGroups.KEEP else sorted(live)


def split_dead(advantages: Sequence[TrialAdvantages]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of the live groups and of the dead ones.

    >>> split_dead([((1.0,), (-1.0,)), ((0.0,), (0.0,))])
    ((0,), (1,))
    """
    dead = tuple(number for number, group in enumerate(advantages) if is_dead(group))
    return tuple(number for number in range(len(advantages)) if number not in dead), dead
