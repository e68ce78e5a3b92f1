"""The results of a sweep as tables: every run and the means over seeds; scores against the value that is varied."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.config.vary import value_text
from mage.evaluation.suite.report_tables import interval
from mage.numbers import signed
from mage.runs.console import metrics_table
from mage.runs.drawings import shown
from mage.stats import Estimate
from mage.training.sweep_dial import SweepDial
from mage.training.sweep_summary import RecipeSummary, SweepRun, SweepSummary

_CAPTION = (
    "Scores with 95 % intervals: of a seed over its trials, of a mean over the seeds (Student's t). On splits whose "
    "members are not met in training: of a seed over the members, of a mean over seeds and members. Fixed tasks, the "
    "same for every seed."
)


_DIAL_CAPTION = (
    "Last scores: means over seeds with 95 % intervals. Exact: the last score of the best play for the recipe's "
    "objective, if everything is remembered."
)


def full_table(summary: SweepSummary, dial: SweepDial | None) -> RenderableType:
    """All tables of a sweep."""
    return sweep_table(summary) if dial is None else Group(sweep_table(summary), Text(), dial_table(dial))


def dial_table(dial: SweepDial) -> RenderableType:
    """Two rows for each recipe, learned and exact; a column for each value."""
    table = metrics_table(", ".join(filter(None, (dial.common, dial.key))), *map(value_text, dial.values))
    for name, line in dial.named_lines.items():
        points = {value_text(point.value): point for point in line.points}
        mine = [points[value_text(value)] for value in dial.values]
        table.add_row(shown(name), *(interval(point.score) for point in mine))
        if any(point.exact is not None for point in mine):
            table.add_row("  exact", *("–" if one.exact is None else signed(one.exact) for one in mine), style="dim")
    remarks = [shown(f"{line.recipe}, not exact: {line.missing}", "dim") for line in dial.lines if line.missing]
    return Group(table, *remarks, Text(_DIAL_CAPTION, "italic dim"))


def sweep_table(summary: SweepSummary) -> RenderableType:
    """One table for each recipe and value: a row for each split and seed, and the mean over seeds."""
    means = {recipe.label: recipe for recipe in summary.recipes}
    labels = dict.fromkeys(run.label for run in summary.runs)
    tables = [_table([run for run in summary.runs if run.label == label], means.get(label)) for label in labels]
    return Group(*tables, Text(_CAPTION, "italic dim"))


def _table(runs: Sequence[SweepRun], means: RecipeSummary | None) -> RenderableType:
    table = Table(title=shown(runs[0].label), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
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
    return Group(table, *others) if table.row_count else Group(shown(runs[0].label), *others)


def _ends(scores: Sequence[Estimate]) -> tuple[str, str]:
    return interval(scores[0]), interval(scores[-1])


def _remark(run: SweepRun) -> str:
    said = f": {run.error}" if run.error else f" after {run.step} of {run.steps} steps" if run.step else ""
    return f"  seed {run.seed} is {run.state}{said}"
