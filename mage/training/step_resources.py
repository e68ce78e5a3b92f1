"""Time and memory of a step: seconds of rollout, metrics of the policy server, memory of host and GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from mage.protocols import PolicyServer

_MEMORY = Path("/proc/self/status")


class StepResources:
    """Accumulates the resources of a step until `take` is called."""

    def __init__(self, server: PolicyServer) -> None:
        self._server = server
        self._rollout_s = 0.0
        self._sources: list[Callable[[], Mapping[str, float]]] = []
        self._taken = dict(server.metrics())

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Count the time inside as rollout."""
        begun = time.perf_counter()
        yield
        self._rollout_s += time.perf_counter() - begun

    def add_source(self, metrics: Callable[[], Mapping[str, float]]) -> None:
        """A source of further metrics, which is asked at the end of each step."""
        self._sources.append(metrics)

    def take(self) -> dict[str, float]:
        """The times and the growth of the server's metrics since the last call, and the memory in use now."""
        totals = dict(self._server.metrics())
        grown = {name: total - self._taken.get(name, 0.0) for name, total in totals.items()}
        found = {"rollout_s": self._rollout_s, **grown}
        for source in self._sources:
            found |= source()
        self._rollout_s, self._taken = 0.0, totals
        if (gib := host_gib()) is not None:
            found["host_gib"] = gib
        if torch.cuda.is_available():
            found["gpu_gib"] = torch.cuda.memory_allocated() / 2**30
            found["gpu_reserved_gib"] = torch.cuda.memory_reserved() / 2**30
        return found


def host_gib() -> float | None:
    """The memory of this process, where the system tells it."""
    if not _MEMORY.exists():
        return None
    lines = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines())
    return int(lines["VmRSS"].split()[0]) / 2**20
