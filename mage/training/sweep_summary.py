"""The results of a sweep, as values and as tables: the last evaluation of every run, and means over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.evaluation.suite.averaging import units_of
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report import read_report
from mage.evaluation.suite.report_tables import interval
from mage.files import read_lines
from mage.grouped import Units, crossed_mean
from mage.runs.drawings import shown
from mage.stats import Estimate, Range

_CAPTION = (
    "Scores with 95 % intervals: of a seed over its trials, of a mean over the seeds (Student's t). On splits whose "
    "members are not met in training: of a seed over the members, of a mean over seeds and members. Fixed tasks, the "
    "same for every seed."
)


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


class RecipeSummary(msgspec.Struct, frozen=True):
    """All evaluated seeds of one recipe."""

    recipe: str
    seeds: tuple[int, ...]
    scores: Mapping[str, tuple[Estimate, ...]]
    """By split: the score of each episode, averaged over seeds; intervals are over seeds, or over seeds and members."""


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
    """Means over the evaluated seeds, one entry for each recipe that has any."""
    found: list[RecipeSummary] = []
    for recipe in dict.fromkeys(run.recipe for run in runs):
        evaluated = [run for run in runs if run.recipe == recipe and run.scores]
        if evaluated:
            scores = {split: _over_seeds(split, evaluated) for split in evaluated[0].scores}
            found.append(RecipeSummary(recipe, tuple(run.seed for run in evaluated), scores))
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


def sweep_table(summary: SweepSummary) -> RenderableType:
    """One table for each recipe: a row for each split and seed, and the mean over seeds."""
    means = {recipe.recipe: recipe for recipe in summary.recipes}
    names = dict.fromkeys(run.recipe for run in summary.runs)
    tables = [_table([run for run in summary.runs if run.recipe == name], means.get(name)) for name in names]
    return Group(*tables, Text(_CAPTION, "italic dim"))


def _table(runs: Sequence[SweepRun], means: RecipeSummary | None) -> RenderableType:
    table = Table(title=shown(runs[0].recipe), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("split", "seed", "steps", "minutes", "first episode", "last episode"):
        table.add_column(name, justify="left" if name == "split" else "right", no_wrap=True)
    for split in means.scores if means is not None else ():
        assert means is not None
        for run in runs:
            if split in run.scores:
                steps = f"{run.step} of {run.steps}"
                table.add_row(shown(split), str(run.seed), steps, f"{run.minutes:.1f}", *_ends(run.scores[split]))
        if len(means.seeds) > 1:
            table.add_row("", "mean", "", "", *_ends(means.scores[split]), style="bold")
    others = [shown(_remark(run), "red" if run.error else "dim") for run in runs if not run.scores]
    return Group(table, *others) if table.row_count else Group(shown(runs[0].recipe), *others)


def _ends(scores: Sequence[Estimate]) -> tuple[str, str]:
    return interval(scores[0]), interval(scores[-1])


def _remark(run: SweepRun) -> str:
    said = f": {run.error}" if run.error else f" after {run.step} of {run.steps} steps" if run.step else ""
    return f"  seed {run.seed} is {run.state}{said}"
