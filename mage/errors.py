"""The errors that this package raises on purpose.

MageError
├── ConfigError     a recipe, an override, a spec string or a command line that cannot be used
│   └── InexactError    a value that cannot be computed exactly
├── RecordError     a run directory that is missing, broken or of another schema version
├── PlayError       a world, player or agent that broke its contract while playing
├── EngineError     a model call that could not be answered
└── ShortageError   the disk is full, memory ran out, or a limit of the process was reached

Messages are one line, name the value that was wrong and say what is allowed. The command line prints them
without a traceback; the rollout layer turns those of a trial into a recorded `Failure`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


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


class ShortageError(MageError):
    """The disk is full, memory ran out, or a limit of the process was reached."""


def pick(kind: str, table: Mapping[str, T], name: str) -> T:
    """Look a name up in a table of choices, or say which choices exist.

    >>> pick("colour", {"red": 1}, "red")
    1
    """
    if name not in table:
        raise ConfigError(f"unknown {kind} {name!r}; known: {listing(table)}")
    return table[name]


def listing(names: Iterable[str]) -> str:
    """Names in alphabetical order, as they appear in error messages.

    >>> listing(["b", "a"])
    'a, b'
    """
    return ", ".join(sorted(names)) or "none"
