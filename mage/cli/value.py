"""`mage value`: what a task is worth before any training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mage.api import value
from mage.cli.options import Episodes, Seed
from mage.errors import RecordError
from mage.evaluation.suite.report import command_line
from mage.evaluation.value.value_file import to_json, write_json
from mage.evaluation.value.value_plots import check_plot_path, write_plot
from mage.evaluation.value.value_tables import value_table
from mage.runs.console import plain_console
from mage.runs.drawings import shown

_WORLD = typer.Argument(metavar="WORLD", help="A world spec, such as hidden(doors) or rps(rounds=3).")
_OPPONENTS = typer.Option("--opponents", "--level", help="A split, an opponent spec or a level; several are one pool.")
_DISCOUNT = typer.Option(help="Discount across an episode boundary, of LaMer and MAGE.")
_WORDS = typer.Option(min=0, help="Search plays with 1 to so many words at each boundary: lower bounds.")
_LAST = typer.Option("--last-episode", help="Search plays that remember the last episode alone: a lower bound.")
_VARY = typer.Option(metavar="PARAMETER=LOW:HIGH[:POINTS]", help="Change a parameter and find where objectives jump.")
_JSON = typer.Option("--json", metavar="FILE", help="Write the values as JSON; - prints them instead of the tables.")
_PLOT = typer.Option(metavar="FILE", help="Draw last scores against the episodes, or with --vary the parameter.")
_SAMPLES = typer.Option(min=2, help="Draws and trials for bounds, where a task is too large to be planned.")


def command(
    world: Annotated[str, _WORLD],
    opponents: Annotated[list[str] | None, _OPPONENTS] = None,
    seat: Annotated[int, typer.Option(min=0, help="The agent's seat.")] = 0,
    episodes: Episodes = 3,
    discount: Annotated[float, _DISCOUNT] = 0.6,
    words: Annotated[int, _WORDS] = 0,
    last_episode: Annotated[bool, _LAST] = False,
    vary: Annotated[str | None, _VARY] = None,
    json: Annotated[str | None, _JSON] = None,
    plot: Annotated[Path | None, _PLOT] = None,
    samples: Annotated[int, _SAMPLES] = 32,
    seed: Seed = 0,
) -> None:
    """Say whether a task needs memory or exploration. Exact scores of the best plays, before any training."""
    if plot is not None:
        check_plot_path(plot)
    for given in (json, plot):
        if given not in (None, "-") and Path(str(given)).exists():
            raise RecordError(f"{given} exists already; name a new file")
    found = value(
        world,
        opponents=opponents or (),
        seat=seat,
        episodes=episodes,
        discount=discount,
        words=words,
        last_episode=last_episode,
        vary=vary,
        curve=plot is not None and vary is None,
        samples=samples,
        seed=seed,
    )
    if plot is not None:
        write_plot(found.figure(), plot, command_line())
    if json == "-":
        print(to_json(found.content).decode(), end="")
        return
    console = plain_console()
    console.print(value_table(found.content.report, found.content.dial))
    if json is not None:
        write_json(found.content, Path(json))
    for path in (json, plot):
        if path is not None:
            console.print(shown(f"saved in  {path}", "dim"), soft_wrap=True)
