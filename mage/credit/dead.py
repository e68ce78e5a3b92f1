"""Dead groups: siblings that all did equally well teach nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from mage.credit.siblings import TrialAdvantages

NOTHING = 1e-12


def is_dead(advantages: TrialAdvantages) -> bool:
    """Whether all advantages of a group are zero. A group without trials is dead too."""
    return all(abs(advantage) <= NOTHING for trial in advantages for advantage in trial)


def filled_up(live: Sequence[int], dead: Sequence[int], least: float) -> list[int]:
    """The live groups, with dead ones where they are fewer than a share of all.

    >>> filled_up((1, 4), (0, 2, 3), 0.6), filled_up((1, 4), (0, 2, 3), 0.0)
    ([0, 1, 4], [1, 4])
    """
    missing = ceil(least * (len(live) + len(dead)) - NOTHING) - len(live)
    return sorted([*live, *dead[: max(0, missing)]])


def split_dead(advantages: Sequence[TrialAdvantages]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of the live groups and of the dead ones.

    >>> split_dead([((1.0,), (-1.0,)), ((0.0,), (0.0,))])
    ((0,), (1,))
    """
    dead = tuple(number for number, group in enumerate(advantages) if is_dead(group))
    return tuple(number for number in range(len(advantages)) if number not in dead), dead
