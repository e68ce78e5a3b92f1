"""`mage cross-play`: agents against each other, as a pay-off matrix and ratings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from mage.cli.options import Concurrency, Episodes, MaxCalls, MaxTurns, Seed, World
from mage.cli.tables import say_saved
from mage.config.load import parse_override
from mage.evaluation.game_reports import CrossPlay, run_cross_play
from mage.evaluation.game_tables import cross_play_table
from mage.evaluation.resource_limits import ResourceLimits
from mage.runs.console import plain_console

_OVERRIDE = re.compile(r"[a-z_]+(\.[a-z_]+)*=")
"""How a setting begins; an agent's own parameters stand in brackets."""
_AGENTS = typer.Argument(metavar="AGENT… KEY=VALUE…", help="Agents, and overrides for the models among them.")
_OUT = typer.Option("--out", "-o", metavar="DIR", help="A directory; the same command there goes on.")


def command(
    arguments: Annotated[list[str], _AGENTS],
    world: World,
    episodes: Episodes = 3,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each pair, in each order of seats.")] = 100,
    seed: Seed = 0,
    max_turns: MaxTurns = 1000,
    out: Annotated[Path | None, _OUT] = None,
    concurrency: Concurrency = None,
    max_calls: MaxCalls = None,
) -> None:
    """Let agents meet each other in both seats. Pay-off matrix, Elo, Nash averaging and alpha-rank come of it."""
    values = dict(parse_override(argument) for argument in arguments if _OVERRIDE.match(argument))
    agents = tuple(argument for argument in arguments if not _OVERRIDE.match(argument))
    plan = CrossPlay(agents, world, episodes, trials, seed, max_turns, values)
    path, report = run_cross_play(plan, out, ResourceLimits(concurrency, max_calls))
    console = plain_console()
    console.print(cross_play_table(report.found))
    say_saved(console, path, " [N]")
