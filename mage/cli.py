"""The command line. Commands import what they need when they run, so that help is instant."""

from __future__ import annotations

import sys
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mage import __version__
from mage.errors import ConfigError, MageError

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    help="Train language-model agents that learn while they play.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Seed = Annotated[int, typer.Option(min=0, help="Fixes every draw.")]
Run = Annotated[Path | None, typer.Option("--run", help="A new directory for the run; runs/… by default.")]
Recipe = Annotated[str, typer.Argument(metavar="RECIPE", help="A shipped recipe or the path of a TOML file.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Overrides, such as trial.episodes=5.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved config and stop.")]
MaxTurns = Annotated[int, typer.Option(min=1, help="Moves after which an episode is stopped.")]


class Kind(StrEnum):
    """What can be listed."""

    GAMES = "games"
    OPPONENTS = "opponents"
    RECIPES = "recipes"
    MODELS = "models"


def main() -> None:
    """Run the command line: errors made on purpose are one line, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # A terminal without Unicode still shows everything.
    try:
        app()
    except MageError as error:
        print(f"mage: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"mage {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train language-model agents that learn while they play."""


@app.command("list")
def list_(
    kind: Kind, everything: Annotated[bool, typer.Option("--all", help="Games: OpenSpiel's own too.")] = False
) -> None:
    """List the games, opponents, recipes or models that exist."""
    from mage.commands import catalogue

    if kind is Kind.GAMES:
        _console().print(catalogue.games(everything))
    elif kind is Kind.OPPONENTS:
        _console().print(catalogue.opponents())
    elif kind is Kind.RECIPES:
        _console().print(catalogue.recipes())
    else:
        _console().print(catalogue.models())


@app.command()
def play(
    game: Annotated[str, typer.Argument(metavar="GAME", help="A game spec, such as tic_tac_toe or rps(rounds=5).")],
    against: Annotated[list[str], typer.Option(help="An opponent spec; several for games with more seats.")],
    seat: Annotated[int, typer.Option(min=0, help="Your seat; 0 moves first.")] = 0,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes against the same opponent.")] = 3,
    replay_deal: Annotated[bool, typer.Option("--replay-deal", help="Deal the same cards in every episode.")] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Fixes the deals and the opponent; random by default.")
    ] = None,
    max_turns: MaxTurns = 1000,
    run: Run = None,
) -> None:
    """Play a game yourself, in this terminal, against any opponent."""
    import secrets

    from mage.commands.terminal import play_in_terminal, seated_task

    drawn = secrets.randbits(32) if seed is None else seed
    task = seated_task(game, against, seat, episodes, replay_deal, drawn, max_turns)
    raise typer.Exit(play_in_terminal(task, run, _console()))


@app.command()
def duel(
    player: Annotated[
        str, typer.Argument(metavar="A", help="The opponent spec that is judged; it takes every seat in turn.")
    ],
    opponents: Annotated[
        list[str], typer.Argument(metavar="B", help="Who sits opposite: one spec for all seats or one for each.")
    ],
    game: Annotated[str, typer.Option(help="A game spec.")],
    trials: Annotated[int, typer.Option(min=2, help="Trials in each seat.")] = 100,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes in each trial.")] = 1,
    seed: Seed = 0,
    max_turns: MaxTurns = 1000,
    run: Run = None,
) -> None:
    """Let two players meet many times; the table shows means with 95 % intervals."""
    from mage.commands.duel import Duel
    from mage.commands.terminal import run_duel

    plan = Duel(player, tuple(opponents), game, trials, episodes, seed, max_turns)
    raise typer.Exit(run_duel(plan, run, _console()))


@app.command()
def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    trial: Annotated[
        int | None, typer.Argument(metavar="N", min=0, help="The number of a trial; all are listed without it.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most trials to list.")] = 40,
) -> None:
    """List the trials of a run, or read one of them."""
    from mage.commands.terminal import listed_run, one_trial
    from mage.record.store import RunReader

    reader = RunReader(run)
    for sentence in reader.damage:
        print(f"mage: {run}: {sentence}", file=sys.stderr)
    _console().print(listed_run(reader, limit) if trial is None else one_trial(reader, trial))


@app.command()
def trials(
    recipe: Recipe,
    overrides: Overrides = None,
    run: Run = None,
    dry_run: DryRun = False,
) -> None:
    """Play the trials of a recipe, print them and save them; nothing is learned."""
    from mage.config import load_config, to_toml

    config = load_config(recipe, overrides or ())
    if dry_run:
        print(to_toml(config), end="")
        return
    from mage.commands.trials import run_trials

    raise typer.Exit(run_trials(config, run, _console()))


@app.command()
def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A shipped recipe or the path of a TOML file.")
    ] = None,
    overrides: Overrides = None,
    run: Run = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with this run instead.")] = None,
    max_minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop cleanly after the step that passes this time.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Train an agent by a recipe, or go on with a run that was stopped, with some settings changed if you like."""
    from mage.config import load_config, to_toml

    given = overrides or []
    if resume is not None and recipe is not None and "=" in recipe:
        given, recipe = [recipe, *given], None
    if (recipe is None) is (resume is None):
        raise ConfigError("give a recipe to train by, or --resume RUN to go on with a run, and not both")
    if resume is not None and (run is not None or dry_run):
        raise ConfigError("--run and --dry-run go with a recipe; a resumed run has its directory and its config")
    config = None if recipe is None else load_config(recipe, given)
    if dry_run and config is not None:
        print(to_toml(config), end="")
        return
    _needs_torch()
    from mage.commands.train import resume_training, run_training

    if resume is not None:
        raise typer.Exit(resume_training(resume, given, max_minutes, _console()))
    assert config is not None
    raise typer.Exit(run_training(config, run, Path(str(recipe)).stem, max_minutes, _console()))


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A train run.")],
    trials: Annotated[int | None, typer.Option(min=1, help="Trials per member and seat.")] = None,
    reflections: Annotated[
        bool, typer.Option("--reflections", help="Judge what reflections do: kept, removed, or another trial's.")
    ] = False,
) -> None:
    """Judge a run's newest weights on its splits, beside the no-memory control and the exact references."""
    _needs_torch()
    from mage.commands.train import run_evaluation, run_reflections

    raise typer.Exit((run_reflections if reflections else run_evaluation)(run, trials, _console()))


@app.command()
def split(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; its name, less .json, is the split's.")],
    members: Annotated[list[str], typer.Argument(metavar="MEMBER", help="Opponent specs.")],
    game: Annotated[str, typer.Option(help="A game spec.")],
    description: Annotated[str, typer.Option(help="One line on who they are.")] = "",
    held_out: Annotated[bool, typer.Option("--held-out", help="Refuse to train against them.")] = False,
    pool: Annotated[str, typer.Option(help="The split whose members a player may expect; itself by default.")] = "",
) -> None:
    """Write a split of your own: opponents to judge by, with a hash."""
    from mage.evaluate.splits import write_split

    made = write_split(file, game, members, description=description, held_out=held_out, pool=pool)
    _console().print(f"{file}: {', '.join(made.members)} in {made.game}, hash {made.sha256[:12]}", soft_wrap=True)


@app.command()
def sweep(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="RECIPE… KEY=VALUE…", help="Recipes, and overrides that go for all of them."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds per recipe, from its own on; 3 by default.")] = None,
    run: Annotated[Path | None, typer.Option("--run", help="A new directory for the sweep; runs/… by default.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with this sweep instead.")] = None,
    max_minutes: Annotated[
        float | None, typer.Option(min=0, help="Training time of each run; it is judged where it stands then.")
    ] = None,
) -> None:
    """Train several recipes with several seeds in one process, and summarise them in one table."""
    if (resume is None) is not bool(arguments):
        raise ConfigError("give recipes to sweep over, or --resume DIR to go on with a sweep, and not both")
    if resume is not None and (seeds, run, max_minutes) != (None, None, None):
        raise ConfigError("--seeds, --run and --max-minutes go with recipes; a resumed sweep has its plan")
    _needs_torch()
    from mage.commands.sweep import new_sweep, resume_sweep

    if resume is not None:
        raise typer.Exit(resume_sweep(resume, _console()))
    raise typer.Exit(new_sweep(arguments or [], seeds or 3, run, max_minutes, _console()))


@app.command("export-model")
def export_model(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A train run.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="A new directory for the model.")],
    step: Annotated[int | None, typer.Option(min=0, help="The weights after this step; the newest by default.")] = None,
    best: Annotated[bool, typer.Option("--best", help="The best of the weights judged while training.")] = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="The whole model, with the adapter of a LoRA run in it.")
    ] = False,
) -> None:
    """Write a run's weights in Hugging Face layout, with tokenizer, chat template and model card."""
    _needs_torch()
    from mage.commands.export import run_export

    raise typer.Exit(run_export(run, out, step, best, merge, _console()))


def _needs_torch() -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None or find_spec("transformers") is None:
        raise ConfigError("training needs the extra train: pip install 'mage-rl[train]'")


def _console() -> Console:
    """Where output goes. Nothing in it is read as markup: it may hold words of models."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)
