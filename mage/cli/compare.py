"""`mage compare`: methods side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mage.api import compare
from mage.evaluation.compare.tables import comparison_table
from mage.runs.console import plain_console
from mage.runs.drawings import shown

_INPUTS = typer.Argument(metavar="RUN_OR_SWEEP_OR_REPORT…", help="What to compare; NAME=PATH gives a method a name.")
_OUT = typer.Option("--out", "-o", metavar="DIR", help="A directory for tables, plots and sources.")


def command(
    inputs: Annotated[list[str], _INPUTS],
    out: Annotated[Path | None, _OUT] = None,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw plots too; they need matplotlib.")] = True,
) -> None:
    """Put methods side by side, in tables and plots. Scores beside control and limits, ties, what training cost."""
    found = compare(*inputs)
    if out is not None:
        found.write(out, plots=plots)
    console = plain_console()
    console.print(comparison_table(found.comparison, found.inputs, console.width))
    if out is not None:
        console.print(shown(f"\nsaved in    {out}", "dim"), soft_wrap=True)
