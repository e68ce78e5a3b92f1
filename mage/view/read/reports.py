"""Evaluation reports of a run by name, and the exact bounds in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mage.files import BAD_JSON
from mage.view.read.folder import NASHCONV, Location

EVALUATIONS = "evaluations"
_OWN = ("report.json", "reflections.json", "crossplay.json", NASHCONV, "summary.json")
"""Reports that evaluations, cross-play, NashConv and sweeps write beside their trials."""


class _Myopic(msgspec.Struct):
    high: float


class _References(msgspec.Struct):
    memoryless: float | None = None
    myopic: _Myopic | None = None
    bayes_last: float | None = None
    equilibrium: float | None = None


class _Split(msgspec.Struct):
    split: str
    references: tuple[tuple[int, _References], ...] = ()


class _Report(msgspec.Struct):
    reports: tuple[_Split, ...] = ()


def evaluation_files(place: Location) -> Mapping[str, tuple[str, ...]]:
    """All reports of a run by name, the final evaluation first; links are left out."""
    folder = place.path / EVALUATIONS
    found: dict[str, tuple[str, ...]] = {}
    if folder.is_dir() and not folder.is_symlink():
        files = [path.name for path in folder.glob("*.json") if path.is_file() and not path.is_symlink()]
        shown = (name for name in files if name.isprintable())  # others cannot be put into JSON
        for name in sorted(shown, key=lambda name: (name != "final.json", name)):
            found[name.removesuffix(".json")] = (EVALUATIONS, name)
    own = [name for name in _OWN if (place.path / name).is_file() and not (place.path / name).is_symlink()]
    return found | {name.removesuffix(".json"): (name,) for name in own}


def bounds_of(place: Location) -> Mapping[str, Any]:
    """The exact reference values by split, averaged over seats, from the first report that has them."""
    bounds: dict[str, Any] = {}
    for parts in evaluation_files(place).values():
        try:
            report = msgspec.json.decode(place.file(*parts).read_bytes(), type=_Report)
        except BAD_JSON:
            continue  # not a report on splits; opening it shows the error
        for split in report.reports:
            found = [references for _, references in split.references]
            metrics = averaged(
                [references.memoryless for references in found],
                [None if references.myopic is None else references.myopic.high for references in found],
                [references.bayes_last for references in found],
                [references.equilibrium for references in found],
            )
            bounds.setdefault(split.split, metrics)
    return bounds


def averaged(
    memoryless: Sequence[float | None],
    myopic: Sequence[float | None],
    limit: Sequence[float | None],
    equilibrium: Sequence[float | None],
) -> dict[str, float | None]:
    """Means over seats of the exact values, of myopic Bayes with ties broken best; None if one is missing."""
    values = {"memoryless": memoryless, "myopic": myopic, "limit": limit, "equilibrium": equilibrium}
    return {name: _mean(by_seat) for name, by_seat in values.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
