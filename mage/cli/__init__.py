"""The command line: one module per command, imported when the command is given or its help is asked for."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from mage.cli.options import Imports, import_given, with_common_options
from mage.cli.usage_errors import UsageError, one_line
from mage.errors import MageError
from mage.shortage import ShortagesAsErrors
from mage.version import __version__

COMMANDS = {
    "list": "List worlds, opponents, recipes, models, methods or splits.",
    "play": "Play a trial yourself, in this terminal.",
    "duel": "Let two players meet many times.",
    "trials": "Play the trials of a recipe; nothing is learned.",
    "show": "List the trials of a run, or read one of them.",
    "view": "Look at runs in a browser, and play there.",
    "export": "Write one page to look at.",
    "league": "Show the league of a run.",
    "train": "Train an agent by a recipe, or go on with a run.",
    "sweep": "Train several recipes with several seeds.",
    "export-model": "Write a run's weights, to be loaded elsewhere.",
    "evaluate": "Evaluate an agent of any kind.",
    "cross-play": "Let agents meet each other in both seats.",
    "nashconv": "Find what best replies to an agent would gain.",
    "compare": "Put methods side by side, in tables and plots.",
    "plan": "Say what a recipe needs of each card, and how fast it goes.",
    "value": "Say whether a task needs memory or exploration.",
    "split": "Write a split of your own: opponents or levels to evaluate on.",
    "check-world": "Check that a world keeps its contract.",
}
"""By name, the first sentence of each command's help. `mage.cli.NAME` has its function, called `command`."""
ASK_MODELS = ("play", "duel", "trials", "train", "sweep", "evaluate", "cross-play", "nashconv", "split")
"""Commands that may name a remote model, and so have the option `--allow-host`."""
_PLAIN: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}


class LazyGroup(TyperGroup):
    """Lists the commands of the table, and imports the one that is given."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest


def load_command(name: str) -> Any:
    """The command from its module."""
    alone = typer.Typer(**_PLAIN)
    own = import_module(f"mage.cli.{name.replace('-', '_')}").command
    alone.command(name)(with_common_options(own, asks_models=name in ASK_MODELS))
    return get_command(alone)


app = typer.Typer(
    cls=LazyGroup, help="Train language-model agents that learn while they play.", no_args_is_help=True, **_PLAIN
)
for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)


def main() -> None:
    """Run the command line: errors made on purpose are one line, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # A terminal without Unicode still shows everything.
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as an interrupt, which saves what was played
    try:
        with ShortagesAsErrors():
            code = app(prog_name="mage", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except UsageError as error:
        print(one_line(error, sys.argv[1:], COMMANDS), file=sys.stderr)
        sys.exit(2)
    except MageError as error:
        print(f"mage: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except typer.Abort as error:
        print(f"mage: aborted; {error.__cause__ or 'nothing more can be read'}", file=sys.stderr)
        sys.exit(1)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"mage {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    imports: Imports = None,
) -> None:
    """Train language-model agents that learn while they play."""
    import_given(imports)
