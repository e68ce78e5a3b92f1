"""`mage train`: train by a recipe, and show what was learned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from mage.cli.options import DryRun, Overrides, Recipe, Run
from mage.cli.recipes import load_recipe
from mage.config.compose import label_of
from mage.config.load import parse_override, to_toml
from mage.errors import ConfigError
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report import read_report
from mage.evaluation.suite.report_tables import summary_table
from mage.learners.sharded.cards import is_torchrun_worker
from mage.runs.console import plain_console, say
from mage.runs.drawings import shown
from mage.runs.store import RunReader, read_info
from mage.training.rise import read_chosen
from mage.training.start import check_config, check_new_run
from mage.training.without_effect import refuse_without_effect
from mage.types import Trial
from mage.view.read.opponent_text import name_and_words
from mage.worlds.openspiel.words.base import signed

_FINAL = Path("evaluations") / "final.json"
_MINUTES = typer.Option(min=0, help="Stop cleanly after the step that passes this time.")


def command(
    recipe: Annotated[str | None, Recipe] = None,
    overrides: Overrides = None,
    run: Run = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with this run instead.")] = None,
    max_minutes: Annotated[float | None, _MINUTES] = None,
    dry_run: DryRun = False,
) -> None:
    """Train an agent by a recipe, or go on with a run. Some settings may be changed on the way."""
    if is_torchrun_worker():
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # else PyTorch prints stacks where rank 0 ends first
        from mage.learners.sharded.worker import serve_torchrun

        serve_torchrun()
        return
    given = overrides or []
    if resume is not None and recipe is not None and "=" in recipe:
        given, recipe = [recipe, *given], None
    if (recipe is None) is (resume is None):
        raise ConfigError("give a recipe to train by, or --resume RUN to go on with a run, and not both")
    if resume is not None and (run is not None or dry_run):
        raise ConfigError("--run and --dry-run go with a recipe; a resumed run has its directory and its config")
    config = None if recipe is None else load_recipe(recipe, given)
    if config is not None:
        refuse_without_effect(config)
    if dry_run and config is not None:
        check_config(config)
        print(to_toml(config), end="")
        return
    console = plain_console()
    if config is not None:
        check_new_run(run, config)
    elif resume is not None and not given and (step := finished_step(resume)) is not None:
        said = f"already finished: all {step} steps are done; mage train --resume {resume} steps=… adds some"
        console.print(shown(said), soft_wrap=True)
        print_results(resume, step, console)
        return
    say("loading PyTorch and the model …")
    from mage.training.run import create_run, train_run

    if resume is not None:
        folder, recorder = resume, train_run(resume, console, max_minutes, values=dict(map(parse_override, given)))
    else:
        assert config is not None
        folder, parts = create_run(config, run, label_of(str(recipe)))
        recorder = train_run(folder, console, max_minutes, parts=parts)
    if recorder.is_finished:
        print_results(folder, recorder.step, console)
    else:
        console.print(shown(f"go on with  mage train --resume {folder}"), soft_wrap=True)


def print_results(folder: Path, step: int, console: Console) -> None:
    """Print the last evaluation of a finished run, and a trial before and after training."""
    reports = saved_reports(folder)
    if reports:
        console.print(Group(Text(), summary_table(reports)))
    trials = [outcome for outcome in RunReader(folder).trials() if isinstance(outcome, Trial)]
    if len(trials) > 1:
        console.print(Group(Text(), short_trial(trials[0], "The same task before training"), Text()))
        console.print(short_trial(trials[-1], f"and after {step} steps"))
    chosen = read_chosen(folder)
    if chosen is not None:
        told = f"{chosen.num_rising} of {chosen.num_trials} score more in the last episode than in the first"
        about = f"The trial of the final evaluation that rises most, chosen for that ({told})"
        console.print(Group(Text(), short_trial(chosen.trial, about)))
    hints = {"saved in": folder, "evaluate with": f"mage evaluate {folder}", "look with": f"mage view {folder.parent}"}
    lines = "".join(f"\n{name:<14} {value}" for name, value in hints.items())
    console.print(shown(lines, "dim"), soft_wrap=True)


def finished_step(folder: Path) -> int | None:
    """The last step of a run that is finished and evaluated; None where steps are left."""
    if read_info(folder).kind != "train" or not (folder / _FINAL).exists():
        return None
    return read_report(folder / _FINAL, SplitReport).step


def saved_reports(folder: Path) -> Sequence[SplitReport]:
    """The last evaluation of a run; empty where there was none."""
    path = folder / _FINAL
    return read_report(path, SplitReport).reports if path.exists() else ()


def short_trial(trial: Trial, title: str) -> Group:
    """A trial in a few lines: the moves of each episode, and the score."""
    task = trial.task
    level = f", level {task.level}" if task.level else ""
    about = (
        "".join(f"\nThe opponent: {name_and_words(spec, task.world)}" for spec in dict.fromkeys(task.opponents))
        or level
    )
    table = Table(header_style="dim", box=None)
    others = ["the opponents"] if task.opponents else []
    has_notes = ["its note"] if trial.reflections else []
    for name in ("episode", "the agent", *others, "score", *has_notes):
        table.add_column(name, justify="right" if name == "score" else "left")
    notes = {turn.observation.episode: turn.action or "" for turn in trial.reflections}
    for index, episode in enumerate(trial.episodes):
        mine, theirs = (
            ", ".join(t.action or "gives up" for t in episode.turns if (t.observation.seat == trial.task.seat) is own)
            for own in (True, False)
        )
        score = signed(episode.result.returns[trial.task.seat])
        moves = [shown(mine), *([shown(theirs)] if others else [])]
        table.add_row(str(index + 1), *moves, score, *(shown(notes.get(index, "")) for _ in has_notes))
    return Group(shown(f"{title}{about}", "italic"), table)
