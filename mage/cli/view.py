"""`mage view`: serve the pages that show runs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from mage.errors import ConfigError
from mage.extras import install_command

USUAL = Path("runs")
"""What is shown where no directory is named; it need not exist yet."""
_FOLDER = typer.Argument(metavar="DIR", help="A directory with runs in it, or a run; runs by default.")
_HOST = typer.Option(help="An address of this machine; with others than loopback other machines can reach it.")


def command(
    folder: Annotated[Path | None, _FOLDER] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="8765 by default, or the next free one.")] = None,
    host: Annotated[str, _HOST] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Look at runs in a browser, and play there. Curves, trials, tokens and evaluations."""
    if any(find_spec(name) is None for name in ("starlette", "uvicorn", "markdown_it")):
        raise ConfigError(f"looking at runs in a browser needs the extra view: {install_command('view')}")
    if folder is not None and not folder.is_dir():
        raise ConfigError(f"{folder} is not a directory; name one with runs in it, or a run")
    from mage.view.serve import serve

    root = USUAL if folder is None else folder

    def say(url: str) -> None:
        print(f"showing {root} at {url}\nCtrl-C ends it.", flush=True)

    serve(root, host, port, say, opens_browser=browser)
