"""The page on which runs are looked at: checks what was asked for, and starts the server."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from mage.errors import ConfigError

USUAL = Path("runs")
"""What is shown where no directory is named; it need not exist yet."""


def run_view(folder: Path | None, host: str, port: int | None, *, opens_browser: bool) -> int:
    """Show the runs below a directory in a browser until somebody interrupts. Returns the exit code."""
    if any(find_spec(name) is None for name in ("starlette", "uvicorn", "markdown_it")):
        raise ConfigError("looking at runs in a browser needs the extra view: pip install 'mage-rl[view]'")
    if folder is not None and not folder.is_dir():
        raise ConfigError(f"{folder} is not a directory; name one with runs in it, or a run")
    from mage.view.serve import serve

    root = USUAL if folder is None else folder

    def say(url: str) -> None:
        print(f"showing {root} at {url}\nCtrl-C ends it.", flush=True)

    serve(root, host, port, say, opens_browser=opens_browser)
    return 0
