"""Errors of code that users plug in: one line that says what raised, what, and in which line of which file."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from traceback import walk_tb
from typing import Any, NamedTuple

from mage.errors import ConfigError, MageError, PlayError
from mage.shortage import shortage_of

_MAX_SHOWN = 100
"""Most characters of a value in an error."""
_NOT_THEIRS = (
    f"{Path(__file__).parent}/",
    "<frozen ",
    *(sysconfig.get_path(kind) + "/" for kind in ("stdlib", "purelib", "platlib")),
)
"""How paths of mage's files and of libraries begin."""


@contextmanager
def plugin_errors(what: str, make: type[MageError] = PlayError) -> Iterator[None]:
    """Turn an error of a user's code into one line about `what`; mage's own errors and shortages stay as they are."""
    try:
        yield
    except Exception as error:
        if isinstance(error, MageError) or shortage_of(error) is not None:
            raise
        raise make(f"{what} raises {described(error)}") from error


def described(error: BaseException) -> str:
    """An error in one line, with the last place in a user's file, or else in any.

    >>> described(KeyError("boom"))
    "KeyError: 'boom'"
    """
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
    places = _places(error)
    return f"{text} (at {(_theirs(places) or places)[-1]})" if places else text


def message_of(error: BaseException) -> str:
    """The text of an error, with the last place in a user's file where it is none of mage's own."""
    text, places = str(error) or repr(error), _theirs(_places(error))
    return text if isinstance(error, MageError) or not places else f"{text} (at {places[-1]})"


class _Place(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


def _places(error: BaseException) -> list[_Place]:
    """Where an error came through, the last place where it was raised."""
    return [_Place(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]


def _theirs(places: Sequence[_Place]) -> list[_Place]:
    """Those that are neither in mage nor in a library."""
    return [place for place in places if not place.file.startswith(_NOT_THEIRS)]


def call_factory(what: str, wanted: str, factory: Callable[..., Any], *given: Any) -> Any:
    """Call the factory of an engine or a learner; `wanted` names what it is called with, for a ConfigError."""
    with plugin_errors(f"the factory of {what}", ConfigError):
        if not _takes(factory, given):
            raise ConfigError(f"{what} is called with {wanted}, but takes {signature(factory)}")
        return factory(*given)


def _takes(factory: Callable[..., Any], given: Sequence[Any]) -> bool:
    """Whether a function can be called with these values; true for one without a signature."""
    try:
        signature(factory).bind(*given)
    except ValueError:
        return True
    except TypeError:
        return False
    return True


def as_numbers(given: object) -> list[float] | None:
    """A user's sequence of numbers as floats, of NumPy and of tensors too; None where it is none.

    >>> as_numbers((1, 0.5)), as_numbers("12"), as_numbers([None])
    ([1.0, 0.5], None, None)
    """
    listed = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
        return None
    if any(isinstance(one, str) for one in listed):  # float() would read it
        return None
    try:
        return [float(one) for one in listed]
    except (TypeError, ValueError, OverflowError):
        return None


def shown_value(given: object) -> str:
    """A value as an error shows it: in one line that is not too long."""
    text = " ".join(repr(given).split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
