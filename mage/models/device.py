"""Resolves the device and dtype of a config on this machine, and configures PyTorch."""

from __future__ import annotations

from typing import NamedTuple

from mage.errors import ConfigError
from mage.types import Device, Dtype


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


def configure_torch(placement: Placement, threads: int) -> None:
    """Set PyTorch's number of threads, and deterministic algorithms on a CPU."""
    import torch

    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(placement.device == "cpu")
    # No code reads uninitialised memory, so filling it would only cost time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()
