"""Commands that show runs: view and export in a browser, league in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def view(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A directory with runs in it, or a run; runs by default.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="8765 by default, or the next free one.")] = None,
    host: Annotated[
        str, typer.Option(help="An address of this machine; others than loopback need the token in the URL.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Look at runs in a browser, and play there. Curves, trials, tokens and evaluations."""
    from mage.cli.view import run_view

    raise typer.Exit(run_view(folder, host, port, opens_browser=browser))


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run of any kind.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="A new file, such as page.html.")],
    trials: Annotated[str | None, typer.Option(metavar="N,M", help="Numbers of the trials to show.")] = None,
    most: Annotated[
        int | None, typer.Option(min=0, help="Most trials, chosen from all over the run; 20 by default.")
    ] = None,
) -> None:
    """Write one page to look at. A run's curves and some of its trials in a single HTML file; no weights."""
    from mage.cli.export_page import run_export_page
    from mage.runs.console import plain_console

    raise typer.Exit(run_export_page(run, out, trials, most, plain_console()))


def league(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A train run with league.learners over 0.")],
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw it too, as PNG files in this directory.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON instead.")] = False,
) -> None:
    """Show the league of a run. Members with ratings, pay-offs, family tree; who was copied, kept, retired, and why."""
    from mage.cli.league import run_league
    from mage.runs.console import plain_console

    raise typer.Exit(run_league(run, plots, plain_console(), as_json=as_json))
