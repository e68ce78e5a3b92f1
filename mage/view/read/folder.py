"""The runs below one directory, by ids made from their paths; links are not followed, so nothing outside is read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import NamedTuple

from mage.errors import MageError, RecordError
from mage.runs.index import TRIALS
from mage.runs.store import RUN
from mage.runs.sweep_plan import SWEEP

NASHCONV = "nashconv.json"
PLAYS = "plays"
"""Folder of the saved play sessions if the directory shown is itself a run."""
_MARKS = (RUN, SWEEP, NASHCONV)
"""A directory with one of these files is shown, and so is one with trials only."""
_NESTED = ("evaluations", PLAYS)
"""Folders in a run that may contain other runs."""
_MAX_DEPTH = 5
_MAX_FOLDERS = 20_000
"""Most directories that are searched, in case the root is a home directory."""


_FRESH_S = 3.0
"""How long a listing is reused where it need not be current."""


class NotFoundError(MageError):
    """The requested object does not exist."""


def one_line(error: object) -> str:
    """The message of an error on one line, with undecodable file names escaped."""
    return " ".join(str(error).split()).encode("utf-8", "backslashreplace").decode()


class Location(NamedTuple):
    """The location of a run, a sweep or a report."""

    id: str
    path: Path
    name: str
    """The path relative to the directory shown."""
    parent: str | None
    """The id of the run or sweep that it belongs to."""

    def has(self, name: str) -> bool:
        """Whether there is such a file, of any type."""
        return os.path.lexists(self.path / name)

    def file(self, *parts: str) -> Path:
        """The path of a file that may be read: a regular file, without links on the way."""
        path, what = self.path.joinpath(*parts), "/".join(parts)
        try:
            is_regular = stat.S_ISREG(path.lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFoundError(f"{self.name} has no {what}") from None
        if not is_regular or path.resolve() != path:
            raise RecordError(f"{what} in {self.name} is a link or no regular file; it is not followed")
        return path

    def check(self, *names: str) -> None:
        """Refuse links among those of these files that exist."""
        for name in names:
            if self.has(name):
                self.file(name)


class Folder:
    """All runs below a directory. Ids depend only on the path of a run, so URLs stay valid after a restart."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._places: dict[str, Location] = {}
        self._looked = -_FRESH_S
        self._lock = Lock()

    def places(self) -> list[Location]:
        """All locations, ordered by name."""
        found = {place.id: place for place in sorted(_walk(self.root), key=lambda place: place.name)}
        with self._lock:
            self._places, self._looked = found, monotonic()
        return list(found.values())

    def find(self, identity: str) -> Location:
        """The location with this id."""
        place = self._places.get(identity)
        if place is None or not _is_marked(place.path) or place.path.resolve() != place.path:
            place = next((p for p in self.places() if p.id == identity), None)
        if place is None:
            raise NotFoundError(f"there is no run {identity!r} here")
        return place

    def at(self, path: Path) -> Location | None:
        """The location of a run by its path, or None."""
        return next((place for place in self.places() if place.path == path), None)

    def named(self, name: str) -> Location | None:
        """The run with this path, or the first whose directory has this name; the listing may be seconds old."""
        known = list(self._places.values()) if monotonic() - self._looked < _FRESH_S else self.places()
        called = [place for place in known if name in (place.name, place.path.name)]
        return min(called, key=lambda place: place.name != name, default=None)


def _walk(root: Path) -> Iterator[Location]:
    """Search breadth first, so that the limit cuts the deepest directories."""
    waiting: list[tuple[Path, str | None, int]] = [(root, None, 0)]
    num_looked = 0
    while waiting and num_looked < _MAX_FOLDERS:
        path, parent, depth = waiting.pop(0)
        num_looked += 1
        mine = parent
        if _is_marked(path):
            place = _place(root, path, parent)
            yield place
            mine = place.id
        if depth < _MAX_DEPTH:
            waiting += [(below, mine, depth + 1) for below in _below(path)]


def _below(path: Path) -> list[Path]:
    """Subdirectories that may contain runs: a few names in a run, all in other directories."""
    is_run = any(os.path.lexists(path / name) for name in (RUN, TRIALS))
    try:
        with os.scandir(path) as entries:
            names = sorted(
                e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith((".", "__"))
            )
    except OSError:
        return []
    return [path / name for name in names if not is_run or name in _NESTED]


def _is_marked(path: Path) -> bool:
    if any(os.path.lexists(path / name) for name in _MARKS):
        return True
    trials = path / TRIALS
    return os.path.lexists(trials) and trials.lstat().st_size > 0  # an empty one belongs to a run that is just starting


def _place(root: Path, path: Path, parent: str | None) -> Location:
    relative = path.relative_to(root)
    identity = hashlib.sha256(os.fsencode(relative)).hexdigest()[:12]
    name = root.name if path == root else relative.as_posix()
    return Location(identity, path, os.fsencode(name).decode("utf-8", "backslashreplace"), parent)
