"""Events of a run: each is printed and appended to `events.jsonl`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from mage.evaluation.suite.evaluate import SplitReport
from mage.files import JsonLines

EVENTS = "events.jsonl"


class Display(Protocol):
    """Shows the progress of a run."""

    def step(self, step: int, metrics: Mapping[str, float], timings: Mapping[str, float]) -> None: ...

    def say(self, text: str) -> None: ...

    def phase(self, title: str, detail: str = "") -> None:
        """Say what is done from now on, until the next step ends or the next phase begins."""

    def show_evaluation(self, reports: Sequence[SplitReport]) -> None: ...


class EventLog:
    """Prints and records events."""

    def __init__(self, folder: Path, display: Display) -> None:
        self._lines = JsonLines(folder / EVENTS)
        self._display = display

    def record(self, text: str, event: Mapping[str, object]) -> None:
        """Print a line and record the event that it tells of."""
        self._display.say(text)
        self._lines.append(event)

    def close(self) -> None:
        """Force all events to the disk."""
        self._lines.close()
