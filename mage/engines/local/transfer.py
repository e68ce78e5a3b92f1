"""Asynchronous copies between host and device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def upload(numbers: np.ndarray[Any, Any], device: torch.device) -> Tensor:
    """Copy an array to the device without waiting; kernels queued after this see it."""
    held = torch.from_numpy(np.ascontiguousarray(numbers))  # a strided copy would be synchronous
    return held.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else held


class AsyncCopy:
    """A copy of a device tensor to the host in flight; `read` waits for it and for nothing queued later."""

    def __init__(self, found: Tensor) -> None:
        self._found = found.to("cpu", non_blocking=True)  # into pinned memory if it is on a GPU
        self._arrived = torch.cuda.Event() if found.is_cuda else None  # type: ignore[no-untyped-call]
        if self._arrived is not None:
            self._arrived.record()

    def read(self) -> Tensor:
        """The tensor on the host."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._found
