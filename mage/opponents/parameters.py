"""Checks of opponents' parameters: numbers, words and moves."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from inspect import signature
from typing import Any

from mage.errors import ConfigError, listing
from mage.spec import Spec, make_spec, parse_spec, whole
from mage.worlds.openspiel.game import Game, load_game
from mage.worlds.openspiel.game_builders import GAMES
from mage.worlds.openspiel.openings import without_opening

_STATES_READ = 500
"""How many states are searched for a game's action words."""
_WORDS_LISTED = 20


def number(name: str, value: Any, low: float, high: float | None = None) -> float:
    """A number within bounds."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not value >= low or (high is not None and value > high) or value == float("inf"):
        bounds = f"from {low:g}" if high is None else f"from {low:g} to {high:g}"
        raise ConfigError(f"{name} must be a number {bounds}, not {_shown(value)}")
    return float(value)


def one_of(name: str, value: Any, known: Sequence[str]) -> str:
    """One of the known words."""
    word = str(value)
    if word not in known:
        raise ConfigError(f"{name} must be one of {listing(known)}, not {_shown(value)}")
    return word


def values(name: str, value: Any, length: int) -> tuple[Any, ...]:
    """A list of a given length."""
    if not isinstance(value, tuple) or len(value) != length:
        raise ConfigError(f"{name} must be a list of {length}, not {_shown(value)}")
    return value


def move(name: str, value: Any, game: Game, seat: int) -> int:
    """The id of an action, given as that id, in the game's words or, if it is reworded, in its original words."""
    num_actions: int = game.rules.num_distinct_actions()
    if isinstance(value, int) and not isinstance(value, bool):
        return whole(name, value, 0, num_actions - 1)
    known = action_words(game, seat)
    word = str(value).casefold()
    plain = {**action_words(with_original_words(game), seat), **known}
    if word not in plain:
        shown = listing(list(known)[:_WORDS_LISTED]) + (", …" if len(known) > _WORDS_LISTED else "")
        allowed = f"{shown}, or a number from 0 to {num_actions - 1}"
        raise ConfigError(f"{name} of {game.spec} must be one of {allowed}, not {_shown(value)}")
    return plain[word]


@lru_cache(maxsize=256)
def action_words(game: Game, seat: int) -> Mapping[str, int]:
    """The words of a seat's actions near the start of the game, with their ids."""
    words: dict[str, int] = {}
    waiting = deque([game.start(0)])
    for _ in range(_STATES_READ):
        if not waiting:
            break
        state = waiting.popleft()
        if state.current_player() == seat:
            for action in state.legal_actions():
                words.setdefault(game.words.action(state, seat, action).casefold(), action)
        if not state.is_terminal() and len(waiting) < _STATES_READ:
            waiting.extend(state.child(action) for action in state.legal_actions())
    return words


def with_original_words(game: Game) -> Game:
    """The same game with its original words."""
    spec = without_opening(parse_spec(game.spec))
    if spec.name not in GAMES:
        return game
    given = signature(GAMES[spec.name]).bind(*spec.args, **spec.named).arguments
    return load_game(str(make_spec(spec.name, **{name: v for name, v in given.items() if name != "reworded"})))


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return repr(str(value)) if isinstance(value, str | Spec) else str(value)
