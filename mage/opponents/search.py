"""Players that look ahead, for games in which nothing is hidden: tree search and perfect play.

The history of moves is a fact of such games, so a player rebuilds the position it is in and thinks from there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyspiel

from mage.errors import ConfigError
from mage.opponents.draws import draw_seed
from mage.opponents.parameters import number
from mage.opponents.policy import Policy, certainly
from mage.seeds import derive
from mage.spec import whole
from mage.types import Observation
from mage.worlds.openspiel.game import Game
from mage.worlds.openspiel.words.base import State

MAX_POSITIONS = 200_000
"""Largest game that is solved: tic-tac-toe has 5,478 positions."""
_MAX_LENGTH = 150
"""Longest game that is solved: every move is up to five frames of recursion, and Python stops at a thousand."""
_MEMORY_MB = 1000
_SEED_BITS = 31

Worth = Callable[[int], float]
"""What a position is worth after an action."""


def mcts(game: Game, seat: int, rng: random.Random, simulations: Any = 100, c: Any = 2.0, seed: Any = None) -> Policy:
    """Monte Carlo tree search with random playouts; `c` weighs exploration. Its draws are by episode and turn."""
    num_simulations = whole("simulations", simulations, 1)
    exploration = number("c", c, 0)
    chosen = draw_seed(rng) if seed is None else whole("seed", seed, 0)

    def policy(observation: Observation) -> Sequence[float]:
        if len(observation.ids) == 1:
            return (1.0,)
        own = derive(chosen, observation.episode, observation.turn) >> (64 - _SEED_BITS)
        evaluator = pyspiel.RandomRolloutEvaluator(1, own)
        bot = pyspiel.MCTSBot(game.rules, evaluator, exploration, num_simulations, _MEMORY_MB, True, own, False)
        return certainly(observation, bot.step(position(game, observation)))

    return policy


def minimax(game: Game, seat: int, rng: random.Random) -> Policy:
    """Perfect play: every move that keeps the value of the game, with the same probability."""
    solved = _solved(game, seat)

    def policy(observation: Observation) -> Sequence[float]:
        worths = solved.worths(position(game, observation))
        best = max(worths)
        share = 1.0 / worths.count(best)
        return [share if worth == best else 0.0 for worth in worths]

    return policy


def position(game: Game, observation: Observation) -> State:
    """The state an observation of an open game belongs to."""
    state = game.rules.new_initial_state()
    for action in observation.facts["history"]:  # type: ignore[union-attr]  # a row of numbers
        state.apply_action(action)
    return state


def refuse_long(game: Game) -> None:
    """Fail for games whose tree is too deep to be walked."""
    if game.rules.max_game_length() + game.rules.max_chance_nodes_in_history() > _MAX_LENGTH:
        raise ConfigError(f"{game.spec} is too long to be solved: it can take more than {_MAX_LENGTH} moves")


class Lookahead:
    """What positions of an open game are worth to a seat that plays its best; `others` says what others make of theirs.

    Positions are told apart by how OpenSpiel prints them, who is to move and how many moves were made.
    """

    def __init__(self, game: Game, seat: int, others: Callable[[State, Worth], float]) -> None:
        self._game = game
        self._seat = seat
        self._others = others
        self._known: dict[tuple[str, int, int], float] = {}
        refuse_long(game)
        self.worth(game.start(0))

    def worth(self, state: State) -> float:
        """What the seat gets from here."""
        place = (str(state), state.current_player(), state.move_number())
        if place not in self._known:
            if len(self._known) >= MAX_POSITIONS:
                raise ConfigError(f"{self._game.spec} is too large to be solved: over {MAX_POSITIONS} positions")
            self._known[place] = self._look(state)
        return self._known[place]

    def worths(self, state: State) -> list[float]:
        """What each legal action is worth, in the order of the legal actions."""
        return [self.worth(state.child(action)) for action in state.legal_actions()]

    def _look(self, state: State) -> float:
        if state.is_terminal():
            return self._game.scores(state)[self._seat]
        if drawn := self._game.chance(state):
            return sum([p * self.worth(state.child(action)) for action, p in drawn])
        if state.current_player() == self._seat:
            return max(self.worths(state))
        return self._others(state, lambda action: self.worth(state.child(action)))


@lru_cache(maxsize=16)
def _solved(game: Game, seat: int) -> Lookahead:
    """The game solved for a seat whose only opponent does its worst."""
    return Lookahead(game, seat, lambda state, worth: min([worth(action) for action in state.legal_actions()]))
