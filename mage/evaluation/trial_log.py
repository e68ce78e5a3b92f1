"""Log of an evaluation's trials, from which a killed evaluation is resumed with the same result.

An evaluation is a run directory with one more file:

    arms.jsonl    for each line of `trials.jsonl`: the split and the arm it belongs to, and the time it took
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import msgspec
from rich.progress import Progress

from mage.engines.remote_budget import ServiceUnavailableError
from mage.errors import EngineError, RecordError
from mage.files import JsonLines, count_lines, read_lines, truncate_lines
from mage.protocols import AgentFactory, World
from mage.rollout.group import Job, play_trials
from mage.runs.console import say
from mage.runs.index import TRIALS
from mage.runs.store import RUN, RunReader, RunWriter, note_edit
from mage.types import Failure, Task, Trial

KIND = "evaluate"
ARMS = "arms.jsonl"

_Key = tuple[str, str, Task, int]
"""Split, arm, task and sibling."""


class Arm(msgspec.Struct, frozen=True):
    """The split and the arm that a trial belongs to."""

    split: str
    arm: str
    took_s: float
    """Wall-clock time since the previous outcome, or since this process began the arm."""


def read_arms(path: Path) -> list[Arm]:
    """The arm of each trial, in order; empty for other kinds of runs."""
    try:
        return [msgspec.convert(line, Arm) for line in read_lines(path / ARMS)]
    except msgspec.ValidationError as error:
        raise RecordError(f"{path / ARMS} cannot be read: {error}") from None


class TrialLog:
    """Outcomes by split, arm and job. Use as a context manager."""

    def __init__(self, writer: RunWriter, known: Mapping[_Key, Trial | Failure], arms: Iterable[Arm]) -> None:
        self.path = writer.path
        self._writer = writer
        self._known = dict(known)
        self._arms = JsonLines(writer.path / ARMS)
        self._is_closed = False
        self.seconds: dict[str, dict[str, float]] = {}
        """Wall-clock seconds by split and arm, over all processes."""
        for arm in arms:
            self._add_time(arm)

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any], seed: int, kind: str = KIND) -> Self:
        """Start an evaluation in a new or empty directory; `config` holds what resuming needs."""
        return cls(RunWriter.create(path, kind=kind, config=config, seed=seed), {}, ())

    @classmethod
    def reopen(cls, path: Path, *, forget_failures: bool = False) -> Self:
        """Open an evaluation to resume it; with `forget_failures` failed trials are played again."""
        writer = RunWriter.reopen(path)  # first: it holds the lock
        if note_edit(path, writer.num_lines):
            say(f"{path / RUN} was edited by hand; this goes on by what it says now")
        num_whole = min(count_lines(path / TRIALS), count_lines(path / ARMS))
        truncate_lines(path / ARMS, num_whole, "superseded")
        writer.cut_back(num_whole)
        arms = read_arms(path)
        reader = RunReader(path)
        known: dict[_Key, Trial | Failure] = {}
        for summary, outcome in zip(reader.summaries(), reader.trials(), strict=True):
            arm = arms[summary.number]
            if isinstance(outcome, Trial) or not forget_failures:
                known[arm.split, arm.arm, outcome.task, outcome.sibling] = outcome
        return cls(writer, known, arms)

    def find(self, split: str, arm: str, job: Job) -> Trial | Failure | None:
        """The outcome of a job; None if it was not played yet."""
        return self._known.get((split, arm, *job))

    def append(self, arm: Arm, outcome: Trial | Failure) -> None:
        """Write an outcome."""
        self._arms.append(arm)  # first: an extra line here is dropped, a trial without its arm would be lost
        self._writer.append(outcome)
        self._known[arm.split, arm.arm, outcome.task, outcome.sibling] = outcome
        self._add_time(arm)

    def close(self) -> None:
        """Sync to disk and close; both logs also where one cannot be written."""
        try:
            if not self._is_closed:
                self._is_closed = True
                self._arms.close()
        finally:
            self._writer.close()

    @property
    def has_failures(self) -> bool:
        """Whether any trial failed."""
        return any(isinstance(outcome, Failure) for outcome in self._known.values())

    def discard_if_empty(self) -> bool:
        """Delete the evaluation if it has no trials; returns whether it did."""
        self.close()
        if self._writer.is_empty:
            (self.path / ARMS).unlink(missing_ok=True)
            self._writer.discard_if_empty()
        return self._writer.is_empty

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add_time(self, arm: Arm) -> None:
        by_arm = self.seconds.setdefault(arm.split, {})
        by_arm[arm.arm] = by_arm.get(arm.arm, 0.0) + arm.took_s


class ResumablePlay:
    """A `Play` for one split that skips logged jobs and logs each outcome at once."""

    def __init__(self, trial_log: TrialLog, split: str, *, concurrency: int, bar: Progress) -> None:
        self._trial_log = trial_log
        self._split = split
        self._concurrency = concurrency
        self._bar = bar

    async def __call__(
        self, arm: str, world: World, jobs: Sequence[Job], make_agent: AgentFactory
    ) -> list[Trial | Failure]:
        left = [job for job in jobs if self._trial_log.find(self._split, arm, job) is None]
        shown = self._bar.add_task(f"{self._split}: {arm}", total=len(jobs), completed=len(jobs) - len(left))
        latest = perf_counter()
        source = iter(left)

        async def work() -> None:
            nonlocal latest
            for job in source:
                async for outcome in play_trials(world, [job], make_agent):
                    _raise_if_unavailable(outcome)
                    before, latest = latest, perf_counter()
                    self._trial_log.append(Arm(self._split, arm, latest - before), outcome)
                    self._bar.advance(shown)

        workers = [asyncio.create_task(work()) for _ in range(min(self._concurrency, len(left)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
        found = (self._trial_log.find(self._split, arm, job) for job in jobs)
        return [outcome for outcome in found if outcome is not None]


def _raise_if_unavailable(outcome: Trial | Failure) -> None:
    """Raise on an unavailable service, which would fail every other trial too; the trial is not logged."""
    if isinstance(outcome, Failure) and outcome.error == ServiceUnavailableError.__name__:
        raise EngineError(outcome.message)
