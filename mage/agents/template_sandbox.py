"""The sandbox of a chat template: an operation that would make something huge is refused before it is computed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_SIZE = 10_000_000
"""Largest number, and most characters of a text or items of a list."""
_MAX_WIDTH = re.compile(r"\d{8}|%[^%a-z]*\*")
"""A width in a format that is over the size, or given by a number beside it."""


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox whose operations make nothing over `MAX_SIZE`: each is checked before it is computed."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})  # jinja2 then computes them here and not while it compiles

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.globals["lipsum"]
        self.filters = {name: _limited(name, each) for name, each in self.filters.items()}

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            _check(_size(right) * math.log2(_size(left)) <= math.log2(MAX_SIZE))
        elif operator == "+":
            _check(_size(left) + _size(right) <= MAX_SIZE)
        else:
            _check_all([left, right])
            _check_width(left)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        _check_all([getattr(obj, "__self__", None), *args, *kwargs.values()])
        return super().call(context, obj, *args, **kwargs)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if attribute in ("format", "format_map"):
            _check_width(obj)
        return super().getattr(obj, attribute)


def _limited(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(made)  # jinja2 reads what a filter is given from its attributes
    def checked(*args: Any, **kwargs: Any) -> Any:
        _check_all([*args, *kwargs.values()])
        if name == "format":
            _check_width(args[0])
        return made(*args, **kwargs)

    return checked


def _check_all(values: Sequence[Any]) -> None:
    """What is made of values is at most their product: a text times a number, a text for each letter of another."""
    _check(math.prod(map(_size, values)) <= MAX_SIZE)


def _check_width(value: Any) -> None:
    _check(not isinstance(value, str) or _MAX_WIDTH.search(value) is None)


def _size(value: Any) -> float:
    """The size of a number, text or list, and of what is largest in a namespace; 1 for all else."""
    if isinstance(value, Namespace):
        return max(map(_size, object.__getattribute__(value, "_Namespace__attrs").values()), default=1)
    if isinstance(value, int | float):
        return max(1, abs(value))
    return max(1, len(value)) if isinstance(value, str | list | tuple | dict | range) else 1


def check_locals(values: Iterable[Any]) -> None:
    """Refuse what became too large in an operation that cannot be intercepted: `a ~ b`."""
    _check(all(_size(value) <= MAX_SIZE for value in values))


def _check(is_allowed: bool) -> None:
    if not is_allowed:
        raise OverflowError(f"it makes a number, a text or a list over {MAX_SIZE:,}")
