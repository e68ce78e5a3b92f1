"""`mage sweep`: what it does and what it prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.config.compose import label_of
from mage.config.load import load_config
from mage.evaluation.suite.report_tables import interval
from mage.files import write_atomically
from mage.runs.console import as_text
from mage.runs.drawings import shown
from mage.runs.store import new_run_path
from mage.stats import Estimate
from mage.training.sweep import make_sweep, plan_sweep, run_sweep
from mage.training.sweep_summary import RecipeSummary, RunState, SweepRun, SweepSummary

TABLE = "summary.txt"
_CAPTION = (
    "Scores with 95 % intervals: of a seed over its trials, of a mean over the seeds (Student's t). Fixed tasks, the "
    "same for every seed."
)


def new_sweep(
    arguments: Sequence[str], num_seeds: int, folder: Path | None, max_minutes: float | None, console: Console
) -> int:
    """Start a sweep by recipes and overrides. Returns the exit code."""
    recipes = [argument for argument in arguments if "=" not in argument]
    overrides = [argument for argument in arguments if "=" in argument]
    plan = plan_sweep([(recipe, load_config(recipe, overrides)) for recipe in recipes], num_seeds, max_minutes)
    path = new_run_path("sweep", "-".join(map(label_of, recipes))) if folder is None else folder
    make_sweep(path, plan)
    return resume_sweep(path, console)


def resume_sweep(folder: Path, console: Console) -> int:
    """Make the runs of a sweep that are left. Returns the exit code: 1 when a run failed."""
    summary = run_and_write(folder, console)
    console.print(Group(Text(), sweep_table(summary)))
    if any(run.state is RunState.OPEN for run in summary.runs):
        console.print(shown(f"go on with  mage sweep --resume {folder}"), soft_wrap=True)
    else:
        console.print(shown(f"\nsaved in    {folder}", "dim"), soft_wrap=True)
    return int(any(run.state is RunState.FAILED for run in summary.runs))


def run_and_write(folder: Path, console: Console) -> SweepSummary:
    """Make the runs that are left and write the table down beside the summary."""
    summary = run_sweep(folder, console)
    write_atomically(folder / TABLE, as_text(sweep_table(summary)).encode())
    return summary


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
