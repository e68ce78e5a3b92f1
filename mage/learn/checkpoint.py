"""Checkpoints: a Hugging Face directory plus what an exact continuation needs. Safetensors and JSON, no pickle.

    checkpoints/step-000100/
        config.json model.safetensors tokenizer.json …   loads with transformers
        optimizer.safetensors                            the optimizer's tensors, and a value head's
        state.json                                       step, statistics, counters, lengths of the logs
        README.md                                        a model card

A checkpoint is written under another name and renamed when complete, so one that exists is whole.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from safetensors.torch import load_file, save_file

from mage.alarms import Watch
from mage.credit.stats import Stats
from mage.errors import RecordError
from mage.learn.learner import Learner
from mage.record.files import write_atomically

_PREFIX = "step-"


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
    watch: Watch
    rollbacks: int


def save_checkpoint(folder: Path, model: Any, tokenizer: Any, learner: Learner, state: TrainState, card: str) -> Path:
    """Write everything, then give it its name."""
    target = folder / f"{_PREFIX}{state.step:06d}"
    scratch = folder / f".writing-{target.name}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    model.save_pretrained(scratch)
    tokenizer.save_pretrained(scratch)
    tensors, _ = learner.state()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, scratch / "optimizer.safetensors")
    (scratch / "README.md").write_text(card, encoding="utf-8")
    write_atomically(scratch / "state.json", msgspec.json.format(msgspec.json.encode(state), indent=1))
    for path in scratch.iterdir():
        _sync(path)
    if target.exists():
        shutil.rmtree(target)
    scratch.rename(target)
    _sync(folder)
    return target


def load_checkpoint(path: Path, learner: Learner) -> TrainState:
    """Put a checkpoint's weights and optimizer into the learner and return the rest."""
    state = read_state(path)
    weights = load_file(path / "model.safetensors")
    learner.restore(weights, load_file(path / "optimizer.safetensors"), state.learner)
    return state


def read_state(path: Path) -> TrainState:
    """The state of a checkpoint."""
    try:
        return msgspec.json.decode((path / "state.json").read_bytes(), type=TrainState)
    except (OSError, msgspec.DecodeError) as error:
        raise RecordError(f"{path} is not a checkpoint: {error}") from None


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(p for p in folder.glob(f"{_PREFIX}*") if (p / "state.json").is_file())


def prune(folder: Path, keep: int, best: Path | None) -> None:
    """Delete all but the newest `keep` checkpoints and the best one."""
    for path in checkpoints(folder)[:-keep]:
        if path != best:
            doomed = path.with_name(f".deleting-{path.name}")
            path.rename(doomed)
            shutil.rmtree(doomed)
    for leftover in folder.glob(".writing-*"):
        shutil.rmtree(leftover)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
