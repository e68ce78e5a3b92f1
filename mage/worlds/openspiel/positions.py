"""Positions of a game, cached for short games.

A position of a short game is shared by all episodes that reach it and never changes; positions form a tree that grows
with play. A long game has one position per episode, whose state changes in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from mage.types import Fact, Result
from mage.worlds.openspiel.words.base import State

_SHORT = 16
"""Games of at most this many moves are cached."""
_KEPT = 4096
"""Most cached positions of a game."""


class StateView(NamedTuple):
    """The part of an observation that depends on the state only."""

    text: str
    actions: tuple[str, ...]
    ids: tuple[int, ...]
    key: str
    facts: Mapping[str, Fact]


class StateReader(Protocol):
    """What positions need of their game."""

    rules: Any
    samples_chance_itself: bool

    def start(self, seed: int) -> State:
        """An initial state."""

    def chance(self, state: State) -> tuple[tuple[int, float], ...]:
        """The random outcomes in a state, with probabilities; empty where a seat decides."""

    def view(self, state: State, seat: int) -> StateView:
        """The observation of a seat in a state."""

    def scores(self, state: State) -> tuple[float, ...]:
        """Returns so far, scaled."""

    def finished(self, state: State) -> Result:
        """The result of a terminal state."""


class Position:
    """A state of a game with cached views, scores and result."""

    __slots__ = ("_game", "_result", "_scores", "_views", "after", "chance", "mover", "state")

    def __init__(self, game: StateReader, state: State) -> None:
        player: int = state.current_player()
        self._game = game
        self.state = state
        self.chance: tuple[tuple[int, float], ...] = game.chance(state)
        """The random outcomes here, with probabilities."""
        self.mover = player if player >= 0 and not self.chance else None
        """The seat to move; None in terminal states and chance nodes."""
        self.after: dict[int, Position] = {}
        """Known successors by action."""
        self._views: dict[int, StateView] = {}
        self._scores: tuple[float, ...] | None = None
        self._result: Result | None = None

    def view(self, seat: int) -> StateView:
        """The observation of a seat."""
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
        """The result of a terminal state."""
        if self._result is None:
            self._result = self._game.finished(self.state)
        return self._result


class Positions:
    """The positions of one game, with a cache for short games."""

    def __init__(self, game: StateReader) -> None:
        self._game = game
        self._keeps = not game.samples_chance_itself and game.rules.max_game_length() <= _SHORT
        self._start: Position | None = None
        self._num_kept = 0

    def start(self, seed: int) -> Position:
        """The initial position."""
        if not self._keeps:
            return Position(self._game, self._game.start(seed))
        if self._start is None or self._num_kept >= _KEPT:
            self._start, self._num_kept = Position(self._game, self._game.start(seed)), 0
        return self._start

    def after(self, position: Position, action: int) -> Position:
        """The position after an action. In a long game the position before must not be used any more."""
        known = position.after.get(action)
        if known is not None:
            return known
        if not self._keeps:
            position.state.apply_action(action)
            return Position(self._game, position.state)
        self._num_kept += 1
        found = position.after[action] = Position(self._game, position.state.child(action))
        return found
