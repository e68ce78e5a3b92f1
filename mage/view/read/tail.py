"""Files that grow: only what is new is read, and a file that was replaced or cut is read anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


class Tail:
    """The complete lines of a file, each given once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._offset = 0

    def is_restarted(self) -> bool:
        """Whether the file is another than it was, so that what was read of it no longer holds."""
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
        """What was added since the last look; a line without its end is still being written, and left for later."""
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
