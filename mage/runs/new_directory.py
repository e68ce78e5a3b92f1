"""Directories for new runs: with a name of their own, or one that the user named and that must be empty."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from mage.errors import RecordError
from mage.files import is_unfinished
from mage.plugins import PLUGINS, is_plugin_copy
from mage.runs.index import INDEX, TRIALS


def check_empty(path: Path) -> None:
    """Raise `RecordError` on a directory that is not empty, except for what a kill left that came before `run.json`."""
    if path.is_dir() and not all(map(_is_left_over, path.iterdir())):
        raise RecordError(f"{path} is not empty; name a new directory for the run")


def _is_left_over(path: Path) -> bool:
    """Whether a file of a run was written before `run.json`: an empty log, the copies of plugins, a scratch file."""
    if path.name in (TRIALS, INDEX):
        return path.is_file() and path.stat().st_size == 0
    is_copy = (
        path.name == PLUGINS and path.is_dir() and all(is_plugin_copy(p) or is_unfinished(p) for p in path.iterdir())
    )
    return is_copy or is_unfinished(path)


def new_run_path(kind: str, label: str, base: Path = Path("runs")) -> Path:
    """Create a unique directory such as `runs/20260131-235959-duel-kuhn_poker`."""
    stem = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{kind}-{re.sub(r'[^A-Za-z0-9_.+-]+', '_', label)}"
    for n in count(1):
        path = base / (stem if n == 1 else f"{stem}-{n}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not path.is_dir():
                raise RecordError(f"cannot create {path}: {base} is not a directory") from None
        except OSError as error:
            raise RecordError(f"cannot create {path}: {error.strerror or error}") from None
        else:
            return path
    raise AssertionError("count() has no end")
