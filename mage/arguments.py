"""Arguments of Python functions, held to the kinds that are allowed: a wrong one is an error in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import TypeVar

from mage.errors import ConfigError
from mage.plugin_errors import shown_value

T = TypeVar("T")
WORLD = "a text, the spec of a world, as in 'rps(rounds=3)'"
SETTINGS = "a mapping of dotted keys, as in {'learner.lr': 1e-3}"


def check_kind(name: str, given: object, kinds: type | UnionType, allowed: str) -> None:
    """Raise a ConfigError that says what is allowed, where an argument is of another kind."""
    if not isinstance(given, kinds):
        raise wrong_kind(name, given, allowed)


def check_whole(**given: object) -> None:
    """Raise a ConfigError for arguments that are no whole numbers.

    >>> check_whole(trials=3, seed=0)
    """
    for name, value in given.items():
        check_kind(name, value, int, "a whole number")


def wrong_kind(name: str, given: object, allowed: str) -> ConfigError:
    """The error of an argument that is of another kind than what is allowed."""
    return ConfigError(f"{name} = {shown_value(given)}: give {allowed}")


def as_path(name: str, given: str | Path) -> Path:
    """A path.

    >>> as_path("folder", "runs/first").name
    'first'
    """
    check_kind(name, given, str | PathLike, "a path, as a text or a Path")
    return Path(given)


def as_list(name: str, given: Iterable[T], allowed: str) -> tuple[T, ...]:
    """The entries of a list; a text is none."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise wrong_kind(name, given, allowed)
    return tuple(given)


def as_texts(name: str, given: str | Iterable[str]) -> tuple[str, ...]:
    """Texts, of which one may be given as it is.

    >>> as_texts("opponents", "copy"), as_texts("opponents", ["copy", "uniform"])
    (('copy',), ('copy', 'uniform'))
    """
    texts = as_list(name, [given] if isinstance(given, str) else given, "a text or a list of texts")
    for text in texts:
        check_kind(f"an entry of {name}", text, str, "a text")
    return texts


def as_settings(name: str, given: Mapping[str, object] | None, allowed: str = SETTINGS) -> Mapping[str, object]:
    """A mapping with texts for keys; None is one without any."""
    if given is None:
        return {}
    check_kind(name, given, Mapping, allowed)
    for key in given:
        check_kind(f"a key of {name}", key, str, "a text")
    return given
