"""The clock of a run: seconds of each step, written to timings.jsonl."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from mage.files import JsonLines
from mage.training.step_resources import StepResources

TIMINGS = "timings.jsonl"


class StepTimings:
    """Measures steps, the first from the moment when this is made."""

    def __init__(self, folder: Path, resources: StepResources) -> None:
        self._resources = resources
        self._lines = JsonLines(folder / TIMINGS)
        self._started = self._stepped = time.perf_counter()
        self._steps_done = 0
        self._evaluation_s = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run was started or resumed."""
        return time.perf_counter() - self._started

    def note_evaluation(self) -> None:
        """Count the time since the last step as an evaluation's."""
        self._evaluation_s = time.perf_counter() - self._stepped

    def record(self, step: int, metrics: Mapping[str, float]) -> dict[str, float]:
        """Write and return the timings of a step."""
        now = time.perf_counter()
        seconds = now - self._stepped
        self._stepped = now
        self._steps_done += 1
        timings = {
            "steps_done": self._steps_done,
            "step_s": seconds,
            "evaluation_s": self._evaluation_s,
            "elapsed_s": now - self._started,
            "tokens_per_s": metrics.get("learner/tokens", 0.0) / max(seconds, 1e-9),
            **self._resources.take(),
        }
        self._evaluation_s = 0.0
        self._lines.append({"step": step, **timings})
        return timings

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
