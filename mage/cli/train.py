"""`mage train`: what it does and what it prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from mage.config.load import parse_override
from mage.config.schema import Config
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report import read_report
from mage.evaluation.suite.report_tables import summary_table
from mage.runs.drawings import shown
from mage.runs.store import RunReader
from mage.training.recorder import RunRecorder
from mage.training.run import create_run, train_run
from mage.types import Trial
from mage.worlds.openspiel.words.base import signed


def run_training(
    config: Config, folder: Path | None, eval_agent: str, max_minutes: float | None, console: Console
) -> int:
    """Train in a new run. Returns the exit code."""
    path, parts = create_run(config, folder, eval_agent)
    return _trained(path, train_run(path, console, max_minutes, parts=parts), console)


def resume_training(folder: Path, overrides: Sequence[str], max_minutes: float | None, console: Console) -> int:
    """Go on with a run, with some settings changed. Returns the exit code."""
    values = dict(map(parse_override, overrides))
    return _trained(folder, train_run(folder, console, max_minutes, values=values), console)


def _trained(folder: Path, recorder: RunRecorder, console: Console) -> int:
    """Print what came out, or how to go on."""
    if not recorder.is_finished:
        console.print(shown(f"go on with  mage train --resume {folder}"), soft_wrap=True)
        return 0
    reports = saved_reports(folder)
    if reports:
        console.print(Group(Text(), summary_table(reports)))
    reader = RunReader(folder)
    trials = [outcome for outcome in reader.trials() if isinstance(outcome, Trial)]
    if len(trials) > 1:
        console.print(Group(Text(), short_trial(trials[0], "The same task before training"), Text()))
        console.print(short_trial(trials[-1], f"and after {recorder.step} steps"))
    console.print(shown(f"\nsaved in    {folder}\njudge with  mage evaluate {folder}", "dim"), soft_wrap=True)
    return 0


def saved_reports(folder: Path) -> Sequence[SplitReport]:
    """The last evaluation of a run; empty where there was none."""
    path = folder / "evaluations" / "final.json"
    return read_report(path, SplitReport).reports if path.exists() else ()


def short_trial(trial: Trial, title: str) -> Table:
    """A trial in a few lines: who played what in each episode, and the score."""
    table = Table(title=shown(f"{title}, against {', '.join(trial.task.opponents)}"), title_justify="left", box=None)
    for name in ("episode", "the agent", "the opponents", "score", "its note"):
        table.add_column(name, justify="right" if name == "score" else "left")
    notes = {turn.observation.episode: turn.action or "" for turn in trial.reflections}
    for index, episode in enumerate(trial.episodes):
        mine, theirs = (
            ", ".join(t.action or "gives up" for t in episode.turns if (t.observation.seat == trial.task.seat) is own)
            for own in (True, False)
        )
        score = signed(episode.result.returns[trial.task.seat])
        table.add_row(str(index + 1), shown(mine), shown(theirs), score, shown(notes.get(index, "")))
    return table
