"""The results of a sweep, as values and as tables: the last evaluation of every run, and means over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report import read_report
from mage.evaluation.suite.report_tables import interval
from mage.files import read_lines
from mage.runs.drawings import shown
from mage.stats import Estimate, student_mean

_CAPTION = (
    "Scores with 95 % intervals: of a seed over its trials, of a mean over the seeds (Student's t). Fixed tasks, the "
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
    """By split: the score of each episode, with intervals over trials."""


class RecipeSummary(msgspec.Struct, frozen=True):
    """All evaluated seeds of one recipe."""

    recipe: str
    seeds: tuple[int, ...]
    scores: Mapping[str, tuple[Estimate, ...]]
    """By split: the score of each episode, averaged over the seeds, with intervals over them (Student's t)."""


class SweepSummary(msgspec.Struct, frozen=True):
    """The current results of a sweep."""

    runs: tuple[SweepRun, ...]
    recipes: tuple[RecipeSummary, ...]

    @property
    def is_done(self) -> bool:
        """Whether no run is left to do."""
        return all(run.state in (RunState.FINISHED, RunState.STOPPED) for run in self.runs)


def scores_of(folder: Path, ended: RunEnd) -> dict[str, tuple[Estimate, ...]]:
    """The scores of a run that has ended, by split."""
    name = "final.json" if ended.state is RunState.FINISHED else f"step-{ended.step:06d}.json"
    reports = read_report(folder / "evaluations" / name, SplitReport).reports
    return {report.split: report.agent.scores for report in reports}


def minutes_of(folder: Path) -> float:
    """The training time of a run, over all processes that worked on it."""
    return sum(float(line["step_s"]) for line in read_lines(folder / "timings.jsonl")) / 60


def summarise_recipes(runs: Sequence[SweepRun]) -> tuple[RecipeSummary, ...]:
    """Means over the evaluated seeds, one entry for each recipe that has any."""
    found: list[RecipeSummary] = []
    for recipe in dict.fromkeys(run.recipe for run in runs):
        evaluated = [run for run in runs if run.recipe == recipe and run.scores]
        if evaluated:
            scores = {split: _over_seeds([run.scores[split] for run in evaluated]) for split in evaluated[0].scores}
            found.append(RecipeSummary(recipe, tuple(run.seed for run in evaluated), scores))
    return tuple(found)


def _over_seeds(scores: Sequence[tuple[Estimate, ...]]) -> tuple[Estimate, ...]:
    """Means over seeds; the scores of a single seed keep their intervals over trials."""
    if len(scores) == 1:
        return scores[0]
    return tuple(student_mean([estimate.value for estimate in episode]) for episode in zip(*scores, strict=True))


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
