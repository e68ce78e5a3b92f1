"""Checkpoints: a Hugging Face directory plus what an exact continuation needs. Safetensors and JSON, no pickle.

    checkpoints/step-000100/
        config.json model.safetensors tokenizer.json …   loads with transformers; where an adapter is trained,
        adapter_config.json adapter_model.safetensors    instead of the model: loads with PEFT
        optimizer.safetensors                            master weights, the optimizer's tensors, a value head's
        state.json                                       step, statistics, counters, lengths of the logs
        README.md                                        a model card
        league.json learners/                            of a league, whose leader all the rest is: everybody else

A checkpoint is written under another name and renamed when complete, so one that exists is whole.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import msgspec
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from mage.credit.stats import Stats
from mage.errors import RecordError
from mage.files import write_atomically
from mage.learners.local import Learner
from mage.models.load import LoadedModel
from mage.training.alarms import AlarmState
from mage.training.task_replay import PlayedTask

_PREFIX = "step-"
_WRITING, _DELETING = ".writing-", ".deleting-"


class TrainState(msgspec.Struct, frozen=True):
    """What a run is beside its weights."""

    step: int
    """Steps completed."""
    stats: Stats
    """The estimator's statistics."""
    learner: Mapping[str, float]
    lines: Mapping[str, int]
    """How long each log was, so that a resumed run writes the rest anew."""
    best: tuple[float, int] | None
    """The best mean score on the splits, and its step."""
    healthy: int | None
    """The step of the checkpoint that an alarm goes back to."""
    watch: AlarmState
    rollbacks: int
    played_tasks: tuple[PlayedTask, ...] = msgspec.field(default=(), name="met")
    """The tasks that may be replayed; `met` in the file."""


def save_checkpoint(
    folder: Path,
    loaded: LoadedModel,
    learner: Learner,
    state: TrainState,
    card: str,
    write_extra: Callable[[Path], None],
) -> Path:
    """Write everything, `write_extra` included, then give it its name."""
    target = checkpoint_path(folder, state.step)
    scratch = folder / f"{_WRITING}{target.name}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    learner.save(scratch, loaded.name)
    loaded.tokenizer.save_pretrained(scratch)
    tensors, _ = learner.state()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, scratch / "optimizer.safetensors")
    (scratch / "README.md").write_text(card, encoding="utf-8")
    write_atomically(scratch / "state.json", msgspec.json.format(msgspec.json.encode(state), indent=1))
    write_extra(scratch)
    for path in (*scratch.rglob("*"), scratch):
        fsync(path)
    scratch.rename(target)
    fsync(folder)
    return target


def load_checkpoint(path: Path, learner: Learner) -> TrainState:
    """Put a checkpoint's weights and optimizer into the learner and return the rest."""
    state = read_state(path)
    if not (path / learner.weights_file).is_file():
        raise RecordError(f"{path} has no {learner.weights_file} to go on with; is learner.lora_rank what it was?")
    try:
        weights, tensors = load_file(path / learner.weights_file), load_file(path / "optimizer.safetensors")
    except (OSError, SafetensorError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from None
    learner.restore(weights, tensors, state.learner)
    return state


def read_state(path: Path) -> TrainState:
    """The state of a checkpoint."""
    try:
        return msgspec.json.decode((path / "state.json").read_bytes(), type=TrainState)
    except (OSError, msgspec.DecodeError) as error:
        raise RecordError(f"{path} is not a checkpoint: {error}") from None


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is, or will be."""
    return folder / f"{_PREFIX}{step:06d}"


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    found = [p for p in folder.glob(f"{_PREFIX}*") if (p / "state.json").is_file()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(_PREFIX)))


def prune(folder: Path, keep: int, keep_steps: Collection[int | None]) -> None:
    """Delete all but the newest `keep` checkpoints and those of the steps in `keep_steps`, and what a kill left behind."""
    spared = [checkpoint_path(folder, step) for step in keep_steps if step is not None]
    for path in checkpoints(folder)[:-keep]:
        if path not in spared:
            # Renamed first, so that a kill in between leaves no checkpoint that lacks a file.
            path.rename(path.with_name(f"{_DELETING}{path.name}"))
    for leftover in (*folder.glob(f"{_WRITING}*"), *folder.glob(f"{_DELETING}*")):
        shutil.rmtree(leftover)


def fsync(path: Path) -> None:
    """Let what was written to a file or a folder outlive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
