"""Commands that play and look: list, play, duel, trials and show."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mage.cli.options import DryRun, Episodes, MaxTurns, Overrides, Run, Seed, World


class Listing(StrEnum):
    """What can be listed."""

    WORLDS = "worlds"
    OPPONENTS = "opponents"
    RECIPES = "recipes"
    MODELS = "models"
    SPLITS = "splits"


def list_(
    kind: Listing, everything: Annotated[bool, typer.Option("--all", help="Games: OpenSpiel's own too.")] = False
) -> None:
    """List worlds, opponents, recipes, models or splits."""
    from mage.cli import catalogue
    from mage.runs.console import plain_console

    listed = {
        Listing.WORLDS: lambda: catalogue.games(everything),
        Listing.OPPONENTS: catalogue.opponents,
        Listing.RECIPES: catalogue.recipes,
        Listing.MODELS: catalogue.models,
        Listing.SPLITS: catalogue.splits,
    }
    plain_console().print(listed[kind]())


def play(
    world: Annotated[str, typer.Argument(metavar="WORLD", help="A world spec, such as tic_tac_toe or rps(rounds=5).")],
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
    """Play a game yourself, in this terminal. Any opponent may sit opposite."""
    import secrets

    from mage.cli.terminal import play_in_terminal, seated_task
    from mage.runs.console import plain_console

    drawn = secrets.randbits(32) if seed is None else seed
    task = seated_task(world, against, seat, episodes, replay_deal, drawn, max_turns)
    raise typer.Exit(play_in_terminal(task, run, plain_console()))


def duel(
    player: Annotated[
        str, typer.Argument(metavar="A", help="The opponent spec that is judged; it takes every seat in turn.")
    ],
    opponents: Annotated[
        list[str], typer.Argument(metavar="B", help="Who sits opposite: one spec for all seats or one for each.")
    ],
    world: World,
    trials: Annotated[int, typer.Option(min=2, help="Trials in each seat.")] = 100,
    episodes: Episodes = 1,
    seed: Seed = 0,
    max_turns: MaxTurns = 1000,
    run: Run = None,
) -> None:
    """Let two players meet many times. The table shows means with 95 % intervals."""
    from mage.cli.duel import Duel
    from mage.cli.terminal import run_duel
    from mage.runs.console import plain_console

    plan = Duel(player, tuple(opponents), world, trials, episodes, seed, max_turns)
    raise typer.Exit(run_duel(plan, run, plain_console()))


def trials(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A shipped recipe, the path of a TOML file, or several with + between them, as in rps+grpo.",
        ),
    ],
    overrides: Overrides = None,
    run: Run = None,
    dry_run: DryRun = False,
) -> None:
    """Play the trials of a recipe; nothing is learned. They are printed and saved."""
    from mage.config.load import load_config, to_toml

    config = load_config(recipe, overrides or ())
    if dry_run:
        print(to_toml(config), end="")
        return
    from mage.cli.trials import run_trials
    from mage.runs.console import plain_console

    raise typer.Exit(run_trials(config, run, plain_console()))


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    trial: Annotated[
        int | None, typer.Argument(metavar="N", min=0, help="The number of a trial; all are listed without it.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most trials to list.")] = 40,
) -> None:
    """List the trials of a run, or read one of them."""
    from mage.cli.terminal import listed_run, one_trial
    from mage.runs.console import plain_console
    from mage.runs.store import RunReader

    reader = RunReader(run)
    for sentence in reader.damage:
        print(f"mage: {run}: {sentence}", file=sys.stderr)
    plain_console().print(listed_run(reader, limit) if trial is None else one_trial(reader, trial))
