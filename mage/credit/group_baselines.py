"""Comparison of sibling trials at the same place of the trial.

A place is an episode's play or its reflection. The return at an episode's first turn stands for the episode,
and all its turns get the same advantage. With `unit = turn` each turn is a place of its own, which separates the
moves of an episode where rewards come midway. Siblings that never reached a place (an early stop, an episode without a
turn) are left out of its comparison; where only one reached it, its advantage is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from mage.credit.steps import CreditGroup, Step
from mage.types import Phase

ROUNDING = 1e-9
"""Smaller differences count as zero: 0.1 + 0.2 and 0.3 are the same score, and their group is dead."""

TrialAdvantages = tuple[tuple[float, ...], ...]
"""The advantages of one group, by trial and step."""


class Unit(StrEnum):
    """What siblings are compared by."""

    EPISODE = "episode"
    TURN = "turn"


class Place(NamedTuple):
    """A place of the trial at which siblings can be compared."""

    episode: int
    phase: Phase
    turn: int


def place_of(step: Step, unit: Unit) -> Place:
    """The place a step belongs to."""
    return Place(step.episode, step.phase, step.turn if unit is Unit.TURN else 0)


def places(group: CreditGroup, unit: Unit) -> dict[Place, dict[int, float]]:
    """By place, the return of every sibling that reached it, by the sibling's number."""
    found: dict[Place, dict[int, float]] = {}
    for number, trial in enumerate(group.trials):
        for step in trial:
            if step.trained:
                found.setdefault(place_of(step, unit), {}).setdefault(number, step.return_)
    return found


def compare(
    group: CreditGroup, unit: Unit, advantages_at: Callable[[Place, Sequence[float]], Sequence[float]]
) -> TrialAdvantages:
    """Compute advantages from the siblings' returns at each place; every step gets its trial's advantage there.

    `advantages_at` maps a place and the siblings' returns there to their advantages.
    """
    advantages = {
        place: dict(zip(returns, advantages_at(place, list(returns.values())), strict=True))
        for place, returns in places(group, unit).items()
    }
    return tuple(
        tuple(advantages[place_of(step, unit)][number] if step.trained else 0.0 for step in trial)
        for number, trial in enumerate(group.trials)
    )


def centred(values: Sequence[float]) -> list[float]:
    """Each value less the mean of all.

    >>> centred([1.0, 3.0, 8.0])
    [-3.0, -1.0, 4.0]
    """
    mean = _mean(values)
    return [_difference(value, mean) for value in values]


def leave_one_out(values: Sequence[float]) -> list[float]:
    """Each value less the mean of the others; zero for one alone.

    >>> leave_one_out([1.0, 3.0, 8.0])  # 1 - 5.5, 3 - 4.5, 8 - 2
    [-4.5, -1.5, 6.0]
    """
    if len(values) < 2:
        return [0.0] * len(values)
    origin, others = values[0], len(values) - 1
    total = sum([value - origin for value in values])
    return [_difference(value, origin + (total - (value - origin)) / others) for value in values]


def variance(samples: Sequence[Sequence[float]]) -> float | None:
    """The variance within samples, each about its own mean; None where no sample has two values.

    >>> variance([[1.0, 3.0], [5.0, 5.0, 8.0]])  # (1 + 1 + 1 + 1 + 4) / (1 + 2)
    2.6666666666666665
    """
    freedom = sum(len(values) - 1 for values in samples)
    if freedom == 0:
        return None
    return sum([d * d for values in samples for d in centred(values)]) / freedom


def variance_by_episode(group: CreditGroup, unit: Unit) -> dict[int, float]:
    """A group's variance in each episode, over all its places: the play and the reflection after it."""
    samples: dict[int, list[list[float]]] = {}
    for place, returns in places(group, unit).items():
        samples.setdefault(place.episode, []).append(list(returns.values()))
    found = {episode: variance(values) for episode, values in samples.items()}
    return {episode: value for episode, value in found.items() if value is not None}


def _mean(values: Sequence[float]) -> float:
    """The mean, summed as differences from the first value: the mean of equal values is that value exactly."""
    origin = values[0]
    return origin + sum([value - origin for value in values]) / len(values)


def _difference(value: float, baseline: float) -> float:
    difference = value - baseline
    return difference if abs(difference) > ROUNDING else 0.0
