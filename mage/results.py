"""What the verbs of `mage` return: runs, reports, sweeps and comparisons as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from mage.arguments import as_path, as_settings
from mage.config.schema import Config
from mage.errors import ConfigError
from mage.evaluation.compare.comparison import Comparison
from mage.evaluation.compare.plots import comparison_figures as plots_of
from mage.evaluation.compare.sources import ComparisonInputs
from mage.evaluation.compare.tables import comparison_table
from mage.evaluation.compare.write import write_comparison
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report_tables import evaluation_table
from mage.evaluation.value.dial import Dial
from mage.evaluation.value.objective_weights import objectives
from mage.evaluation.value.report import ValueReport
from mage.evaluation.value.value_file import ValueFile, write_json
from mage.evaluation.value.value_plots import curve_figure, dial_figure
from mage.evaluation.value.value_tables import value_table
from mage.extras import require
from mage.files import read_lines
from mage.numbers import signed
from mage.plot_style import check_matplotlib, style_context
from mage.runs.console import WIDTH, as_text, plain_console
from mage.runs.store import RUN, RunReader
from mage.training.sweep_dial import SweepDial, read_dial
from mage.training.sweep_summary import SweepSummary
from mage.training.sweep_tables import full_table
from mage.types import Failure, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
METRICS = "metrics.jsonl"


@dataclass(frozen=True, repr=False)
class Run:
    """A training run: its directory, and its state when it was opened."""

    path: Path
    config: Config
    step: int
    """Training steps of its newest checkpoint."""
    num_tokens: int = 0
    """Tokens that the learner has processed for it."""

    @property
    def is_finished(self) -> bool:
        """Whether all steps are done, or all the tokens of training."""
        return self.config.is_over(self.step, self.num_tokens)

    def metrics(self) -> list[dict[str, float]]:
        """The metrics of each step, without evaluations; `docs/metrics.md` defines every key."""
        return [line for line in read_lines(self.path / METRICS) if not _is_evaluation(line)]

    def evaluations(self) -> list[dict[str, float]]:
        """The scores of each evaluation while training and at its end, with the step, from `metrics.jsonl`."""
        return [line for line in read_lines(self.path / METRICS) if _is_evaluation(line)]

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
        """Train the steps that are left and return the run with them.

        `overrides` change some settings from here on: more steps, the learning rate, evaluation and logging.
        """
        from mage.training.run import train_run

        train_run(self.path, plain_console(quiet=quiet), max_minutes, values=as_settings("overrides", overrides))
        return open_run(self.path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.config.world}, step {self.step} of {self.config.steps})"


@dataclass(frozen=True, repr=False)
class Report:
    """An evaluation: one entry for each split. It prints as a table."""

    step: int
    """Training steps of the weights."""
    splits: Mapping[str, SplitReport]

    def __str__(self) -> str:
        return as_text(evaluation_table(list(self.splits.values())))

    def __repr__(self) -> str:
        last = (f"{name} {signed(split.agent.scores[-1].value)}" for name, split in self.splits.items())
        return f"Report(step {self.step}, last scores: {', '.join(last) or 'none'})"


@dataclass(frozen=True, repr=False)
class SavedReport(Generic[T]):
    """A report about agents in a world, and the directory it is saved in. It prints as a table."""

    path: Path
    report: T
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"SavedReport({str(self.path)!r}, {type(self.report).__name__})"


@dataclass(frozen=True, repr=False)
class Sweep:
    """A sweep: its directory, and its state when it was opened. It prints as a table."""

    path: Path
    summary: SweepSummary

    @property
    def runs(self) -> dict[str, Run]:
        """The runs that have begun, by name."""
        paths = [self.path / run.name for run in self.summary.runs]
        return {path.name: open_run(path) for path in paths if (path / RUN).exists()}

    @property
    def dial(self) -> SweepDial | None:
        """Last scores against the value that is varied, learned and exact; None where none is, or none was written."""
        return read_dial(self.path)

    def resume(self, *, jobs: int = 1, quiet: bool = False) -> Sweep:
        """Make the runs that are left, `jobs` at a time, and return the sweep with them."""
        from mage.training.sweep import run_sweep

        return Sweep(self.path, run_sweep(self.path, plain_console(quiet=quiet), jobs))

    def __str__(self) -> str:
        return as_text(full_table(self.summary, self.dial))

    def __repr__(self) -> str:
        return f"Sweep({str(self.path)!r}, {len(self.summary.runs)} runs)"


@dataclass(frozen=True, repr=False)
class ComparisonResult:
    """Methods side by side. It prints as a table; `comparison` has the metrics."""

    comparison: Comparison
    inputs: ComparisonInputs

    def figures(self) -> dict[str, Figure]:
        """All plots as matplotlib figures, by name."""
        check_matplotlib()
        with style_context():
            return dict(plots_of(self.comparison, self.inputs.crossplays))

    def write(self, folder: str | Path, *, plots: bool = True) -> Path:
        """Write tables, plots and sources to a directory and return it."""
        path = as_path("folder", folder)
        write_comparison(self.comparison, self.inputs, path, plots=plots)
        return path

    def __str__(self) -> str:
        return as_text(comparison_table(self.comparison, self.inputs, WIDTH))

    def __repr__(self) -> str:
        return f"ComparisonResult({', '.join(self.comparison.methods)})"


@dataclass(frozen=True, repr=False)
class ValueResult:
    """The values of a task. It prints as a table; `report` has the values, `dial` those against a parameter."""

    content: ValueFile

    @property
    def report(self) -> ValueReport:
        """All values."""
        return self.content.report

    @property
    def dial(self) -> Dial | None:
        """Last scores against the parameter that was varied."""
        return self.content.dial

    def figure(self) -> Figure:
        """The dial, or without one last scores against the number of episodes, as a matplotlib figure."""
        check_matplotlib("")
        dial, report = self.content.dial, self.content.report
        if dial is not None:
            labels = {kind.name: kind.label for kind in objectives(report.discount)}
            return dial_figure(dial, labels, f"{report.world}, {report.episodes} episodes")
        if not self.content.curve:
            raise ConfigError("there is nothing to draw; ask for a curve, or for a parameter to vary")
        return curve_figure(self.content.curve, report.world)

    def write(self, path: str | Path) -> Path:
        """Write all values as JSON and return the path."""
        file = as_path("path", path)
        write_json(self.content, file)
        return file

    def __str__(self) -> str:
        return as_text(value_table(self.content.report, self.content.dial))

    def __repr__(self) -> str:
        return f"ValueResult({self.report.world}, {self.report.episodes} episodes)"


def _is_evaluation(line: Mapping[str, float]) -> bool:
    """Whether a line of the metrics is that of an evaluation, which has no other keys than its step."""
    return any(key.startswith("eval/") for key in line)


def open_run(folder: str | Path) -> Run:
    """Open a training run by its directory."""
    path = as_path("folder", folder)
    require("train", "training needs")
    from mage.training.checkpoint import newest_checkpoint, read_state
    from mage.training.resume_changes import config_of

    config = config_of(path)
    saved = newest_checkpoint(path)
    if saved is None:
        return Run(path, config, 0)
    state = read_state(saved)
    return Run(path, config, state.step, int(state.learner.get("num_tokens", 0)))


def open_sweep(folder: str | Path) -> Sweep:
    """Open a sweep by its directory."""
    path = as_path("folder", folder)
    require("train", "training needs")
    from mage.training.sweep import summarise

    return Sweep(path, summarise(path))
