"""Resolves the device and dtype of a config on this machine, and configures PyTorch."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from mage.errors import ConfigError
from mage.types import Device, Dtype

SMALL_MODEL = 10_000_000
"""Parameters below which an operation runs in one thread."""
_PER_CORE, _ALWAYS = 4, 8
"""Processes of one run that a machine may have for each core, and on any machine."""


class Placement(NamedTuple):
    """A device and a dtype by their PyTorch names."""

    device: str
    dtype: str


def resolve_placement(device: Device, dtype: Dtype) -> Placement:
    """The device and dtype of a config on this machine; an error if cuda is named and missing.

    >>> resolve_placement(Device.CPU, Dtype.AUTO)
    Placement(device='cpu', dtype='float32')
    """
    has_cuda = device is not Device.CPU and _has_cuda()
    if device is Device.CUDA and not has_cuda:
        raise ConfigError("device = 'cuda': PyTorch finds no CUDA device here; use cpu, or auto for whatever there is")
    chosen = Device.CUDA if has_cuda else Device.CPU
    if dtype is Dtype.AUTO:
        dtype = Dtype.BFLOAT16 if has_cuda else Dtype.FLOAT32
    return Placement(chosen.value, dtype.value)


def num_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_processes(asked: str, num: int) -> None:
    """Raise a ConfigError for more processes than this machine can hold: with PyTorch each takes half a GiB."""
    cores = num_cores()
    most = max(_ALWAYS, _PER_CORE * cores)
    if num > most:
        raise ConfigError(f"{asked}: {num} processes are too many for {cores} cores; allowed are at most {most}")


def configure_torch(placement: Placement) -> None:
    """Set deterministic algorithms on a CPU."""
    import torch

    torch.use_deterministic_algorithms(placement.device == "cpu")
    # No code reads uninitialised memory, so filling it would only cost time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def with_dtype(model: Any, dtype: Any) -> Any:
    """Convert a model's parameters to a dtype of PyTorch.

    Buffers keep theirs: rotary frequencies that are rounded to bfloat16 turn far positions too little or too much.
    """
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model


def share_threads(model: Any, threads: int) -> int:
    """Divide CPU threads between one operation and the learner; returns how many micro-batches it takes at a time.

    The operations of a small model are too short to be split: they run in one thread each, and the learner computes
    whole micro-batches side by side. Larger models, and those on a GPU, use all threads in each operation.
    """
    import torch

    is_on_cpu = next(model.parameters()).device.type == "cpu"
    is_small = is_on_cpu and sum(weight.numel() for weight in model.parameters()) < SMALL_MODEL
    torch.set_num_threads(1 if is_small else threads)
    return threads if is_small else 1


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()
