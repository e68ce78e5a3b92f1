"""The health of workers: what each did in a step, for timings.jsonl, and what happened to it, in workers.jsonl."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from mage.files import JsonLines

WORKERS = "workers.jsonl"
SLOW_S = 60.0
"""Seconds without an answer before a worker is called slow, at the least."""
_SLOW_FACTOR = 10
"""How many times longer than any chunk before the answer must take."""
_FIRST_S = 600.0
"""The same before any chunk has come back: the first one may compile kernels."""

Warn = Callable[[str], None]
"""Tells the user a sentence."""


class WorkerProcess(NamedTuple):
    """Where the process of a worker is."""

    host: str
    pid: int


class IncidentKind(StrEnum):
    """What can happen to a worker."""

    BUILT = "built"
    DIED = "died"
    BROKEN = "broken"
    """It failed trials that another worker could play, and was ended."""
    SLOW = "slow"
    ANSWERED = "answered"
    """After it was slow."""


class Incident(msgspec.Struct, frozen=True):
    """A line of workers.jsonl, which leaves out what is None."""

    time: str
    step: int
    worker: int
    what: IncidentKind
    host: str | None = None
    pid: int | None = None
    seconds: float | None = None
    error: str | None = None
    trials: int | None = None


@dataclass
class _Counts:
    """What a worker did since the last step."""

    trials: int = 0
    played_s: float = 0.0
    """Of chunks that came back."""
    busy_s: float = 0.0
    deaths: int = 0
    """Also how often it was broken."""


class WorkerHealth:
    """Counts and records what workers do; `warn` is told of workers that die, are broken or slow, when it happens."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log: JsonLines | None = None
        self.warn: Warn = _unheard
        self.step = 0
        """Updates behind the weights that were published last."""
        self.publish_s = 0.0
        """Seconds of publishing since the last step."""
        self._counts: dict[int, _Counts] = {}
        """By the number of the worker, from 1."""
        self._processes: dict[int, WorkerProcess] = {}
        self._gib: dict[int, float] = {}
        self._busy_since: dict[int, float] = {}
        """When the workers that have a chunk were last counted."""
        self._any_since: float | None = None
        self._any_s = 0.0
        """Seconds in which any worker was served."""
        self._longest_s: float | None = None
        self._rebuilt = self._replayed = 0
        self._taken = time.perf_counter()

    @contextmanager
    def playing(self, number: int, num_trials: int) -> Iterator[None]:
        """A worker has a chunk inside; where no error is raised, its trials have come back."""
        begun = self._busy_since[number] = time.perf_counter()
        try:
            yield
            took, own = time.perf_counter() - begun, self._of(number)  # a step may have ended meanwhile
            own.trials += num_trials
            own.played_s += took
            self._longest_s = max(took, self._longest_s or 0.0)
        finally:
            self._count_busy(number)
            del self._busy_since[number]

    def begin_to_serve(self) -> None:
        """The first worker is served."""
        self._any_since = time.perf_counter()

    def end_serving(self) -> None:
        """No worker is served any more."""
        self._count_any()
        self._any_since = None

    @property
    def patience_s(self) -> float:
        """Seconds after which a worker that has not answered is slow."""
        return _FIRST_S if self._longest_s is None else max(SLOW_S, _SLOW_FACTOR * self._longest_s)

    def note_built(self, number: int, process: WorkerProcess, seconds: float) -> None:
        """A worker is there."""
        self._of(number)
        self._processes[number] = process
        self._record(number, IncidentKind.BUILT, seconds=seconds)

    def note_memory(self, number: int, gib: float | None) -> None:
        """The memory of a worker's process, where its system tells it."""
        if gib is not None:
            self._gib[number] = gib

    def note_death(self, number: int, error: str, follows: str, num_trials: int = 0, what: str = "died") -> None:
        """A worker has died; `follows` says what becomes of it. `num_trials` trials are replayed."""
        self._note_end(number, IncidentKind.DIED, error, num_trials)
        self.warn(f"worker {number} {what}: {follows} ({error})")

    def note_broken(self, number: int, error: str, num_trials: int) -> None:
        """A worker is to be ended and built again; the `num_trials` trials that it failed are replayed."""
        self._note_end(number, IncidentKind.BROKEN, error, num_trials)
        self.warn(f"worker {number} is broken: it is built again ({error})")

    def note_rebuilding(self) -> None:
        """A worker that died or is broken is built again."""
        self._rebuilt += 1

    def note_slow(self, number: int, seconds: float) -> None:
        """A worker has not answered for long."""
        self._record(number, IncidentKind.SLOW, seconds=seconds)
        before = "" if self._longest_s is None else f"; no chunk of any worker took longer than {self._longest_s:.1f} s"
        self.warn(f"worker {number} has not answered for {seconds:.0f} s{before}")

    def note_answered(self, number: int, seconds: float) -> None:
        """A slow worker has answered after all."""
        self._record(number, IncidentKind.ANSWERED, seconds=seconds)

    def take(self, num_alive: int) -> dict[str, float]:
        """The health since the last call, for the step's timings."""
        self._count_any()
        for number in self._busy_since:
            self._count_busy(number)
        now = time.perf_counter()
        seconds, counts = max(now - self._taken, 1e-9), self._counts
        found: dict[str, float] = {
            "publish_s": self.publish_s,
            "workers_alive": num_alive,
            "workers_rebuilt": self._rebuilt,
            "trials_replayed": self._replayed,
            "trials_per_s": sum(own.trials for own in counts.values()) / max(self._any_s, 1e-9),
        }
        for number, own in sorted(counts.items()):
            found |= {f"worker_{number}/{name}": value for name, value in self._numbers(number, own, seconds).items()}
        self._counts = {number: _Counts() for number in counts}
        self._taken, self._any_s, self.publish_s = now, 0.0, 0.0
        self._rebuilt = self._replayed = 0
        return found

    def _numbers(self, number: int, own: _Counts, seconds: float) -> dict[str, float]:
        found = {"trials": own.trials, "busy_share": min(1.0, own.busy_s / seconds), "deaths": own.deaths}
        if own.trials:
            found["trial_s"] = own.played_s / own.trials
        if number in self._gib:
            found["host_gib"] = self._gib[number]
        return found

    def close(self) -> None:
        """Close the file."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _note_end(self, number: int, what: IncidentKind, error: str, num_trials: int) -> None:
        self._of(number).deaths += 1
        self._gib.pop(number, None)
        self._replayed += num_trials
        self._record(number, what, error=error, trials=num_trials)
        self._processes.pop(number, None)

    def _record(
        self,
        number: int,
        what: IncidentKind,
        seconds: float | None = None,
        error: str | None = None,
        trials: int | None = None,
    ) -> None:
        if self._log is None:
            self._log = JsonLines(self._folder / WORKERS)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        host, pid = self._processes.get(number, (None, None))
        line = Incident(now, self.step, number, what, host, pid, seconds, error, trials)
        self._log.append({key: value for key, value in msgspec.structs.asdict(line).items() if value is not None})

    def _of(self, number: int) -> _Counts:
        return self._counts.setdefault(number, _Counts())

    def _count_busy(self, number: int) -> None:
        """Count the time in which a worker had a chunk until now."""
        now = time.perf_counter()
        self._of(number).busy_s += now - self._busy_since[number]
        self._busy_since[number] = now

    def _count_any(self) -> None:
        """Count the time in which any worker was served until now."""
        if self._any_since is not None:
            now = time.perf_counter()
            self._any_s += now - self._any_since
            self._any_since = now


def _unheard(text: str) -> None:
    """Do nothing: a warning without a listener is still in the file."""
