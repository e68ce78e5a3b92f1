"""Dead groups: siblings that all did equally well teach nothing."""

from __future__ import annotations

from collections.abc import Sequence

from mage.credit.siblings import TrialAdvantages

NOTHING = 1e-12


def is_dead(advantages: TrialAdvantages) -> bool:
    """Whether all advantages of a group are zero. A group without trials is dead too."""
    return all(abs(advantage) <= NOTHING for trial in advantages for advantage in trial)


def split_dead(advantages: Sequence[TrialAdvantages]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of the live groups and of the dead ones.

    >>> split_dead([((1.0,), (-1.0,)), ((0.0,), (0.0,))])
    ((0,), (1,))
    """
    dead = tuple(number for number, group in enumerate(advantages) if is_dead(group))
    return tuple(number for number in range(len(advantages)) if number not in dead), dead
