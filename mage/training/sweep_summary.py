"""The results of a sweep: the last evaluation of every run, and means over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from mage.config.vary import Scalar
from mage.evaluation.suite.averaging import units_of
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report import read_report
from mage.files import read_lines
from mage.grouped import Units, crossed_mean
from mage.runs.sweep_plan import label_with
from mage.stats import Estimate, Range


class RunState(StrEnum):
    """The state of a run of a sweep."""

    OPEN = "open"
    """Not started, or interrupted: a resumed sweep continues it."""
    FINISHED = "finished"
    """All its steps are done."""
    STOPPED = "stopped"
    """Stopped early by the time limit or an alarm, and evaluated there."""
    FAILED = "failed"
    """Ended by an error; a resumed sweep tries again."""


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
    """The error message where it failed."""
    step: int
    """Training steps of the evaluated weights."""
    steps: int
    minutes: float
    """Wall-clock time, with evaluations during training, without the final one."""
    scores: Mapping[str, tuple[Estimate, ...]]
    """By split: the score of each episode, with intervals over trials or members."""
    member_scores: Mapping[str, Mapping[str, tuple[float, ...]]] = {}
    """By split whose intervals are over members, and by member: the score of each episode."""
    score_ranges: Mapping[str, Range] = {}
    """By split: the lowest and highest score of an episode."""
    varied: Mapping[str, Scalar] | msgspec.UnsetType = msgspec.UNSET
    """The value of the key that the sweep varies."""

    @property
    def label(self) -> str:
        """The recipe, with the value that is varied."""
        return label_with(self.recipe, self.varied)


class RecipeSummary(msgspec.Struct, frozen=True):
    """All evaluated seeds of one recipe, at one value where a key is varied."""

    recipe: str
    seeds: tuple[int, ...]
    scores: Mapping[str, tuple[Estimate, ...]]
    """By split: the score of each episode, averaged over seeds; intervals are over seeds, or over seeds and members."""
    varied: Mapping[str, Scalar] | msgspec.UnsetType = msgspec.UNSET
    """The value of the key that the sweep varies."""

    @property
    def label(self) -> str:
        """The recipe, with the value that is varied."""
        return label_with(self.recipe, self.varied)


class SweepSummary(msgspec.Struct, frozen=True):
    """The current results of a sweep."""

    runs: tuple[SweepRun, ...]
    recipes: tuple[RecipeSummary, ...]

    @property
    def is_done(self) -> bool:
        """Whether no run is left to do."""
        return all(run.state in (RunState.FINISHED, RunState.STOPPED) for run in self.runs)


class EndScores(NamedTuple):
    """The scores of a run that has ended, by split; fields of `SweepRun`."""

    scores: Mapping[str, tuple[Estimate, ...]] = {}
    member_scores: Mapping[str, Mapping[str, tuple[float, ...]]] = {}
    score_ranges: Mapping[str, Range] = {}


def scores_of(folder: Path, ended: RunEnd) -> EndScores:
    """The scores of a run; none where it has not ended."""
    if ended.state not in (RunState.FINISHED, RunState.STOPPED):
        return EndScores()
    name = "final.json" if ended.state is RunState.FINISHED else f"step-{ended.step:06d}.json"
    reports = read_report(folder / "evaluations" / name, SplitReport).reports
    return EndScores(
        {report.split: report.agent.scores for report in reports},
        {
            report.split: {member: tuple(score.value for score in scores) for member, scores in report.by_member}
            for report in reports
            if units_of(report.kind, len(report.members)) is Units.MEMBERS
        },
        {report.split: report.score_range for report in reports if report.score_range is not None},
    )


def minutes_of(folder: Path) -> float:
    """The training time of a run, over all processes that worked on it."""
    return sum(float(line["step_s"]) for line in read_lines(folder / "timings.jsonl")) / 60


def summarise_recipes(runs: Sequence[SweepRun]) -> tuple[RecipeSummary, ...]:
    """Means over the evaluated seeds, one entry for each recipe and value that has any."""
    found: list[RecipeSummary] = []
    for label in dict.fromkeys(run.label for run in runs):
        evaluated = [run for run in runs if run.label == label and run.scores]
        if evaluated:
            scores = {split: _over_seeds(split, evaluated) for split in evaluated[0].scores}
            seeds = tuple(run.seed for run in evaluated)
            found.append(RecipeSummary(evaluated[0].recipe, seeds, scores, evaluated[0].varied))
    return tuple(found)


def _over_seeds(split: str, runs: Sequence[SweepRun]) -> tuple[Estimate, ...]:
    """Means over seeds; the scores of a single seed keep their intervals."""
    if len(runs) == 1:
        return runs[0].scores[split]
    tables = [run.member_scores.get(split, {}) for run in runs]
    members = [member for member in tables[0] if all(member in table for table in tables)]
    return tuple(
        crossed_mean(
            [estimate.value for estimate in episode],
            [sum(table[member][k] for table in tables) / len(runs) for member in members],
            runs[0].score_ranges.get(split),
        )
        for k, episode in enumerate(zip(*(run.scores[split] for run in runs), strict=True))
    )
