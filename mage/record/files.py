"""Files that survive a kill: atomic replacement, and JSON lines that can be cut back to a known length."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mage.errors import RecordError


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file: after a kill it holds the old content or the new, never a part."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.part")
    with scratch.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


class JsonLines:
    """A file of JSON values, one a line, appended to and flushed line by line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")

    def append(self, value: object) -> None:
        self._file.write(msgspec.json.encode(value) + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


def read_lines(path: Path) -> Iterator[Any]:
    """The values of a JSON lines file; a last line without its end was being written and is left out."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                try:
                    yield msgspec.json.decode(line)
                except msgspec.DecodeError as error:
                    raise RecordError(f"{path}, line {number}: not JSON ({error})") from None


def count_lines(path: Path) -> int:
    """Complete lines of a file."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def cut_lines(path: Path, keep: int, aside: str) -> None:
    """Keep the first `keep` lines; what follows goes to a file whose name ends in `aside`, so nothing is lost."""
    if not path.exists():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    if len(lines) > keep:
        with path.with_name(f"{path.name}.{aside}").open("ab") as file:
            file.writelines(lines[keep:])
        write_atomically(path, b"".join(lines[:keep]))
