"""The summary of a sweep as tables, one for each recipe."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.evaluation.suite.report_tables import interval
from mage.runs.drawings import shown
from mage.stats import Estimate
from mage.training.sweep_summary import RecipeSummary, SweepRun, SweepSummary

_CAPTION = (
    "Scores with 95 % intervals: of a seed over its trials, of a mean over the seeds (Student's t). Fixed tasks, the "
    "same for every seed."
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
