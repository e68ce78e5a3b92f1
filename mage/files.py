"""Files that stay valid when the process is killed: atomic replacement, locks, checksums, and JSON lines."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import file_digest
from io import FileIO
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec

from mage.errors import RecordError

BAD_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises where content is not JSON, of another type than asked for, or nested too deeply."""
_UNFINISHED = ".part"
"""The ending of files that are being written."""
_PAUSES_S = (0.01, 0.05, 0.2)
"""Between tries for a lock."""
CHECKSUMS = "checksums.json"
"""In folders with tensors: the SHA-256 of each file of tensors by its path there."""


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file: after a kill it holds the old content or the new, never a part of it."""
    scratch = _scratch(path)
    try:
        with scratch.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)  # room on a full disk


def write_folder(path: Path, write: Callable[[Path], object]) -> None:
    """Replace a folder by one with the files that `write` puts into the folder it is given.

    After a kill it holds all of the new files or all of the old ones, or it is not there.
    """
    scratch = _scratch(path)
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir(parents=True)
        write(scratch)
        for part in (*scratch.rglob("*"), scratch):
            fsync(part)
        shutil.rmtree(path, ignore_errors=True)
        scratch.rename(path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _scratch(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}{_UNFINISHED}")


def is_unfinished(path: Path) -> bool:
    """Whether a process was killed, or still is at work, before this file was complete."""
    return path.name.startswith(".") and path.name.endswith(_UNFINISHED)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes had not finished writing under a folder that no other process writes to."""
    for path in list(folder.rglob(f".*{_UNFINISHED}")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def fsync(path: Path) -> None:
    """Force a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_checksums(folder: Path) -> None:
    """Record the checksums of all files of tensors in a folder and below it."""
    paths = sorted(folder.rglob("*.safetensors"))
    _record(folder, {path.relative_to(folder).as_posix(): _checksum(path) for path in paths})


def add_checksum(path: Path) -> None:
    """Record the checksum of one more file of a folder, beside those that are recorded."""
    record = path.parent / CHECKSUMS
    known = msgspec.json.decode(record.read_bytes(), type=dict[str, str]) if record.exists() else {}
    _record(path.parent, {**known, path.name: _checksum(path)})


def _record(folder: Path, checksums: Mapping[str, str]) -> None:
    write_atomically(folder / CHECKSUMS, msgspec.json.format(msgspec.json.encode(checksums), indent=1) + b"\n")


def verify_checksums(folder: Path) -> None:
    """Raise a `RecordError` where a file is not what was recorded; folders of earlier versions have no record."""
    try:
        recorded = msgspec.json.decode((folder / CHECKSUMS).read_bytes(), type=dict[str, str])
        found = {name: _checksum(folder / name) for name in recorded}
    except FileNotFoundError as error:
        if Path(error.filename).name == CHECKSUMS:
            return
        raise RecordError(f"{error.filename} is missing, which {CHECKSUMS} names") from None
    except (OSError, *BAD_JSON) as error:
        raise RecordError(f"{folder / CHECKSUMS} cannot be read: {error}") from None
    for name in recorded:
        if found[name] != recorded[name]:
            was, now = recorded[name][:12], found[name][:12]
            raise RecordError(f"{folder / name} is not the file that was saved: its SHA-256 is {now}…, and was {was}…")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


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


class _Closable(Protocol):
    def close(self) -> None: ...


@contextmanager
def closing_on_error(opened: _Closable) -> Iterator[None]:
    """A context that closes what is open, and so gives its lock back, where the rest of its making fails."""
    with ExitStack() as stack:
        stack.callback(opened.close)
        yield
        stack.pop_all()


class JsonLines:
    """A file of JSON values, one a line, appended to and flushed line by line.

    An incomplete last line, which a full disk leaves, is moved to a file whose name ends in `broken`.
    """

    def __init__(self, path: Path) -> None:
        if not _ends_with_line(path):
            truncate_lines(path, count_lines(path), "broken")
        self._file = path.open("ab")

    def append(self, value: object) -> None:
        self._file.write(msgspec.json.encode(value) + b"\n")
        self._file.flush()

    def close(self) -> None:
        with self._file:  # a full disk must not keep it open
            self._file.flush()
            os.fsync(self._file.fileno())


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


def _ends_with_line(path: Path) -> bool:
    """Whether a file's last line is complete; a file that is empty or not there has none."""
    if not path.is_file() or path.stat().st_size == 0:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


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
