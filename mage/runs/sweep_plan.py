"""Reads the plan of a sweep: every run to make, with its whole config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mage.config.vary import Scalar, value_text
from mage.errors import RecordError
from mage.files import BAD_JSON
from mage.plugins import Plugin

SCHEMA = 2
SWEEP = "sweep.json"


class PlannedRun(msgspec.Struct, frozen=True):
    """A run of a sweep."""

    name: str
    recipe: str
    config: Mapping[str, Any]
    varied: Mapping[str, Scalar] | msgspec.UnsetType = msgspec.UNSET
    """The value of the key that the sweep varies; not written where it varies none."""

    @property
    def label(self) -> str:
        """The recipe, with the value that is varied."""
        return label_with(self.recipe, self.varied)


class SweepPlan(msgspec.Struct, frozen=True):
    """All runs of a sweep, in order."""

    schema: int
    runs: tuple[PlannedRun, ...]
    max_minutes: float | None
    """Minutes of training per run."""
    plugins: tuple[Plugin, ...] | msgspec.UnsetType = msgspec.UNSET
    """What was imported for it; not written where there is nothing."""


def label_with(recipe: str, varied: Mapping[str, Scalar] | msgspec.UnsetType) -> str:
    """A recipe with the value that is varied.

    >>> label_with("scout+final", {"world.look": -0.4})
    'scout+final world.look=-0.4'
    """
    return " ".join([recipe, *(f"{key}={value_text(value)}" for key, value in (varied or {}).items())])


def read_plan(folder: Path) -> SweepPlan:
    """Read the plan of a sweep; raises `RecordError`."""
    try:
        plan = msgspec.json.decode((folder / SWEEP).read_bytes(), type=SweepPlan)
    except OSError:
        raise RecordError(f"{folder} is not a sweep; a sweep is a directory with a {SWEEP}") from None
    except BAD_JSON as error:
        raise RecordError(f"{folder / SWEEP} cannot be read: {error}") from None
    if plan.schema != SCHEMA:
        raise RecordError(f"{folder} has schema version {plan.schema}; this version of mage reads {SCHEMA}")
    return plan
