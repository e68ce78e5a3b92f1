"""Reads the plan of a sweep: every run to make, with its whole config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mage.errors import RecordError
from mage.plugins import Plugin

SCHEMA = 2
SWEEP = "sweep.json"


class PlannedRun(msgspec.Struct, frozen=True):
    """A run of a sweep."""

    name: str
    recipe: str
    config: Mapping[str, Any]


class SweepPlan(msgspec.Struct, frozen=True):
    """All runs of a sweep, in order."""

    schema: int
    runs: tuple[PlannedRun, ...]
    max_minutes: float | None
    """Minutes of training per run."""
    plugins: tuple[Plugin, ...] | msgspec.UnsetType = msgspec.UNSET
    """What was imported for it; not written where there is nothing."""


def read_plan(folder: Path) -> SweepPlan:
    """Read the plan of a sweep; raises `RecordError`."""
    try:
        plan = msgspec.json.decode((folder / SWEEP).read_bytes(), type=SweepPlan)
    except OSError:
        raise RecordError(f"{folder} is not a sweep; a sweep is a directory with a {SWEEP}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError(f"{folder / SWEEP} cannot be read: {error}") from None
    if plan.schema != SCHEMA:
        raise RecordError(f"{folder} has schema version {plan.schema}; this version of mage reads {SCHEMA}")
    return plan
