"""Jumps of a last score as a number changes: where they are, and the curve with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

WIDTH = 1e-11
"""Jumps are found to this."""
JUMP = 1e-6
"""A last score that changes by more than this within `WIDTH` jumps; one that changes with the number does not."""
LastScore = Callable[[float], float]
"""The last score at a value."""


class Jump(NamedTuple):
    """A value at which a last score jumps."""

    value: float
    below: float
    """The last score just below it."""
    above: float


def largest_jump(last: LastScore, low: tuple[float, float], high: tuple[float, float]) -> Jump | None:
    """The largest jump between two points (value, last score), by bisection; None where it is continuous.

    >>> largest_jump(lambda value: float(value > 0.25), (0.0, 0.0), (1.0, 1.0)).below
    0.0
    """
    while abs(high[1] - low[1]) > JUMP:
        middle = (low[0] + high[0]) / 2
        if high[0] - low[0] <= WIDTH:
            return Jump(middle, low[1], high[1])
        found = (middle, last(middle))
        low, high = (low, found) if abs(found[1] - low[1]) > abs(high[1] - found[1]) else (found, high)
    return None


def stepped_curve(last: LastScore, values: Iterable[float]) -> tuple[tuple[float, float], ...]:
    """Points (value, last score) in the order of the values, two at each jump; one in each gap is found.

    >>> [round(value, 3) for value, _ in stepped_curve(lambda value: float(value > 0.25), [1.0, 0.0])]
    [0.0, 0.25, 0.25, 1.0]
    """
    points = [(value, last(value)) for value in sorted(set(values))]
    curve = points[:1]
    for low, high in pairwise(points):
        jump = largest_jump(last, low, high)
        if jump is not None:
            curve += [(jump.value, jump.below), (jump.value, jump.above)]
        curve.append(high)
    return tuple(curve)
