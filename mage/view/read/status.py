"""How a run stands, as far as its files tell."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from mage.files import is_file_locked
from mage.runs.index import TRIALS
from mage.view.read.folder import Location

CHECKPOINTS = "checkpoints"
_STEP = "step-"


class Status(StrEnum):
    """What became of a run so far."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    CRASHED = "crashed"
    ALARMED = "alarmed"
    BROKEN = "broken"


class RunStatus(NamedTuple):
    """A status, and one sentence on it where there is something to say."""

    status: Status
    why: str


def checkpoint_steps(place: Location) -> list[int]:
    """The steps of complete checkpoints, oldest first; links among them do not count."""
    folder = place.path / CHECKPOINTS
    if folder.is_symlink() or not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if not path.is_symlink() and (path / "state.json").is_file()]
    steps = [path.name.removeprefix(_STEP) for path in found if path.name.startswith(_STEP)]
    return sorted(int(step) for step in steps if step.isdecimal())


def checkpoint_name(step: int) -> str:
    """What the directory of a checkpoint is called."""
    return f"{_STEP}{step:06d}"


def train_standing(place: Location, steps: int, step: int, alarm: str, is_halted: bool) -> RunStatus:
    """How a train run stands that has logged so many of its steps.

    `alarm` is its newest one, or empty; `is_halted` says that it sounded at the last step and was not only printed.
    """
    if is_file_locked(place.path / TRIALS):
        return RunStatus(Status.RUNNING, alarm)
    if (place.path / "evaluations" / "final.json").is_file():
        return RunStatus(Status.FINISHED, "")
    if is_halted:
        return RunStatus(Status.ALARMED, alarm)
    saved = checkpoint_steps(place)
    if saved and saved[-1] == step:
        return RunStatus(Status.STOPPED, f"stopped after {step} of {steps} steps; mage train --resume goes on")
    return RunStatus(Status.CRASHED, f"ended without a word at step {step} of {steps}; mage train --resume goes on")


def played_standing(place: Location, num_trials: int, wanted: int | None, reports: tuple[str, ...]) -> RunStatus:
    """How a run stands that trains nobody: it is done with as many trials as `wanted`, or with one of the `reports`."""
    if is_file_locked(place.path / TRIALS):
        return RunStatus(Status.RUNNING, "")
    if reports and not any(place.has(name) for name in reports):
        return RunStatus(Status.STOPPED, f"ended after {num_trials} trials, before it was done")
    if wanted is not None and num_trials < wanted:
        return RunStatus(Status.STOPPED, f"ended after {num_trials} of {wanted} trials")
    return RunStatus(Status.FINISHED, "")
