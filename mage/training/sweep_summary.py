"""What came of a sweep: the last evaluation of every run, and means over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report import read_report
from mage.files import read_lines
from mage.stats import Estimate, student_mean


class RunState(StrEnum):
    """Where a run of a sweep stands."""

    OPEN = "open"
    """Not begun, or interrupted: a resumed sweep goes on with it."""
    FINISHED = "finished"
    """All its steps are done."""
    STOPPED = "stopped"
    """Ended before that by time or by an alarm, and judged where it stood."""
    FAILED = "failed"
    """An error ended it; a resumed sweep tries again."""


class RunEnd(msgspec.Struct, frozen=True):
    """How a run ended; a line of the sweep's log."""

    name: str
    state: RunState
    step: int
    error: str


class SweepRun(msgspec.Struct, frozen=True):
    """One run of a sweep."""

    name: str
    recipe: str
    seed: int
    state: RunState
    error: str
    """What ended it, where it failed."""
    step: int
    """Steps that the judged weights have behind them."""
    steps: int
    minutes: float
    """By the clock, evaluations while training included, the last one not."""
    scores: Mapping[str, tuple[Estimate, ...]]
    """By split: the score of each episode, with intervals over trials."""


class RecipeSummary(msgspec.Struct, frozen=True):
    """All seeds of one recipe that were judged."""

    recipe: str
    seeds: tuple[int, ...]
    scores: Mapping[str, tuple[Estimate, ...]]
    """By split: the score of each episode, averaged over the seeds, with intervals over them (Student's t)."""


class SweepSummary(msgspec.Struct, frozen=True):
    """A sweep as it stands."""

    runs: tuple[SweepRun, ...]
    recipes: tuple[RecipeSummary, ...]

    @property
    def is_done(self) -> bool:
        """Whether no run is left to do."""
        return all(run.state in (RunState.FINISHED, RunState.STOPPED) for run in self.runs)


def scores_of(folder: Path, ended: RunEnd) -> dict[str, tuple[Estimate, ...]]:
    """What a run that has ended scored on its splits."""
    name = "final.json" if ended.state is RunState.FINISHED else f"step-{ended.step:06d}.json"
    reports = read_report(folder / "evaluations" / name, SplitReport).reports
    return {report.split: report.agent.scores for report in reports}


def minutes_of(folder: Path) -> float:
    """How long a run has trained, in all processes that worked on it."""
    return sum(float(line["step_s"]) for line in read_lines(folder / "timings.jsonl")) / 60


def by_recipe(runs: Sequence[SweepRun]) -> tuple[RecipeSummary, ...]:
    """Means over the seeds that were judged, one entry for each recipe that has any."""
    found: list[RecipeSummary] = []
    for recipe in dict.fromkeys(run.recipe for run in runs):
        evaluated = [run for run in runs if run.recipe == recipe and run.scores]
        if evaluated:
            scores = {split: _over_seeds([run.scores[split] for run in evaluated]) for split in evaluated[0].scores}
            found.append(RecipeSummary(recipe, tuple(run.seed for run in evaluated), scores))
    return tuple(found)


def _over_seeds(scores: Sequence[tuple[Estimate, ...]]) -> tuple[Estimate, ...]:
    """The scores of one seed alone keep their intervals over trials."""
    if len(scores) == 1:
        return scores[0]
    return tuple(student_mean([estimate.value for estimate in episode]) for episode in zip(*scores, strict=True))
