"""Buffers that are shared as files instead of the memory of a GPU, so that a server on a CPU reads them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mage.engines.vllm import shared_loader, shared_weights
from mage.engines.vllm.shared_weights import Piece, SharedWeights

EXTENSION = f"{__name__}.FileShared"


def opened(shared: Mapping[str, Any]) -> Tensor:
    return torch.frombuffer(bytearray(Path(shared["path"]).read_bytes()), dtype=torch.uint8)


class FileShared(SharedWeights):
    """What is added to vLLM's workers; all but the opening of a buffer is the real one."""

    def load_shared_weights(self, shared: Mapping[str, Any], pieces: Sequence[Piece]) -> str:
        shared_weights.opened = opened  # in the worker's process
        return super().load_shared_weights(shared, pieces)


def share_files(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Weights on a CPU are taken to be on a GPU, and shared as files of a folder."""

    def share(buffer: Tensor) -> dict[str, Any]:
        handle, path = tempfile.mkstemp(dir=folder)
        os.close(handle)
        Path(path).write_bytes(buffer.numpy().tobytes())
        return {"path": path}

    monkeypatch.setattr(shared_loader, "card_of", lambda _: torch.device("cpu"))
    monkeypatch.setattr(shared_loader, "share", share)
