"""The steps of the decoder on a device: kernels of our own on a GPU, plain PyTorch elsewhere."""

from __future__ import annotations

from types import ModuleType

import torch


def ops_for(device: torch.device) -> ModuleType:
    """The module that has them."""
    if device.type == "cuda":
        from mage.engines.local import kernels

        return kernels
    from mage.engines.local import torch_ops

    return torch_ops
