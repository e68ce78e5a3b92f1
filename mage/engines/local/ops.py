"""Chooses the decoder's operations by device: Triton kernels on a GPU, PyTorch elsewhere."""

from __future__ import annotations

from types import ModuleType

import torch


def ops_for(device: torch.device) -> ModuleType:
    """The module with the operations."""
    if device.type == "cuda":
        from mage.engines.local import kernels

        return kernels
    from mage.engines.local import torch_ops

    return torch_ops
