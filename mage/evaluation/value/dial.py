"""The dial: what each objective ends at as one parameter of a world changes, and where its last score jumps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import isfinite

import msgspec

from mage.errors import ConfigError
from mage.evaluation.value.jumps import largest_jump
from mage.evaluation.value.objective_end import best_last_score
from mage.evaluation.value.objective_weights import SINGLE, objectives
from mage.evaluation.value.pool_members import pool_members
from mage.evaluation.value.report import ValueRequest
from mage.spec import with_parameters

POINTS = 25
MAX_POINTS = 1000
_RANGE = re.compile(r"(?P<name>[^=]+)=(?P<low>[^:]+):(?P<high>[^:]+)(?::(?P<points>[^:]+))?")


class Variation(msgspec.Struct, frozen=True):
    """Which parameter of a world changes, from where to where, and at how many values."""

    parameter: str
    low: float
    high: float
    points: int = POINTS

    @property
    def values(self) -> list[float]:
        """Evenly spaced values from `low` to `high`.

        >>> Variation("look", 0.0, 1.0, 3).values
        [0.0, 0.5, 1.0]
        """
        share = (self.high - self.low) / (self.points - 1)
        return [*(self.low + share * number for number in range(self.points - 1)), self.high]


class DialPoint(msgspec.Struct, frozen=True):
    """The last score that each objective ends at, by its name, at one value of the parameter."""

    value: float
    last: Mapping[str, float]


class Threshold(msgspec.Struct, frozen=True):
    """A value of the parameter at which the last score of an objective jumps."""

    objective: str
    value: float
    below: float
    """The last score just below it."""
    above: float


class Dial(msgspec.Struct, frozen=True):
    """Last scores against a parameter, with the thresholds between the points."""

    parameter: str
    points: tuple[DialPoint, ...]
    thresholds: tuple[Threshold, ...]


def parse_variation(text: str) -> Variation:
    """Read `PARAMETER=LOW:HIGH` or `PARAMETER=LOW:HIGH:POINTS`.

    >>> parse_variation("look=-1:0.1:12")
    Variation(parameter='look', low=-1.0, high=0.1, points=12)
    """
    match = _RANGE.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        low, high, points = float(match["low"]), float(match["high"]), int(match["points"] or POINTS)
    except ValueError:
        raise ConfigError(
            f"{text!r} is no range of a parameter; write PARAMETER=LOW:HIGH, or PARAMETER=LOW:HIGH:POINTS, "
            "as in look=-1:0.1"
        ) from None
    if not (isfinite(low) and isfinite(high) and low < high and 2 <= points <= MAX_POINTS):
        raise ConfigError(f"{text!r}: allowed are finite numbers, LOW below HIGH, and 2 to {MAX_POINTS} points")
    return Variation(match["name"].strip(), low, high, points)


def find_dial(request: ValueRequest, variation: Variation) -> Dial:
    """Last scores at the points and thresholds between them; one in each gap between points is found."""
    points = [_point(request, variation.parameter, value) for value in variation.values]
    thresholds = [
        found
        for name in points[0].last
        for low, high in pairwise(points)
        for found in _jumps(request, variation.parameter, name, low, high)
    ]
    return Dial(variation.parameter, tuple(points), tuple(thresholds))


def last_scores(request: ValueRequest, names: Sequence[str] = ()) -> dict[str, float]:
    """By objective, all or those named, the last score that it ends at; not cached on disk."""
    members = pool_members(request.world, request.opponents, request.seat, request.episodes)
    pool = (request.world, members, request.seat, request.episodes)
    return {
        objective.name: best_last_score(*pool, () if objective.name == SINGLE else objective.weights(request.episodes))
        for objective in objectives(request.discount)
        if not names or objective.name in names
    }


def _point(request: ValueRequest, parameter: str, value: float, names: Sequence[str] = ()) -> DialPoint:
    world = with_parameters(request.world, {parameter: value})
    return DialPoint(value, last_scores(msgspec.structs.replace(request, world=world), names))


def _jumps(request: ValueRequest, parameter: str, name: str, low: DialPoint, high: DialPoint) -> Iterator[Threshold]:
    """The largest jump of an objective's last score between two points; none where it is continuous."""
    found = largest_jump(
        lambda value: _point(request, parameter, value, [name]).last[name],
        (low.value, low.last[name]),
        (high.value, high.last[name]),
    )
    if found is not None:
        yield Threshold(name, *found)
