"""Loads OpenSpiel's games by name and parameters, with checks.

OpenSpiel does not check its parameters: bad ones print to stderr, loop or kill the process. So types are checked here,
and a game with parameters is first played for a few turns in a subprocess.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import pyspiel

from mage.errors import ConfigError
from mage.spec import Spec, show

TRYOUT_S = 20.0
"""Time limit of the subprocess that tries out a game."""

_REFUSED: Mapping[str, str] = {"crossword": "its moves are free words, not a list to choose from"}
_SOURCE_LINE = re.compile(r"\S+\.(?:cc|h):\d+ ")
_TYPES: Mapping[type, str] = {int: "a whole number", float: "a number", bool: "true or false", dict: "a game"}
"""Names of OpenSpiel's parameter types other than strings."""


def load_rules(spec: Spec) -> Any:
    """OpenSpiel's game for a spec, tried out first if it has parameters."""
    parameters = _parameters(spec)
    if parameters:
        _try_out(spec)
    return pyspiel.load_game(spec.name, parameters)


def load_untried(spec: Spec) -> Any:
    """OpenSpiel's game for a spec, without a try-out: it may crash this process."""
    return pyspiel.load_game(spec.name, _parameters(spec))


def is_known(name: str) -> bool:
    """Whether OpenSpiel has a game of this name."""
    return name in _kinds()


def names_without_parameters() -> tuple[str, ...]:
    """OpenSpiel's games that need no parameters."""
    kinds = _kinds().values()
    return tuple(t.short_name for t in kinds if t.default_loadable and _refusal(t) is None)


@cache
def _kinds() -> Mapping[str, Any]:
    return {t.short_name: t for t in pyspiel.registered_games()}


def _refusal(kind: Any) -> str | None:
    if kind.dynamics == kind.Dynamics.MEAN_FIELD:
        return "it is a mean-field game, which has no separate players"
    return _REFUSED.get(kind.short_name)


def _parameters(spec: Spec) -> dict[str, Any]:
    """The spec's values converted to OpenSpiel's parameter types."""
    if spec.name not in _kinds():
        raise ConfigError(f"unknown game {spec.name!r}; `mage list worlds --all` names OpenSpiel's")
    kind = _kinds()[spec.name]
    why = _refusal(kind)
    if why is not None:
        raise ConfigError(f"{spec.name!r} cannot be played: {why}")
    if spec.args:
        raise ConfigError(f"parameters of {spec.name!r} need names, as in {spec.name}(key=value)")
    known = kind.parameter_specification
    if "reworded" in spec.named and "reworded" not in known:
        raise ConfigError(f"{spec.name!r} cannot be reworded: it is shown in OpenSpiel's own words")
    for name in spec.named:
        if name not in known:
            raise ConfigError(f"unknown parameter {name!r} of {spec.name!r}; known: {', '.join(known) or 'none'}")
    if not spec.kwargs and not kind.default_loadable:
        raise ConfigError(f"{spec.name!r} needs parameters: {', '.join(known)}")
    return {name: _convert(spec, name, value, type(known[name])) for name, value in spec.kwargs}


def _convert(spec: Spec, name: str, value: Any, wanted: type) -> Any:
    if wanted is dict and isinstance(value, Spec):
        return {"name": value.name, **_parameters(value)}
    if wanted is str:
        return value if isinstance(value, str) else show(value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is wanted:
        return value
    raise ConfigError(f"{name} in {str(spec)!r} must be {_TYPES[wanted]}, not {show(value)}")


def _try_out(spec: Spec) -> None:
    """Play a few turns in a subprocess and refuse the game if that fails."""
    command = [sys.executable, "-m", "mage.worlds.openspiel.tryout", str(spec)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRYOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{str(spec)!r} cannot be played: a few turns take more than {TRYOUT_S:g} s") from None
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise ConfigError(f"{str(spec)!r} cannot be played: OpenSpiel crashes on these parameters ({name})")
    if done.returncode > 0:
        why = _SOURCE_LINE.sub("", done.stdout.strip()) or "its try-out fails"
        raise ConfigError(f"{str(spec)!r} cannot be played: {why}")
