"""What the code of a world returns, held to what is allowed; what it raises, in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import Any, TypeVar

from mage.errors import PlayError
from mage.plugin_errors import described, shown_value
from mage.types import Ending

K = TypeVar("K")

WORLD_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError),
    *(OSError, RuntimeError, TypeError, ValueError),
)
"""What the code of a world may raise by mistake."""
_ROUNDING = 1e-6
"""How far a score may be out of its range."""


def number(name: str, method: str, value: object, what: str = "") -> float:
    """A finite number as a float; truth values and scalars of NumPy are numbers too.

    >>> number("rps", "score", True), number("rps", "score", 2)
    (1.0, 2.0)
    """
    if type(value) is float and isfinite(value):
        return value
    plain: object = value
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        plain = value.item()
    try:
        if isinstance(plain, Real) and isfinite(plain):
            return float(plain)
    except OverflowError:
        pass
    raise wrong_answer(name, method, value, "a finite number", what)


def text(name: str, method: str, value: object) -> str:
    """A text."""
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    raise wrong_answer(name, method, value, "a text")


def texts(name: str, method: str, value: object) -> tuple[str, ...]:
    """A text, whose characters are meant, or a list of texts."""
    if isinstance(value, tuple | list | str | Sequence):
        listed = tuple(value)
        kinds = set(map(type, listed))
        if kinds <= {str}:
            return listed
        if all(issubclass(kind, str) for kind in kinds):
            return tuple(map(str.__str__, listed))
    raise wrong_answer(name, method, value, "a list of texts")


def weights(name: str, method: str, value: Mapping[K, Any], what: str) -> Mapping[K, float]:
    """A mapping to finite numbers; `what` says what these are."""
    if not isinstance(value, dict | Mapping):
        raise wrong_answer(name, method, value, f"a mapping in which each has a {what}")
    return {key: number(name, method, weight, f"the {what} ") for key, weight in value.items()} if value else {}


def check_range(name: str, score: float, lowest: float, highest: float, ending: Ending) -> None:
    """Raise a PlayError where an episode's score is out of range; one that was not finished may be above it."""
    if score < lowest - _ROUNDING:
        problem = f"below lowest = {lowest:g}"
    elif score > highest + _ROUNDING and ending is Ending.FINISHED:
        problem = f"above highest = {highest:g}"
    else:
        return
    raise PlayError(
        f"{name}: an episode scores {score:g}, {problem}; set lowest and highest to the range of an episode's score, "
        "in a SoloWorld as attributes of the class"
    )


def wrong_answer(name: str, method: str, value: object, allowed: str, what: str = "") -> PlayError:
    """The error of a method that returned something else than what is allowed."""
    return PlayError(f"{name}: {method}() returned {what}{shown_value(value)}; allowed is {allowed}")


def code_error(name: str, error: Exception) -> PlayError:
    """The error of a world whose code raises: what it raises, and where."""
    return PlayError(f"{name} raises {described(error)}")
