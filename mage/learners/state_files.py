"""The files of a learner's state: its weights, all other tensors, and the checksums of both.

A learner of several ranks writes the other tensors in parts: a folder instead of a file. Either is read by any learner.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from mage.errors import RecordError
from mage.files import CHECKSUMS, verify_checksums, write_checksums
from mage.protocols import Learner, ShardedFiles
from mage.weights import LearnerState

OPTIMIZER, SHARDS = "optimizer.safetensors", "optimizer"


def write_tensors(folder: Path, learner: Learner, base: str) -> None:
    """Write the weights in their layout, with the name of the base of an adapter, and all other tensors."""
    shutil.rmtree(folder / SHARDS, ignore_errors=True)  # of another number of ranks
    (folder / OPTIMIZER).unlink(missing_ok=True)
    learner.save(folder, base)
    if isinstance(learner, ShardedFiles):
        learner.save_shards(folder / SHARDS)
    else:
        tensors = learner.state().tensors
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / OPTIMIZER)
    write_checksums(folder)


def check_folder(folder: Path, learner: Learner) -> None:
    """Raise a `RecordError` where the files of a learner cannot be written to a folder by all that write them."""
    if isinstance(learner, ShardedFiles):
        learner.check_folder(folder)


def read_tensors(folder: Path, learner: Learner) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
    """The weights and all other tensors, whole, that a learner of this kind wrote."""
    _check(folder)
    try:
        weights = load_file(folder / learner.weights_file)
        tensors = _merged(folder / SHARDS) if (folder / SHARDS).is_dir() else load_file(folder / OPTIMIZER)
    except (OSError, SafetensorError) as error:
        raise RecordError(f"{folder} cannot be read: {error}") from None
    return weights, tensors


def restore_tensors(folder: Path, learner: Learner, numbers: Mapping[str, float]) -> None:
    """Continue from the files of a state, with its counters."""
    if isinstance(learner, ShardedFiles):
        _check(folder)
        learner.restore_files(folder, numbers)
    else:
        learner.restore(LearnerState(*read_tensors(folder, learner), numbers))


def numbers_of(learner: Learner) -> Mapping[str, float]:
    """The counters of a learner's state."""
    return learner.numbers() if isinstance(learner, ShardedFiles) else learner.state().numbers


def _check(folder: Path) -> None:
    """Raise a `RecordError` where a file is not what was written. A shard that is missing would leave a hole."""
    if (folder / SHARDS).is_dir() and not (folder / CHECKSUMS).is_file():
        raise RecordError(f"{folder / CHECKSUMS} is missing, which names the files of {SHARDS}")
    verify_checksums(folder)
    if not ((folder / SHARDS).is_dir() or (folder / OPTIMIZER).is_file()):
        raise RecordError(f"{folder} cannot be read: it has no {OPTIMIZER}")


def _merged(folder: Path) -> dict[str, Tensor]:
    """The whole tensors of a folder of shards."""
    from mage.learners.sharded.files import read_stored, stored  # loads more of torch, which most runs do not need

    tensors = {name: torch.empty(each.shape, dtype=each.dtype) for name, each in stored(folder).items()}
    read_stored(folder, tensors)
    return tensors
