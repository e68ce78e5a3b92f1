"""The command line. Commands import what they need when they run, so that help is instant."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from typing import Annotated

import typer

from mage import __version__
from mage.cli import judge, learn, look, play
from mage.errors import MageError

app = typer.Typer(
    help="Train language-model agents that learn while they play.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

COMMANDS: Mapping[str, Callable[..., None]] = {
    "list": play.list_,
    "play": play.play,
    "duel": play.duel,
    "trials": play.trials,
    "show": play.show,
    "view": look.view,
    "export": look.export,
    "league": look.league,
    "train": learn.train,
    "sweep": learn.sweep,
    "export-model": learn.export_model,
    "evaluate": judge.evaluate,
    "cross-play": judge.cross_play,
    "nashconv": judge.nashconv,
    "compare": judge.compare,
    "split": judge.split,
}
"""In the order in which help lists them, by the first sentence of each."""


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


for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
