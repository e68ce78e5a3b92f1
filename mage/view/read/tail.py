"""Incremental reading of growing files; a file that was replaced or truncated is read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


class Tail:
    """The complete lines of a file, each returned once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._offset = 0

    def is_restarted(self) -> bool:
        """Whether the file was replaced or truncated, so that earlier lines are no longer valid."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            is_other, self._inode, self._offset = self._offset > 0, 0, 0
            return is_other
        is_other = self._inode not in (0, found.st_ino) or found.st_size < self._offset
        if is_other:
            self._offset = 0
        self._inode = found.st_ino
        return is_other

    def lines(self) -> Iterator[bytes]:
        """The lines added since the last call; an incomplete last line is left for later."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield line
