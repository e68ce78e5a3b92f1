"""What a script or a notebook works with: runs and reports as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from mage.config import load_config, replaced
from mage.errors import ConfigError
from mage.record.files import read_lines
from mage.record.store import RUN, RunReader, fresh_path
from mage.schema import Config
from mage.types import Failure, Trial

if TYPE_CHECKING:
    from mage.evaluate.suite import SplitReport
    from mage.learn.summary import SweepSummary

WIDTH = 120
"""Columns of a printed report."""


@dataclass(frozen=True)
class Run:
    """A training run: its directory, and what it was when it was opened."""

    path: Path
    config: Config
    step: int
    """Steps that its newest checkpoint has behind it."""

    @property
    def is_finished(self) -> bool:
        """Whether all steps are done."""
        return self.step >= self.config.steps

    def metrics(self) -> list[dict[str, float]]:
        """The lines of `metrics.jsonl`; `docs/metrics.md` defines every key."""
        return list(read_lines(self.path / "metrics.jsonl"))

    def trials(self) -> Iterator[Trial | Failure]:
        """The trials that were kept, one at a time."""
        return RunReader(self.path).trials()

    def resume(
        self,
        overrides: Mapping[str, object] | None = None,
        *,
        max_minutes: float | None = None,
        quiet: bool = False,
    ) -> Run:
        """Go on with the steps that are left; the run that comes back has them.

        `overrides` change some settings from here on: more steps, the learning rate, how it is judged and watched.
        """
        from mage.learn.run import go

        go(self.path, _console(quiet), max_minutes, values=overrides)
        return open_run(self.path)


@dataclass(frozen=True)
class Report:
    """An evaluation: one entry for each split, and a text to print."""

    step: int
    """Steps of training that the weights have behind them."""
    splits: Mapping[str, SplitReport]

    def __str__(self) -> str:
        from mage.evaluate.table import evaluation_table

        console = Console(width=WIDTH, markup=False, emoji=False, highlight=False, force_terminal=False)
        with console.capture() as captured:
            console.print(evaluation_table(list(self.splits.values())))
        return captured.get()


@dataclass(frozen=True)
class Sweep:
    """A sweep: its directory, and what had come of it when it was opened. It prints as a table."""

    path: Path
    summary: SweepSummary

    @property
    def runs(self) -> dict[str, Run]:
        """The runs that have begun, by name."""
        paths = [self.path / run.name for run in self.summary.runs]
        return {path.name: open_run(path) for path in paths if (path / RUN).exists()}

    def resume(self, *, quiet: bool = False) -> Sweep:
        """Make the runs that are left; the sweep that comes back has them."""
        from mage.commands.sweep import run_and_write

        return Sweep(self.path, run_and_write(self.path, _console(quiet)))

    def __str__(self) -> str:
        from mage.commands.sweep import as_text

        return as_text(self.summary)


def train(
    recipe: str,
    overrides: Mapping[str, object],
    *,
    folder: str | Path | None,
    max_minutes: float | None,
    quiet: bool,
) -> Run:
    """Start a run and train until it is done, time is up or somebody interrupts."""
    config = config_with(recipe, overrides)
    _needs_torch()
    from mage.learn.run import begin, go

    path, parts = begin(config, None if folder is None else Path(folder), Path(recipe).stem)
    go(path, _console(quiet), max_minutes, parts=parts)
    return open_run(path)


def config_with(recipe: str, overrides: Mapping[str, object]) -> Config:
    """The config of a recipe with some values replaced, each named by its dotted key.

    >>> config_with("rps", {"learner.lr": 0.5, "steps": 3}).learner.lr
    0.5
    """
    return replaced(load_config(recipe), overrides, recipe)


def evaluate(run: Run | str | Path, *, trials: int | None) -> Report:
    """Judge the newest weights of a run; the report is saved in the run too."""
    _needs_torch()
    from mage.commands.train import judged_and_saved

    path = run.path if isinstance(run, Run) else Path(run)
    step, reports = judged_and_saved(path, trials)
    return Report(step, {report.split: report for report in reports})


def open_run(folder: str | Path) -> Run:
    """A run from its directory."""
    _needs_torch()
    from mage.learn.changes import config_of
    from mage.learn.checkpoint import checkpoints, read_state

    path = Path(folder)
    config = config_of(path)
    saved = checkpoints(path / "checkpoints")
    return Run(path, config, read_state(saved[-1]).step if saved else 0)


def sweep(
    recipes: Sequence[str],
    overrides: Mapping[str, object],
    *,
    seeds: int,
    folder: str | Path | None,
    max_minutes: float | None,
    quiet: bool,
) -> Sweep:
    """Train several recipes with several seeds in this process until all are done or somebody interrupts."""
    _needs_torch()
    from mage.learn.sweep import make_sweep, plan_sweep

    plan = plan_sweep([(recipe, config_with(recipe, overrides)) for recipe in recipes], seeds, max_minutes)
    path = fresh_path("sweep", "-".join(Path(r).stem for r in recipes)) if folder is None else Path(folder)
    make_sweep(path, plan)
    return open_sweep(path).resume(quiet=quiet)


def open_sweep(folder: str | Path) -> Sweep:
    """A sweep from its directory."""
    _needs_torch()
    from mage.learn.sweep import summarise

    return Sweep(Path(folder), summarise(Path(folder)))


def export_model(run: Run | str | Path, folder: str | Path, *, step: int | None, best: bool, merge: bool) -> Path:
    """Write the weights of a run to a new directory in Hugging Face layout, which comes back."""
    _needs_torch()
    from mage.learn.export import export_model as write

    write(run.path if isinstance(run, Run) else Path(run), Path(folder), step=step, best=best, merge=merge)
    return Path(folder)


def _console(quiet: bool) -> Console:
    return Console(quiet=quiet, markup=False, emoji=False, highlight=False)


def _needs_torch() -> None:
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise ConfigError("training needs the extra train: pip install 'mage-rl[train]'")
