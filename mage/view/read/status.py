"""The status of a run, derived from its files."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from mage.files import is_file_locked
from mage.runs.index import TRIALS
from mage.view.read.folder import Location

CHECKPOINTS = "checkpoints"
_STEP = "step-"


class Status(StrEnum):
    """The status of a run."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    CRASHED = "crashed"
    ALARMED = "alarmed"
    BROKEN = "broken"


class RunStatus(NamedTuple):
    """A status with one sentence on why, or an empty one."""

    status: Status
    why: str


def checkpoint_steps(place: Location) -> list[int]:
    """The steps of complete checkpoints, oldest first; links are ignored."""
    folder = place.path / CHECKPOINTS
    if folder.is_symlink() or not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if not path.is_symlink() and (path / "state.json").is_file()]
    steps = [path.name.removeprefix(_STEP) for path in found if path.name.startswith(_STEP)]
    return sorted(int(step) for step in steps if step.isdecimal())


def checkpoint_name(step: int) -> str:
    """The directory name of a checkpoint."""
    return f"{_STEP}{step:06d}"


def train_status(place: Location, steps: int, step: int, alarm: str, is_halted: bool, error: str = "") -> RunStatus:
    """The status of a train run that has logged `step` of its `steps`.

    `alarm` is the newest alarm, or empty; `is_halted` if it was at the last step and had an action other than print.
    `error` is the one that ended the run, where it was recorded.
    """
    if is_file_locked(place.path / TRIALS):
        return RunStatus(Status.RUNNING, alarm)
    if (place.path / "evaluations" / "final.json").is_file():
        return RunStatus(Status.FINISHED, "")
    if error:
        why = f"ended after {step} of {steps} steps by an error; mage train --resume goes on: {error}"
        return RunStatus(Status.CRASHED, why)
    if is_halted:
        return RunStatus(Status.ALARMED, alarm)
    saved = checkpoint_steps(place)
    if saved and saved[-1] == step:
        return RunStatus(Status.STOPPED, f"stopped after {step} of {steps} steps; mage train --resume goes on")
    return RunStatus(Status.CRASHED, f"ended without a word at step {step} of {steps}; mage train --resume goes on")


def play_status(place: Location, num_trials: int, wanted: int | None, reports: tuple[str, ...]) -> RunStatus:
    """The status of a run without training: finished after `wanted` trials, or with one of the `reports`."""
    if is_file_locked(place.path / TRIALS):
        return RunStatus(Status.RUNNING, "")
    if reports and not any(place.has(name) for name in reports):
        return RunStatus(Status.STOPPED, f"ended after {num_trials} trials, before it was done")
    if wanted is not None and num_trials < wanted:
        return RunStatus(Status.STOPPED, f"ended after {num_trials} of {wanted} trials")
    return RunStatus(Status.FINISHED, "")
