"""Reads and writes run directories.

    run.json        what was run: schema version, kind, config, seed, versions, creation time, later changes
    trials.jsonl    one trial or failure per line, written whole and flushed; reads back equal
    index.jsonl     one summary per line; rebuilt from the trials where it is missing or wrong
    plugins/        copies of the plugin files that were imported for it

A kill loses at most the line being written. `damage` lists what a reader found broken; reopening a run for writing
moves a broken tail to another file (`repairs`), so that nothing is deleted.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from importlib import metadata
from io import FileIO
from itertools import count, islice
from math import isfinite
from pathlib import Path
from typing import Any, Self

import msgspec

from mage.errors import RecordError
from mage.files import BAD_JSON, closing_on_error, remove_unfinished, try_lock, write_atomically
from mage.plugins import Plugin, keep_plugins, remove_copies
from mage.runs.decode_trial import decode_outcome
from mage.runs.index import INDEX, TRIALS, Summary, scan, summarize
from mage.runs.new_directory import check_empty
from mage.types import Failure, Trial
from mage.version import __version__

SCHEMA = 2
"""Version of the file format. Other versions are refused."""
RUN = "run.json"
TOKENIZER = "tokenizer"
"""Folder of the tokenizer, in Hugging Face layout, in train runs and in evaluations of other models."""


class Change(msgspec.Struct, frozen=True):
    """A setting that was changed when a run was resumed."""

    step: int
    """Steps done with the old value."""
    key: str
    old: Any
    new: Any


class RunInfo(msgspec.Struct, frozen=True):
    """The contents of `run.json`."""

    schema: int
    kind: str
    """The command that made it: play, duel, …"""
    config: Mapping[str, Any]
    seed: int
    versions: Mapping[str, str]
    created: str
    """UTC, ISO 8601."""
    changes: tuple[Change, ...] = ()
    """Settings changed on resuming; `config` has the new values."""
    plugins: tuple[Plugin, ...] | msgspec.UnsetType = msgspec.UNSET
    """What was imported for it; not written where there is nothing."""
    checksum: str | msgspec.UnsetType = msgspec.UNSET
    """The SHA-256 of all else in the file, as mage wrote it; earlier versions wrote none."""


class RunWriter:
    """Appends trials to a run. One writer at a time, held by a lock. Use as a context manager."""

    def __init__(self, path: Path, num_lines: int, offset: int, repairs: tuple[str, ...]) -> None:
        self.path = path
        self.repairs = repairs
        """What was moved or rebuilt when the run was opened, in sentences."""
        self._number = num_lines
        self._offset = offset
        self._encoder = msgspec.json.Encoder()
        self._trials = FileIO(path / TRIALS, "ab")
        self._index = FileIO(path / INDEX, "ab")

    @classmethod
    def create(cls, path: Path, *, kind: str, config: Mapping[str, Any], seed: int) -> Self:
        """Create a run in a new or empty directory."""
        versions = {
            "mage": __version__,
            "python": platform.python_version(),
            "open_spiel": metadata.version("open_spiel"),
        }
        created = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            path.mkdir(parents=True, exist_ok=True)
            check_empty(path)
            writer = cls(path, 0, 0, ())
            writer._lock()
            with closing_on_error(writer):
                check_empty(path)  # another process may have been quicker
                remove_unfinished(path)
                plugins = keep_plugins(path) or msgspec.UNSET
                write_info(path, RunInfo(SCHEMA, kind, config, seed, versions, created, plugins=plugins))
        except OSError as error:
            raise _cannot("create", path, error) from error
        return writer

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """Open an existing run for writing; a broken tail is moved to another file, the index rebuilt."""
        read_info(path)
        try:
            (path / TRIALS).touch()
            writer = cls(path, 0, 0, ())
            writer._lock()
            with closing_on_error(writer):
                remove_unfinished(path)
                writer._repair()
        except OSError as error:
            raise _cannot("write to", path, error) from error
        return writer

    def append(self, outcome: Trial | Failure) -> int:
        """Write one trial or failure and return its number. The whole line is written when this returns."""
        if isinstance(outcome, Trial) and not _is_finite(outcome):
            raise RecordError(f"a trial of {outcome.task.world} has a number that is not finite; it cannot be written")
        try:
            line = self._encoder.encode(outcome) + b"\n"
            decode_outcome(line)
        except UnicodeEncodeError:
            raise RecordError(f"a trial of {outcome.task.world} holds text that is not valid Unicode") from None
        except (TypeError, *BAD_JSON) as error:
            raise RecordError(
                f"a trial of {outcome.task.world} would not be read back, so it is not written: {error}; "
                "`mage check-world` says what is wrong with the world"
            ) from None
        summary = summarize(outcome, self._number, self._offset, len(line))
        try:
            _write_whole(self._trials, line)
            _write_whole(self._index, self._encoder.encode(summary) + b"\n")
        except OSError as error:
            self._trials.truncate(self._offset)
            raise _cannot("write to", self.path, error) from error
        self._number += 1
        self._offset += len(line)
        return summary.number

    def cut_back(self, num_lines: int) -> None:
        """Keep the first `num_lines` trials; the rest is moved to a file whose name ends in `superseded`."""
        summaries = [s for s in scan(self.path).summaries if s.number < num_lines]
        with (self.path / TRIALS).open("rb") as file:
            kept = [len(line) for line in islice(file, num_lines)]
            rest = file.read()
        if rest:
            with (self.path / f"{TRIALS}.superseded").open("ab") as aside:
                aside.write(rest)
            self._number, self._offset = len(kept), sum(kept)
            self._write_index(summaries)  # First: an index that is too short is no damage, one that is too long is.
            self._trials.truncate(self._offset)

    def close(self) -> None:
        """Sync to disk and close; may be called more than once."""
        for file in (self._index, self._trials):
            if not file.closed:
                with file:  # an error must not keep the lock
                    os.fsync(file.fileno())

    @property
    def num_lines(self) -> int:
        """Trials and failures, readable or not."""
        return self._number

    @property
    def is_empty(self) -> bool:
        """Whether the run has no trial and no failure."""
        return self._number == 0

    def discard_if_empty(self) -> None:
        """Close, and delete the run if it is empty."""
        self.close()
        if self.is_empty:
            for name in (RUN, TRIALS, INDEX):
                (self.path / name).unlink()
            remove_copies(self.path)
            with suppress(OSError):
                self.path.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        if not try_lock(self._trials):
            self.close()
            raise RecordError(f"{self.path} is being written by another process")

    def _repair(self) -> None:
        found = scan(self.path)
        self._number, self._offset = found.num_lines, found.end
        repairs = list(found.damage)
        if found.tail:
            aside = self._move_tail(found.end)
            repairs.append(f"the incomplete line was moved to {aside.name}")
        self.repairs = tuple(repairs)
        self._write_index(found.summaries)

    def _write_index(self, summaries: Iterable[Summary]) -> None:
        lines = [self._encoder.encode(s) + b"\n" for s in summaries]
        self._index.close()
        write_atomically(self.path / INDEX, b"".join(lines))
        self._index = FileIO(self.path / INDEX, "ab")

    def _move_tail(self, end: int) -> Path:
        with (self.path / TRIALS).open("rb") as file:
            file.seek(end)
            tail = file.read()
        aside = next(p for n in count(1) if not (p := self.path / f"{TRIALS}.broken-{n}").exists())
        write_atomically(aside, tail)
        self._trials.truncate(end)
        return aside


class RunReader:
    """Reads a run, finished or not, as it was when opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.info = read_info(path)
        try:
            found = scan(path)
        except OSError as error:
            raise _cannot("read", path, error) from None
        self.damage = found.damage
        """What is broken or lost, in sentences."""
        self._summaries = found.summaries

    def summaries(self) -> tuple[Summary, ...]:
        """The readable trials and failures, in the order in which they were written."""
        return self._summaries

    def trial(self, number: int) -> Trial | Failure:
        """Read one trial or failure."""
        for summary in self._summaries:
            if summary.number == number:
                with (self.path / TRIALS).open("rb") as file:
                    return self._read(file, summary)
        has = (
            f"it has {self._summaries[0].number} to {self._summaries[-1].number}" if self._summaries else "it has none"
        )
        raise RecordError(f"{self.path} has no readable trial {number}; {has}")

    def trials(self) -> Iterator[Trial | Failure]:
        """All readable trials and failures, one at a time."""
        with (self.path / TRIALS).open("rb") as file:
            for summary in self._summaries:
                yield self._read(file, summary)

    def _read(self, file: Any, summary: Summary) -> Trial | Failure:
        file.seek(summary.offset)
        try:
            return decode_outcome(file.read(summary.length))
        except BAD_JSON:
            raise RecordError(
                f"{self.path}: trial {summary.number} cannot be read; if {INDEX} is wrong, delete it to have it rebuilt"
            ) from None


def read_info(path: Path) -> RunInfo:
    """Read `run.json`; raises `RecordError`."""
    try:
        data = (path / RUN).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        what = "is not a run" if path.exists() else "does not exist"
        raise RecordError(f"{path} {what}; a run is a directory with a {RUN}") from None
    except OSError as error:
        raise _cannot("read", path, error) from None
    try:
        schema = msgspec.json.decode(data, type=_Schema).schema
        if schema != SCHEMA:
            raise RecordError(f"{path} has schema version {schema}; this version of mage reads {SCHEMA}")
        return msgspec.json.decode(data, type=RunInfo)
    except BAD_JSON as error:
        raise RecordError(f"{path / RUN} cannot be read: {error}") from None


def write_info(path: Path, info: RunInfo) -> None:
    """Write `run.json` with its checksum."""
    info = msgspec.structs.replace(info, checksum=_checksum(msgspec.json.encode(info)))
    write_atomically(path / RUN, msgspec.json.format(msgspec.json.encode(info), indent=2) + b"\n")


def note_edit(path: Path, step: int) -> bool:
    """Whether `run.json` was edited since mage wrote it; that is then recorded there as a change, and only once."""
    info = read_info(path)
    found = _checksum((path / RUN).read_bytes())
    if info.checksum is msgspec.UNSET or found == info.checksum:
        return False
    change = Change(step, RUN, info.checksum[:12], found[:12])
    write_info(path, msgspec.structs.replace(info, changes=(*info.changes, change)))
    return True


def _checksum(content: bytes) -> str:
    """The SHA-256 of a `run.json`, whatever its layout, without the checksum in it."""
    values = msgspec.json.decode(content)
    values.pop("checksum", None)
    return sha256(msgspec.json.encode(values)).hexdigest()


class _Schema(msgspec.Struct):
    schema: int


def _is_finite(trial: Trial) -> bool:
    """Whether all numbers are finite: JSON cannot represent others."""
    turns = [t for e in trial.episodes for t in e.turns] + list(trial.reflections)
    numbers = sum([sum(e.result.returns) for e in trial.episodes]) + sum([t.reward for t in turns])
    return isfinite(numbers + sum([sum(c.completion.logprobs) for t in turns for c in t.calls]))


def _write_whole(file: FileIO, data: bytes) -> None:
    """Write all bytes: the system may accept only a part per call."""
    written = file.write(data)
    while written < len(data):
        written += file.write(data[written:])


def _cannot(what: str, path: Path, error: OSError) -> RecordError:
    return RecordError(f"cannot {what} {path}: {error.strerror or error}")
