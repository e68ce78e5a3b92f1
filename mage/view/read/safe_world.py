"""Worlds that a request or a transcript may load: their parameters cannot name files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mage.errors import MageError
from mage.protocols import World
from mage.spec import Spec, Value, parse_spec
from mage.types import Task
from mage.worlds.openspiel.game import WORDED
from mage.worlds.registry import WORLDS, load_world

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}")
"""A short word: no path, no address and nothing to parse."""
_FACTORY_ERRORS = (MageError, ArithmeticError, LookupError, TypeError, ValueError)
"""What a registered world may raise for parameters that it does not take."""


def is_plain(spec: Spec) -> bool:
    """Whether all parameters are numbers, booleans, short words or specs of such.

    >>> is_plain(parse_spec("maze(size=4, kind=round)")), is_plain(parse_spec('maze(file="/etc/hostname")'))
    (True, False)
    """
    return all(_is_plain_value(value) for value in _parameters(spec))


def is_safe(spec: Spec) -> bool:
    """Whether a world may be loaded: OpenSpiel's games without words of their own only without parameters."""
    if spec.name in WORLDS:
        return is_plain(spec)
    return spec.name in WORDED or not (spec.args or spec.kwargs)


def rules_of(task: Task) -> str | None:
    """The rules as the agent was told them, if its world has words of its own and can be loaded safely."""
    try:
        world = _worded(task.world)
        return None if world is None else world.rules(task)
    except _FACTORY_ERRORS:
        return None


def _worded(text: str) -> World | None:
    spec = parse_spec(text)
    return load_world(text) if is_safe(spec) and (spec.name in WORDED or spec.name in WORLDS) else None


def _is_plain_value(value: Value) -> bool:
    if isinstance(value, Spec):
        return _WORD.fullmatch(value.name) is not None and is_plain(value)
    return _WORD.fullmatch(value) is not None if isinstance(value, str) else isinstance(value, int | float | bool)


def _parameters(spec: Spec) -> Iterator[Value]:
    yield from spec.args
    yield from (value for _, value in spec.kwargs)
