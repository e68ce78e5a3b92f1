"""Where a model lives and in which numbers: what a config asks for becomes what this machine has."""

from __future__ import annotations

from typing import NamedTuple

from mage.errors import ConfigError
from mage.types import Device, Dtype


class Placement(NamedTuple):
    """A device that exists and a dtype, by the names that PyTorch has for them."""

    device: str
    dtype: str


def placed(device: Device, dtype: Dtype) -> Placement:
    """What a config's device and dtype are on this machine; CUDA asked for by name must be there.

    >>> placed(Device.CPU, Dtype.AUTO)
    Placement(device='cpu', dtype='float32')
    """
    has_cuda = device is not Device.CPU and _has_cuda()
    if device is Device.CUDA and not has_cuda:
        raise ConfigError("device = 'cuda': PyTorch finds no CUDA device here; use cpu, or auto for whatever there is")
    chosen = Device.CUDA if has_cuda else Device.CPU
    if dtype is Dtype.AUTO:
        dtype = Dtype.BFLOAT16 if has_cuda else Dtype.FLOAT32
    return Placement(chosen.value, dtype.value)


def settle(placement: Placement, threads: int) -> None:
    """Let PyTorch compute with this many threads, and the same way every time where that can be had."""
    import torch

    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(placement.device == "cpu")
    # Nothing here reads what nobody wrote, so filling fresh memory would only cost time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()
