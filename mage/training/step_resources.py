"""Time and memory of a step: seconds of rollout and graph capture, memory of host and GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from mage.engines.local.engine import LocalEngine

_MEMORY = Path("/proc/self/status")


class StepResources:
    """Accumulates the resources of a step until `take` is called."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._rollout_s = 0.0
        self._captured_s = engine.capture_s

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Count the time inside as rollout."""
        begun = time.perf_counter()
        yield
        self._rollout_s += time.perf_counter() - begun

    def take(self) -> dict[str, float]:
        """The times since the last call, and the memory in use now."""
        found = {"rollout_s": self._rollout_s, "capture_s": self._engine.capture_s - self._captured_s}
        self._rollout_s, self._captured_s = 0.0, self._engine.capture_s
        if _MEMORY.exists():
            lines = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines())
            found["host_gib"] = int(lines["VmRSS"].split()[0]) / 2**20
        if torch.cuda.is_available():
            found["gpu_gib"] = torch.cuda.memory_allocated() / 2**30
            found["gpu_reserved_gib"] = torch.cuda.memory_reserved() / 2**30
        return found
