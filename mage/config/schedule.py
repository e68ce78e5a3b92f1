"""Schedules of a world's parameters over training: their points, the values between these, the worlds they make."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import pairwise
from sys import float_info
from typing import Annotated

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from mage.spec import with_parameters

Number = int | float
Point = tuple[float, Number]
"""A share of training, and the value of a parameter there."""
_DECIMALS = 4
"""Decimals of values between points, so that a run does not make a new world at every step."""


def _read_points(given: object) -> tuple[Point, ...]:
    """The points as given, all values whole numbers or all of them not."""
    if not isinstance(given, list | tuple) or not given or not all(map(_is_point, given)):
        raise _error("a schedule is a list of points [share of training, value], as in [[0.5, 0.0], [0.5, 0.5]]")
    for share, _ in given:
        if not 0 <= share <= 1:
            raise _error(f"the share of training {share:g} is not from 0 to 1")
    for (before, _), (after, _) in pairwise(given):
        if after < before:
            raise _error(f"the share of training falls from {before:g} to {after:g}; give points in their order")
    is_whole = all(isinstance(value, int) for _, value in given)
    return tuple((float(share), value if is_whole else float(value)) for share, value in given)


def _is_point(given: object) -> bool:
    return isinstance(given, list | tuple) and len(given) == 2 and all(map(_is_number, given))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max


def _error(text: str) -> PydanticCustomError:
    return PydanticCustomError("schedule", "{text}", {"text": text})


Points = Annotated[tuple[Point, ...], BeforeValidator(_read_points)]
"""Points in the order of their shares; two with the same share make a jump."""


def share_done(step: int, steps: int, num_tokens: int, tokens: int) -> float:
    """The share of training that is done after so many steps and tokens; that of tokens where these are limited.

    It is 1 in the last step: the first one is step 0.

    >>> share_done(49, 99, 0, 0), share_done(49, 99, 30, 40)
    (0.5, 0.75)
    """
    return min(1.0, num_tokens / tokens if tokens else step / max(1, steps - 1))


def value_at(points: tuple[Point, ...], share: float, *, is_before: bool = False) -> Number:
    """The value at a share of training; with `is_before` that just before a jump.

    Values are linear between points, and constant before the first and after the last. Where all points have whole
    numbers, values are whole too; else those between points are rounded to four decimals.

    >>> [value_at(((0.2, 0.0), (0.5, 1.0), (0.5, 3.0)), share) for share in (0.1, 0.3, 0.5, 0.9)]
    [0.0, 0.3333, 3.0, 3.0]
    """
    shares = [at for at, _ in points]
    index = bisect_left(shares, share) if is_before else bisect_right(shares, share)
    if index in (0, len(points)):
        return points[0 if index == 0 else -1][1]
    (left, low), (right, high) = points[index - 1 : index + 1]
    if share in (left, right):
        return low if share == left else high
    value = low + (high - low) * (share - left) / (right - left)
    return round(value) if isinstance(low, int) else round(value, _DECIMALS) + 0.0  # no -0.0


def worlds_at_points(world: str, schedule: Mapping[str, tuple[Point, ...]]) -> dict[str, dict[str, Number]]:
    """The worlds at all points of a schedule, on both sides of jumps, each with its values of the parameters.

    >>> list(worlds_at_points("rps", {"rounds": ((0.5, 3), (0.5, 5))}))
    ['rps(rounds=3)', 'rps(rounds=5)']
    """
    found: dict[str, dict[str, Number]] = {}
    for share in sorted({at for points in schedule.values() for at, _ in points}):
        for is_before in (True, False):
            values = {name: value_at(points, share, is_before=is_before) for name, points in schedule.items()}
            found[with_parameters(world, values)] = values
    return found
