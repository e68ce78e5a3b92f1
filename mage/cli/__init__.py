"""The command line. Commands import what they need when they run, so that help is instant."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from typing import Annotated

import typer

from mage.cli import commands_evaluate, commands_play, commands_train, commands_view
from mage.errors import MageError
from mage.version import __version__

app = typer.Typer(
    help="Train language-model agents that learn while they play.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

COMMANDS: Mapping[str, Callable[..., None]] = {
    "list": commands_play.list_,
    "play": commands_play.play,
    "duel": commands_play.duel,
    "trials": commands_play.trials,
    "show": commands_play.show,
    "view": commands_view.view,
    "export": commands_view.export,
    "league": commands_view.league,
    "train": commands_train.train,
    "sweep": commands_train.sweep,
    "export-model": commands_train.export_model,
    "evaluate": commands_evaluate.evaluate,
    "cross-play": commands_evaluate.cross_play,
    "nashconv": commands_evaluate.nashconv,
    "compare": commands_evaluate.compare,
    "split": commands_evaluate.split,
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
