"""`mage plan`: memory and speed of a recipe, before anything is loaded."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from mage.cli.options import Overrides, Recipe
from mage.planning.plan import CARD_GIB, PER_NODE, plan
from mage.planning.plan_tables import plan_table
from mage.runs.console import plain_console

_MODEL = typer.Option(
    metavar="MODEL", help="In place of the recipe's: any model, or a shape by name: qwen3-4b, 7b, 70b, …"
)
_GPUS = typer.Option(min=0, help="Number of cards; 0 is a CPU. By default 1, or 0 where the recipe's device is cpu.")
_GIB = typer.Option(min=1, help="Memory of a card in GiB.")
_PER_NODE = typer.Option(min=1, help="Cards of one machine.")
_TOKENS = typer.Option(min=1, help="Tokens of a trial, where they are known; counted in random play otherwise.")


def command(
    recipe: Annotated[str, Recipe],
    overrides: Overrides = None,
    model: Annotated[str | None, _MODEL] = None,
    gpus: Annotated[int | None, _GPUS] = None,
    gib: Annotated[float, _GIB] = CARD_GIB,
    per_node: Annotated[int, _PER_NODE] = PER_NODE,
    trial_tokens: Annotated[int | None, _TOKENS] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON instead.")] = False,
) -> None:
    """Say what a recipe needs of each card, and how fast it goes. Nothing is loaded; every figure says how it is known.

    Where it does not fit, one line says which settings to change, and the exit code is 1.
    """
    found = plan(recipe, overrides, model=model, gpus=gpus, gib=gib, per_node=per_node, trial_tokens=trial_tokens)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        plain_console().print(plan_table(found))
    raise typer.Exit(0 if found.fits else 1)
