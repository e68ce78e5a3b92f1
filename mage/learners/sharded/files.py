"""Tensors in safetensors files of which each rank writes and reads its part, by torch's distributed checkpoint (DCP).

Files can be read by any number of ranks, and by one process without the others. A file of whole tensors is read alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from mage.errors import RecordError, library_errors

_FILE = 2**30
"""About how many bytes one file of a rank has: the writer holds them twice in memory of the host."""


class Stored(NamedTuple):
    """A tensor in files."""

    name: str
    shape: torch.Size
    dtype: torch.dtype


def write_shards(folder: Path, tensors: Mapping[str, Tensor], group: ProcessGroup) -> None:
    """Write each rank's part of the tensors to files of its own; tensors that all ranks have are written once.

    All ranks call it. Where one fails, all raise the same `RecordError`.
    """
    ends = accumulate(tensor.numel() * tensor.itemsize for tensor in tensors.values())
    files = {name: 1 + end // (_FILE * group.size()) for name, end in zip(tensors, ends, strict=True)}
    writer = HuggingFaceStorageWriter(str(folder), fqn_to_index_mapping=files, save_distributed=True)
    try:
        save(dict(tensors), storage_writer=writer, process_group=group)
    except CheckpointException as error:
        rank, cause = _first(error)
        said = f"{folder} cannot be written: rank {rank} of {group.size()}: {_line(cause)}"
        raise RecordError(said) from cause


def stored(folder: Path) -> dict[str, Stored]:
    """The tensors in the files of a folder by name; none where there is no such folder.

    A part that is in no file is refused: DCP would leave whatever the memory had before.
    """
    if not folder.is_dir():
        return {}
    with library_errors(lambda why: RecordError(f"{folder} cannot be read: {why}")):
        metadata = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    found = {name: each for name, each in metadata.items() if isinstance(each, TensorStorageMetadata)}
    for name, each in found.items():
        if sum(chunk.sizes.numel() for chunk in each.chunks) != each.size.numel():
            raise RecordError(f"{folder} cannot be read: a part of {name} is missing")
    return {name: Stored(name, each.size, each.properties.dtype) for name, each in found.items()}


def read_stored(folder: Path, into: Mapping[str, Tensor]) -> None:
    """Fill tensors from the files of a folder; of sharded ones only the part that this rank has is read."""
    if not into:
        return
    reader = HuggingFaceStorageReader(str(folder))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # each rank reads for itself
        try:
            load(dict(into), storage_reader=reader, no_dist=True)
        except CheckpointException as error:
            _, cause = _first(error)
            raise RecordError(f"{folder} cannot be read: {_line(cause)}") from cause


def _first(error: CheckpointException) -> tuple[int, Exception]:
    """The first rank that failed, and why. An interrupt, which DCP takes for a failure, is raised."""
    rank, (cause, _) = min(error.failures.items())
    if not isinstance(cause, Exception):
        raise cause
    return rank, cause


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
