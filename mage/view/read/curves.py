"""The metrics of a run as columns, read incrementally from its file."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Mapping, Sequence
from math import isnan, nan
from typing import Any

import msgspec

from mage.errors import RecordError
from mage.files import BAD_JSON
from mage.view.read.folder import Location
from mage.view.read.run_summary import METRICS
from mage.view.read.tail import Tail

MAX_POINTS = 2000
_STEP = "step"


class Curves:
    """All metrics of a run by step. A step that was also evaluated has several lines, merged into one row."""

    def __init__(self, place: Location) -> None:
        self._place = place
        self._tail = Tail(place.path / METRICS)
        self._steps = array("q")
        self._columns: dict[str, array[float]] = {}

    def read(self) -> None:
        """Catch up with the file."""
        self._place.check(METRICS)
        if self._tail.is_restarted():
            self._steps, self._columns = array("q"), {}
        for line in self._tail.lines():
            try:
                self._add(msgspec.json.decode(line, type=dict[str, Any]))
            except (*BAD_JSON, OverflowError) as error:
                raise RecordError(f"{METRICS} of {self._place.name} cannot be read: {error}") from None

    @property
    def keys(self) -> list[str]:
        """The names of all metrics."""
        return sorted(self._columns)

    def series(self, keys: Sequence[str], after: int, points: int) -> Mapping[str, Any]:
        """The metrics after a step, null where missing; averaged down to at most `points` rows."""
        rows = [row for row, step in enumerate(self._steps) if step > after]
        parts = _parts(rows, points)
        return {
            "steps": [self._steps[part[-1]] for part in parts],
            "series": {
                key: [_mean(self._columns[key], part) for part in parts] for key in keys if key in self._columns
            },
        }

    def _add(self, metrics: Mapping[str, Any]) -> None:
        step = metrics.get(_STEP)
        if not isinstance(step, int):
            raise RecordError(f"{METRICS} of {self._place.name} has a line without a step")
        if not self._steps or self._steps[-1] != step:
            self._steps.append(step)
            for column in self._columns.values():
                column.append(nan)
        for key, value in metrics.items():
            if key != _STEP and isinstance(value, int | float):
                if key not in self._columns:
                    self._columns[key] = array("d", [nan]) * len(self._steps)
                self._columns[key][-1] = value


def _parts(rows: Sequence[int], num: int) -> list[Sequence[int]]:
    """Rows in at most `num` parts of nearly equal size."""
    num = min(num, len(rows))
    edges = [round(k * len(rows) / num) for k in range(num + 1)] if num else [0]
    return [rows[a:b] for a, b in itertools.pairwise(edges)]


def _mean(column: array[float], rows: Sequence[int]) -> float | None:
    values = [column[row] for row in rows if not isnan(column[row])]
    return sum(values) / len(values) if values else None
