"""Where an episode stands. Short games come to the same positions again, so what is known of one is kept.

A position of a short game is shared by all episodes that reach it and never changes; it is a tree that grows with what
is played. A long game has one position at a time, and its state moves on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from mage.types import Fact, Result
from mage.worlds.openspiel.words.base import State

_SHORT = 16
"""Games of at most so many moves come to the same positions again."""
_KEPT = 4096
"""How many positions of a game are kept."""


class StateView(NamedTuple):
    """The part of an observation that the state of the game decides."""

    text: str
    actions: tuple[str, ...]
    ids: tuple[int, ...]
    key: str
    facts: Mapping[str, Fact]


class StateReader(Protocol):
    """What positions ask of their game: where episodes start, and what is known of a state."""

    rules: Any
    samples_itself: bool

    def start(self, seed: int) -> State:
        """A fresh state."""

    def chance(self, state: State) -> tuple[tuple[int, float], ...]:
        """What is drawn in a state, with probabilities; nothing where a seat decides."""

    def view(self, state: State, seat: int) -> StateView:
        """What a seat knows in a state."""

    def scores(self, state: State) -> tuple[float, ...]:
        """Returns so far, scaled."""

    def finished(self, state: State) -> Result:
        """The result of a game that was played to its end."""


class Position:
    """A state of a game, and what was asked about it."""

    __slots__ = ("_game", "_result", "_scores", "_views", "after", "chance", "mover", "state")

    def __init__(self, game: StateReader, state: State) -> None:
        player: int = state.current_player()
        self._game = game
        self.state = state
        self.chance: tuple[tuple[int, float], ...] = game.chance(state)
        """What may be drawn here, with probabilities."""
        self.mover = player if player >= 0 and not self.chance else None
        """The seat that must act; None at the end and where something is drawn."""
        self.after: dict[int, Position] = {}
        """Where actions lead that were taken here before."""
        self._views: dict[int, StateView] = {}
        self._scores: tuple[float, ...] | None = None
        self._result: Result | None = None

    def view(self, seat: int) -> StateView:
        """What a seat knows."""
        known = self._views.get(seat)
        if known is None:
            known = self._views[seat] = self._game.view(self.state, seat)
        return known

    @property
    def scores(self) -> tuple[float, ...]:
        """Returns so far, scaled."""
        if self._scores is None:
            self._scores = self._game.scores(self.state)
        return self._scores

    @property
    def result(self) -> Result:
        """How a game that was played to its end ended."""
        if self._result is None:
            self._result = self._game.finished(self.state)
        return self._result


class Positions:
    """The positions of one game."""

    def __init__(self, game: StateReader) -> None:
        self._game = game
        self._keeps = not game.samples_itself and game.rules.max_game_length() <= _SHORT
        self._start: Position | None = None
        self._num_kept = 0

    def start(self, seed: int) -> Position:
        """Where an episode begins."""
        if not self._keeps:
            return Position(self._game, self._game.start(seed))
        if self._start is None or self._num_kept >= _KEPT:
            self._start, self._num_kept = Position(self._game, self._game.start(seed)), 0
        return self._start

    def after(self, position: Position, action: int) -> Position:
        """Where an action leads. Of a long game the position before it must not be used any more."""
        known = position.after.get(action)
        if known is not None:
            return known
        if not self._keeps:
            position.state.apply_action(action)
            return Position(self._game, position.state)
        self._num_kept += 1
        found = position.after[action] = Position(self._game, position.state.child(action))
        return found
