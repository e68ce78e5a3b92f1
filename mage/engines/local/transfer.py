"""Numbers on their way between host and device, without either waiting for the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def upload(numbers: np.ndarray[Any, Any], device: torch.device) -> Tensor:
    """Numbers for work that is queued after this; the host does not wait until they have arrived."""
    held = torch.from_numpy(np.ascontiguousarray(numbers))  # a copy with gaps would make the host wait
    return held.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else held


class Fetched:
    """Numbers that the device is still computing; `read` waits for them and for nothing that is queued later."""

    def __init__(self, found: Tensor) -> None:
        self._found = found.to("cpu", non_blocking=True)  # into pinned memory, where found is on a GPU
        self._arrived = torch.cuda.Event() if found.is_cuda else None  # type: ignore[no-untyped-call]
        if self._arrived is not None:
            self._arrived.record()

    def read(self) -> Tensor:
        """The numbers, on the host."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._found
