"""Checkpoints: a Hugging Face directory, plus the state for an exact continuation. No pickle.

    checkpoints/step-000100/
        config.json model.safetensors tokenizer.json …   loads with transformers; where an adapter is trained,
        adapter_config.json adapter_model.safetensors    instead of the model: loads with PEFT
        optimizer.safetensors                            master weights, the optimizer's tensors, a value head's; with
        optimizer/                                       `learner.ranks` a folder, to which each rank writes its part
        state.json                                       step, statistics, counters, lengths of the logs
        checksums.json                                   of tensors and `ahead.msgpack`, verified on loading
        README.md                                        a model card
        ahead.msgpack                                    with `rollout.lag`: trials that are still to be learned from
        league.json learners/                            of a league only: its state and all learners; the files above
                                                         are the leader's

A checkpoint is written under another name and renamed when complete, so one that exists is complete. Other names beside
them, such as copies, are left alone. `saved.json` beside the folder has the step that was saved last.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import msgspec

from mage.credit.running_stats import Stats
from mage.errors import RecordError
from mage.files import BAD_JSON, fsync, write_atomically
from mage.league.payoffs import PayoffCell
from mage.learners.state_files import restore_tensors, write_tensors
from mage.models.load import LoadedModel
from mage.protocols import Learner
from mage.training.alarms import AlarmState
from mage.training.task_replay import PlayedTask

CHECKPOINTS, SAVED, AHEAD = "checkpoints", "saved.json", "ahead.msgpack"
_PREFIX = "step-"
_NAME = re.compile(rf"{_PREFIX}([0-9]+)")
_WRITING, _DELETING = ".writing-", ".deleting-"


class TrainState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a run besides weights and optimizer tensors."""

    step: int
    """Steps completed."""
    stats: Stats
    """The estimator's statistics."""
    learner: Mapping[str, float]
    lines: Mapping[str, int]
    """Lines of each log, so that a resumed run continues from there."""
    best: tuple[float, int] | None
    """The best mean score on the splits, and its step."""
    healthy: int | None
    """The step of the checkpoint that an alarm rolls back to."""
    watch: AlarmState
    rollbacks: int
    played_tasks: tuple[PlayedTask, ...] = msgspec.field(name="met")
    """The tasks that the only learner of a run may replay; `met` in the file."""
    learners_played_tasks: Mapping[str, tuple[PlayedTask, ...]] = msgspec.field(default={}, name="learners_met")
    """The same by learner of a league."""
    payoffs: Mapping[str, Mapping[str, PayoffCell]] = {}
    """The pay-offs of one learner, where opponents are drawn by them; those of a league are in `league.json`."""


def save_checkpoint(
    folder: Path,
    loaded: LoadedModel,
    learner: Learner,
    state: TrainState,
    card: str,
    write_extra: Callable[[Path], None],
) -> Path:
    """Write a checkpoint; `write_extra` adds files to its folder before it is complete."""
    target = checkpoint_path(folder, state.step)
    scratch = folder / f"{_WRITING}{target.name}"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir(parents=True)
        write_tensors(scratch, learner, loaded.name)
        loaded.tokenizer.save_pretrained(scratch)
        (scratch / "README.md").write_text(card, encoding="utf-8")
        write_atomically(scratch / "state.json", msgspec.json.format(msgspec.json.encode(state), indent=1))
        write_extra(scratch)
        for path in (*scratch.rglob("*"), scratch):
            fsync(path)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)  # room on a full disk
    fsync(folder)
    return target


def note_saved(run: Path, step: int) -> None:
    """Note beside the checkpoints that there is one, so that their loss is not taken for a run that was never saved."""
    if step > 0:
        write_atomically(run / SAVED, msgspec.json.encode({"step": step}))


def load_checkpoint(path: Path, learner: Learner) -> TrainState:
    """Load a checkpoint's weights and optimizer into the learner and return the rest of the state."""
    state = read_state(path)
    if not (path / learner.weights_file).is_file():
        raise RecordError(f"{path} has no {learner.weights_file} to go on with; is learner.lora_rank what it was?")
    restore_tensors(path, learner, state.learner)
    return state


def read_state(path: Path) -> TrainState:
    """The state of a checkpoint."""
    try:
        return msgspec.json.decode((path / "state.json").read_bytes(), type=TrainState)
    except (OSError, *BAD_JSON) as error:
        raise RecordError(f"{path} is not a checkpoint: {error}") from None


def checkpoint_path(folder: Path, step: int) -> Path:
    """The path of a step's checkpoint, whether it exists or not."""
    return folder / f"{_PREFIX}{step:06d}"


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return [path for path in _folders(folder) if (path / "state.json").is_file()]


def newest_checkpoint(run: Path) -> Path | None:
    """The newest checkpoint of a run; None before the first. Raises a `RecordError` where what was saved is gone."""
    folder = run / CHECKPOINTS
    found = _folders(folder)
    if not found and _was_saved(run):
        raise RecordError(
            f"{folder} has no checkpoint, and the run was saved before; put the folder back, or begin a new run"
        )
    if found and not (found[-1] / "state.json").is_file():
        rest = f"delete it to go on from {found[-2].name}" if found[1:] else "begin a new run"
        raise RecordError(f"{found[-1]} has no state.json, so it is not complete; put the file back, or {rest}")
    return found[-1] if found else None


def _folders(folder: Path) -> list[Path]:
    """All folders with the name of a checkpoint, oldest first."""
    steps = [int(name[1]) for path in folder.glob(f"{_PREFIX}*") if (name := _NAME.fullmatch(path.name))]
    return [path for step in sorted(set(steps)) if (path := checkpoint_path(folder, step)).is_dir()]


def _was_saved(run: Path) -> bool:
    """Whether a checkpoint was ever complete; earlier versions leave only the evaluation of a finished run to tell."""
    return (run / SAVED).exists() or (run / "evaluations" / "final.json").exists()


def prune(folder: Path, keep: int, keep_steps: Collection[int | None]) -> None:
    """Delete all but the newest `keep` checkpoints and those of `keep_steps`, and incomplete folders."""
    spared = [checkpoint_path(folder, step) for step in keep_steps if step is not None]
    for path in checkpoints(folder)[:-keep]:
        if path not in spared:
            # Renamed first, so that a kill in between leaves no incomplete checkpoint.
            path.rename(path.with_name(f"{_DELETING}{path.name}"))
    for leftover in (*folder.glob(f"{_WRITING}*"), *folder.glob(f"{_DELETING}*")):
        shutil.rmtree(leftover)
