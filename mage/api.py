"""What a script or a notebook works with: runs and reports as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from mage.config import load_config, validated
from mage.errors import ConfigError
from mage.record.files import read_lines
from mage.record.store import RunReader, fresh_path
from mage.schema import Config
from mage.types import Failure, Trial

if TYPE_CHECKING:
    from mage.evaluate.suite import SplitReport

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

    def resume(self, *, max_minutes: float | None = None, quiet: bool = False) -> Run:
        """Go on with the steps that are left; the run that comes back has them."""
        return _go(self.path, max_minutes, quiet)


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
    from mage.learn.run import start

    path = fresh_path("train", Path(recipe).stem) if folder is None else Path(folder)
    start(config, path)
    return _go(path, max_minutes, quiet)


def config_with(recipe: str, overrides: Mapping[str, object]) -> Config:
    """The config of a recipe with some values replaced, each named by its dotted key.

    >>> config_with("rps", {"learner.lr": 0.5, "steps": 3}).learner.lr
    0.5
    """
    values = load_config(recipe).model_dump(mode="json")
    for key, value in overrides.items():
        *sections, last = key.split(".")
        at: dict[str, Any] = values
        for section in sections:
            at = at.setdefault(section, {})
            if not isinstance(at, dict):
                raise ConfigError(f"{key!r}: {section!r} is a value, not a section")
        at[last] = value
    return validated(values, recipe)


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
    from mage.learn.checkpoint import checkpoints, read_state
    from mage.learn.run import config_of

    path = Path(folder)
    config = config_of(path)
    saved = checkpoints(path / "checkpoints")
    return Run(path, config, read_state(saved[-1]).step if saved else 0)


def _go(path: Path, max_minutes: float | None, quiet: bool) -> Run:
    from mage.learn.run import go

    go(path, Console(quiet=quiet, markup=False, emoji=False, highlight=False), max_minutes)
    return open_run(path)


def _needs_torch() -> None:
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise ConfigError("training needs the extra train: pip install 'mage-rl[train]'")
