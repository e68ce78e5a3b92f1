"""The errors that this package raises on purpose.

MageError
├── ConfigError     a recipe, an override, a spec string or a command line that cannot be used
│   └── InexactError    a value that cannot be computed exactly
├── RecordError     a run directory that is missing, broken or of another schema version
├── PlayError       a world, player or agent that broke its contract while playing
├── EngineError     a model call that could not be answered
│   └── EngineGoneError  no other call will be answered either
└── ShortageError   the disk is full, memory ran out, or a limit of the process was reached

Messages are one line, name the value that was wrong and say what is allowed. The command line prints them
without a traceback; the rollout layer turns those of a trial into a recorded `Failure`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")
_MAX_LINE = 300
"""Most characters of the message of a library."""


class MageError(Exception):
    """Base of everything raised on purpose."""


class ConfigError(MageError):
    """Something the user wrote cannot be used."""


class InexactError(ConfigError):
    """A value that is well defined but cannot be computed exactly: too large, or drawn from a continuum."""


class RecordError(MageError):
    """A run directory cannot be read or written."""


class PlayError(MageError):
    """A world, player or agent broke its contract."""


class EngineError(MageError):
    """A model call could not be answered."""


class EngineGoneError(EngineError):
    """What answers model calls has ended. It says nothing about a trial, so it ends what was under way."""


@contextmanager
def library_errors(make: Callable[[str], MageError]) -> Iterator[None]:
    """Turn every error of a library that reads a file, or runs what is in it, into the error that `make` makes of it.

    Only around calls of a library: on damaged files tokenizers raises plain `Exception`, and transformers whatever its
    code runs into.
    """
    try:
        yield
    except MageError:
        raise
    except Exception as error:  # noqa: BLE001
        raise make(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    """The first line of an error, with its type where the text alone says little."""
    lines = str(error).strip().splitlines() or [""]
    said = lines[0].rstrip(".:")[:_MAX_LINE]
    plain = isinstance(error, OSError | ValueError | RuntimeError) or type(error) is Exception
    return said if said and plain else f"{type(error).__name__}: {said}".rstrip(": ")


@contextmanager
def named_errors(what: object) -> Iterator[None]:
    """Begin errors with the name of what could not be read, where they do not have it; a shortage is none of it."""
    try:
        yield
    except ShortageError:
        raise
    except MageError as error:
        if str(what) in str(error):
            raise
        raise type(error)(f"{what}: {error}") from None


class ShortageError(MageError):
    """The disk is full, memory ran out, or a limit of the process was reached."""


def pick(kind: str, table: Mapping[str, T], name: str) -> T:
    """Look a name up in a table of choices, or say which choices exist.

    >>> pick("colour", {"red": 1}, "red")
    1
    """
    if name not in table:
        raise ConfigError(f"unknown {kind} {name!r}; {did_you_mean(name, table)}known: {listing(table)}")
    return table[name]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that names what was probably meant, for the middle of an error message; empty where nothing is close.

    >>> did_you_mean("agressive", ["aggressive", "uniform"]), did_you_mean("zzz", ["aggressive"])
    ('did you mean aggressive? ', '')
    """
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}? " if close else ""


def listing(names: Iterable[str]) -> str:
    """Names in alphabetical order, as they appear in error messages.

    >>> listing(["b", "a"])
    'a, b'
    """
    return ", ".join(sorted(names)) or "none"
