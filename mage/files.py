"""Files that stay valid when the process is killed: atomic replacement, locks, and JSON lines."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import IO, Any

import msgspec

from mage.errors import RecordError

BAD_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises where content is not JSON, of another type than asked for, or nested too deeply."""
_UNFINISHED = ".part"
"""The ending of files that are being written."""
_PAUSES_S = (0.01, 0.05, 0.2)
"""Between tries for a lock."""


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file: after a kill it holds the old content or the new, never a part of it."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}{_UNFINISHED}")
    with scratch.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes had not finished writing under a folder that no other process writes to."""
    for path in folder.rglob(f".*{_UNFINISHED}"):
        path.unlink(missing_ok=True)


def try_lock(file: IO[bytes] | FileIO) -> bool:
    """Lock a file for this process; False where another process holds the lock.

    Tried a few times, because `is_file_locked` holds the lock for a moment. On a file system without locks it is True.
    """
    for pause_s in (*_PAUSES_S, None):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if pause_s is not None:
                time.sleep(pause_s)
        except OSError:
            return True
        else:
            return True
    return False


def is_file_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file. The test itself takes the lock for a moment."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass  # it is not there, or the file system has no locks
    return False


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
    """The values of a JSON lines file; an incomplete last line is left out."""
    if not path.exists():
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror or error}") from None
    with file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                try:
                    yield msgspec.json.decode(line)
                except BAD_JSON as error:
                    raise RecordError(f"{path}, line {number}: not JSON ({error})") from None


def count_lines(path: Path) -> int:
    """Complete lines of a file."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def truncate_lines(path: Path, keep: int, suffix: str) -> None:
    """Keep the first `keep` lines; the rest is appended to a file whose name ends in `suffix`."""
    if not path.exists():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    if len(lines) > keep:
        with path.with_name(f"{path.name}.{suffix}").open("ab") as file:
            file.writelines(lines[keep:])
        write_atomically(path, b"".join(lines[:keep]))
