"""`mage check-world`: whether a world keeps its contract."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from mage.checks.worlds import WorldReport, check_world
from mage.runs.console import plain_console
from mage.runs.drawings import shown

_WORLD = typer.Argument(metavar="WORLD", help="A world spec, such as tic_tac_toe or rps(rounds=5).")
_SEEDS = typer.Option(min=1, help="Tasks that are played, each with a seed of its own.")
_MAX_TURNS = typer.Option(min=1, help="An episode longer than this is truncated.")
_LEVEL = typer.Option(metavar="LEVEL", help="A level to check beside those that the seeds draw.")
_ACTION = typer.Option(metavar="TEXT", help="Where any text is an action: one to play beside nonsense.")


def command(
    world: Annotated[str, _WORLD],
    seeds: Annotated[int, _SEEDS] = 5,
    max_turns: Annotated[int, _MAX_TURNS] = 200,
    level: Annotated[list[str] | None, _LEVEL] = None,
    action: Annotated[list[str] | None, _ACTION] = None,
) -> None:
    """Check that a world keeps its contract. It is played at random; one line says what is broken."""
    report = check_world(world, range(seeds), max_turns=max_turns, levels=level or (), texts=action or ())
    title = Text.assemble(shown(world, "bold"), " keeps the contract of worlds")
    plain_console().print(Group(title, _table(report)))


def _table(report: WorldReport) -> Table:
    info = report.info
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", min_width=11)
    table.add_column(overflow="fold")
    claimed = f"{info.lowest:g} to {info.highest:g} claimed"
    rows = {
        "seats": str(info.num_seats),
        "actions": "any text" if info.has_open_actions else "from a list",
        "episodes": f"{report.num_episodes} played, {report.num_turns} turns",
        "scores": f"{report.lowest:g} to {report.highest:g} seen, {claimed}",
        "levels": ", ".join(report.levels) or "none",
        "exact model": report.exact,
    }
    for name, value in rows.items():
        table.add_row(name, shown(value))
    return table
