"""The journal of an evaluation: every outcome is on file once it is known, so a kill loses only what is under way.

An evaluation is a run, which `mage show` reads, with one file more:

    arms.jsonl    beside each line of `trials.jsonl`: the split and the arm that it was played for, and the time it took

Resumed, an evaluation takes what it finds there for played. The report that comes out is that of an unbroken one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import msgspec
from rich.progress import Progress

from mage.engines.budget import ServiceUnavailableError
from mage.errors import EngineError, RecordError
from mage.files import JsonLines, count_lines, cut_lines, read_lines
from mage.protocols import AgentFactory, World
from mage.rollout.group import Job, play_trials
from mage.runs.index import TRIALS
from mage.runs.store import RunReader, RunWriter
from mage.types import Failure, Task, Trial

KIND = "evaluate"
ARMS = "arms.jsonl"

_Key = tuple[str, str, Task, int]
"""Split, arm, task and sibling."""


class Arm(msgspec.Struct, frozen=True):
    """What a trial was played for."""

    split: str
    arm: str
    took_s: float
    """By the clock, since the outcome before it, or since the process that played it began with this arm."""


def read_arms(path: Path) -> list[Arm]:
    """What each trial of an evaluation was played for, in their order; nothing where a run is of another kind."""
    try:
        return [msgspec.convert(line, Arm) for line in read_lines(path / ARMS)]
    except msgspec.ValidationError as error:
        raise RecordError(f"{path / ARMS} cannot be read: {error}") from None


class TrialLog:
    """Outcomes by split, arm and job; a context manager that closes itself."""

    def __init__(self, writer: RunWriter, known: Mapping[_Key, Trial | Failure], arms: Iterable[Arm]) -> None:
        self.path = writer.path
        self._writer = writer
        self._known = dict(known)
        self._arms = JsonLines(writer.path / ARMS)
        self._is_closed = False
        self.seconds: dict[str, dict[str, float]] = {}
        """By split, how long each arm took by the clock, over all processes that played it."""
        for arm in arms:
            self._add_time(arm)

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any], seed: int, kind: str = KIND) -> Self:
        """Start an evaluation in a directory that is new or empty; `config` has all that it needs to go on."""
        return cls(RunWriter.create(path, kind=kind, config=config, seed=seed), {}, ())

    @classmethod
    def reopen(cls, path: Path, *, forget_failures: bool = False) -> Self:
        """Go on with an evaluation; what failed is played again where failures are to be forgotten."""
        writer = RunWriter.reopen(path)  # first: it holds the lock
        num_whole = min(count_lines(path / TRIALS), count_lines(path / ARMS))
        cut_lines(path / ARMS, num_whole, "superseded")
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
        """What came of a job, if it was played."""
        return self._known.get((split, arm, *job))

    def append(self, arm: Arm, outcome: Trial | Failure) -> None:
        """Write an outcome down."""
        self._arms.append(arm)  # first: a line too many here is no loss, a trial that nobody can place would be
        self._writer.append(outcome)
        self._known[arm.split, arm.arm, outcome.task, outcome.sibling] = outcome
        self._add_time(arm)

    def close(self) -> None:
        """Force everything to the disk."""
        self._writer.close()
        if not self._is_closed:
            self._arms.close()
        self._is_closed = True

    @property
    def has_failures(self) -> bool:
        """Whether something failed that could be played once more."""
        return any(isinstance(outcome, Failure) for outcome in self._known.values())

    def discard_if_empty(self) -> bool:
        """Delete an evaluation in which nothing was ever played; whether it was deleted."""
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


class LoggedPlay:
    """A `Play` for one split: what is in the journal is not played again, and what is played goes there at once."""

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
    """What would go wrong with every other trial too is an error here: nothing is written down about this one."""
    if isinstance(outcome, Failure) and outcome.error == ServiceUnavailableError.__name__:
        raise EngineError(outcome.message)
