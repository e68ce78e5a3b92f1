"""What a script or a notebook works with: runs and reports as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from mage.config.compose import label_of
from mage.config.load import load_config, replaced
from mage.config.schema import Config
from mage.errors import RecordError
from mage.extras import require
from mage.files import read_lines
from mage.runs.console import WIDTH, as_text, plain_console
from mage.runs.store import RUN, RunReader, new_run_path
from mage.types import Failure, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mage.evaluation.compare.comparison import Comparison
    from mage.evaluation.compare.sources import ComparisonInputs
    from mage.evaluation.crossplay import CrossPlayReport
    from mage.evaluation.exploitability.nashconv import NashConvReport
    from mage.evaluation.exploitability.responders import LowerBound
    from mage.evaluation.suite.evaluate import SplitReport
    from mage.training.sweep_summary import SweepSummary

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """A training run: its directory, and what it was when it was opened."""

    path: Path
    config: Config
    step: int
    """Steps that its newest checkpoint has behind it."""
    num_tokens: int = 0
    """Tokens that were put through the learner for it."""

    @property
    def is_finished(self) -> bool:
        """Whether all steps are done, or all the tokens of training."""
        return self.config.is_over(self.step, self.num_tokens)

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
        from mage.training.run import go

        go(self.path, plain_console(quiet=quiet), max_minutes, values=overrides)
        return open_run(self.path)


@dataclass(frozen=True)
class Report:
    """An evaluation: one entry for each split, and a text to print."""

    step: int
    """Steps of training that the weights have behind them."""
    splits: Mapping[str, SplitReport]

    def __str__(self) -> str:
        from mage.evaluation.suite.report_tables import evaluation_table

        return as_text(evaluation_table(list(self.splits.values())))


@dataclass(frozen=True)
class SavedReport(Generic[T]):
    """What was found about agents in a game: the directory it is saved in, and the report. It prints as a table."""

    path: Path
    report: T
    text: str

    def __str__(self) -> str:
        return self.text


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
        from mage.cli.sweep import run_and_write

        return Sweep(self.path, run_and_write(self.path, plain_console(quiet=quiet)))

    def __str__(self) -> str:
        from mage.cli.sweep import sweep_table

        return as_text(sweep_table(self.summary))


@dataclass(frozen=True)
class ComparisonResult:
    """Methods side by side. It prints as a table; `comparison` has the figures."""

    comparison: Comparison
    inputs: ComparisonInputs

    def metrics(self) -> dict[str, Figure]:
        """All plots as matplotlib figures, by name."""
        from mage.evaluation.compare.plots import comparison_figures
        from mage.plot_style import check_matplotlib, style_context

        check_matplotlib()
        with style_context():
            return dict(comparison_figures(self.comparison, self.inputs.crossplays))

    def write(self, folder: str | Path, *, plots: bool = True) -> Path:
        """Write tables, plots and sources to a directory, which comes back."""
        from mage.cli.compare import write_comparison

        write_comparison(self.comparison, self.inputs, Path(folder), plots=plots)
        return Path(folder)

    def __str__(self) -> str:
        from mage.cli.compare import comparison_table

        return as_text(comparison_table(self.comparison, self.inputs, WIDTH))


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
    require("train", "training needs")
    from mage.training.run import begin, go

    path, parts = begin(config, None if folder is None else Path(folder), label_of(recipe))
    go(path, plain_console(quiet=quiet), max_minutes, parts=parts)
    return open_run(path)


def config_with(recipe: str, overrides: Mapping[str, object]) -> Config:
    """The config of a recipe with some values replaced, each named by its dotted key.

    >>> config_with("rps", {"learner.lr": 0.5, "steps": 3}).learner.lr
    0.5
    """
    return replaced(load_config(recipe), overrides, recipe)


def evaluate(
    agent: Run | str | Path,
    overrides: Mapping[str, object],
    *,
    world: str | None,
    opponents: Sequence[str],
    trials: int | None,
    folder: str | Path | None,
) -> Report:
    """Judge a run's newest weights, or anybody whom `mage evaluate` takes; all that was played is saved too."""
    from mage.cli.evaluate import begun, scores
    from mage.cli.resource_limits import ResourceLimits
    from mage.evaluation.eval_agent import load_eval_agent
    from mage.evaluation.plan import make_plan

    if isinstance(agent, Path) and not agent.exists():
        raise RecordError(f"{agent} does not exist, so there is nobody to judge")
    eval_agent = load_eval_agent(_named(agent), overrides)
    plan = make_plan(eval_agent, world=world, opponents=opponents, trials=trials, values=overrides)
    found = scores(
        eval_agent, plan, begun(eval_agent, plan, None if folder is None else Path(folder)), ResourceLimits()
    )
    return Report(found.step, {report.split: report for report in found.reports})


def cross_play(
    agents: Sequence[Run | str | Path],
    world: str,
    overrides: Mapping[str, object],
    *,
    episodes: int,
    trials: int,
    seed: int,
    folder: str | Path | None,
) -> SavedReport[CrossPlayReport]:
    """Let agents meet each other in both seats; all that was played is saved too."""
    from mage.cli.crossplay import CrossPlay, cross_play_table, played
    from mage.cli.resource_limits import ResourceLimits

    plan = CrossPlay(tuple(map(_named, agents)), world, episodes, trials, seed, values=overrides)
    path, made = played(plan, None if folder is None else Path(folder), ResourceLimits())
    return SavedReport(path, made.found, as_text(cross_play_table(made.found)))


def nashconv(
    agent: Run | str | Path,
    world: str,
    overrides: Mapping[str, object],
    *,
    after: Run | str | Path | None,
    episodes: int,
    trials: int,
    samples: int,
    responders: Sequence[Run | str | Path],
    learn: int,
    seed: int,
    folder: str | Path | None,
) -> SavedReport[NashConvReport | LowerBound]:
    """What best replies to an agent gain: exactly, or at least what some responders gain."""
    from mage.cli.nashconv import NashConv, found, nash_conv_table
    from mage.cli.resource_limits import ResourceLimits

    before = None if after is None else _named(after)
    those = tuple(map(_named, responders))
    plan = NashConv(_named(agent), world, before, episodes, trials, samples, those, learn, seed, overrides)
    path, made = found(plan, None if folder is None else Path(folder), ResourceLimits())
    return SavedReport(path, made.found, as_text(nash_conv_table(made.found)))


def open_run(folder: str | Path) -> Run:
    """A run from its directory."""
    require("train", "training needs")
    from mage.training.changes import config_of
    from mage.training.checkpoint import checkpoints, read_state

    path = Path(folder)
    config = config_of(path)
    saved = checkpoints(path / "checkpoints")
    if not saved:
        return Run(path, config, 0)
    state = read_state(saved[-1])
    return Run(path, config, state.step, int(state.learner.get("num_tokens", 0)))


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
    require("train", "training needs")
    from mage.training.sweep import make_sweep, plan_sweep

    plan = plan_sweep([(recipe, config_with(recipe, overrides)) for recipe in recipes], seeds, max_minutes)
    path = new_run_path("sweep", "-".join(map(label_of, recipes))) if folder is None else Path(folder)
    make_sweep(path, plan)
    return open_sweep(path).resume(quiet=quiet)


def open_sweep(folder: str | Path) -> Sweep:
    """A sweep from its directory."""
    require("train", "training needs")
    from mage.training.sweep import summarise

    return Sweep(Path(folder), summarise(Path(folder)))


def compare(inputs: Sequence[Run | Sweep | str | Path]) -> ComparisonResult:
    """Put runs, sweeps, evaluations and reports side by side; a text may be `NAME=PATH`."""
    from mage.evaluation.compare.comparison import compare as tables_of
    from mage.evaluation.compare.sources import read_inputs

    read = read_inputs([str(one.path if isinstance(one, Run | Sweep) else one) for one in inputs])
    return ComparisonResult(tables_of(read.entries), read)


def export_model(run: Run | str | Path, folder: str | Path, *, step: int | None, best: bool, merge: bool) -> Path:
    """Write the weights of a run to a new directory in Hugging Face layout, which comes back."""
    require("train", "training needs")
    from mage.training.export import export_model as write

    write(run.path if isinstance(run, Run) else Path(run), Path(folder), step=step, best=best, merge=merge)
    return Path(folder)


def _named(agent: Run | str | Path) -> str:
    """An agent as the command line names it."""
    return str(agent.path if isinstance(agent, Run) else agent)
