"""Opponents for games with perfect information: Monte Carlo tree search and minimax.

The history of moves is a fact of such games, so the position is rebuilt from it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyspiel

from mage.errors import ConfigError
from mage.opponents.draws import draw_seed
from mage.opponents.parameters import number, with_original_words
from mage.opponents.policy import Policy, certainly
from mage.seeds import derive
from mage.spec import whole
from mage.types import Observation
from mage.worlds.openspiel.game import Game
from mage.worlds.openspiel.words.base import State

MAX_POSITIONS = 200_000
"""Most positions of a game that is solved; tic-tac-toe has 5,478."""
MAX_SIMULATIONS = 100_000_000
"""Most playouts for a move."""
_MAX_LENGTH = 150
"""Most moves of a game that is solved: a move is up to five frames of recursion, and Python stops at a thousand."""
_MEMORY_MB = 1000
_SEED_BITS = 31

ActionValue = Callable[[int], float]
"""Maps an action to the value of the position after it."""


def mcts(game: Game, seat: int, rng: random.Random, simulations: Any = 100, c: Any = 2.0, seed: Any = None) -> Policy:
    """Monte Carlo tree search with random playouts; `c` weighs exploration. Its draws are by episode and turn."""
    num_simulations = whole("simulations", simulations, 1, MAX_SIMULATIONS)
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
    solved = _solved(with_original_words(game), seat)

    def policy(observation: Observation) -> Sequence[float]:
        action_values = solved.action_values(position(game, observation))
        best = max(action_values)
        share = 1.0 / action_values.count(best)
        return [share if value == best else 0.0 for value in action_values]

    return policy


def position(game: Game, observation: Observation) -> State:
    """The state of an observation in a game with perfect information."""
    state = game.rules.new_initial_state()
    for action in observation.facts["history"]:  # type: ignore[union-attr]  # a row of numbers
        state.apply_action(action)
    return state


def check_length(game: Game) -> None:
    """Refuse games whose tree is too deep for recursion."""
    if game.rules.max_game_length() + game.rules.max_chance_nodes_in_history() > _MAX_LENGTH:
        raise ConfigError(f"{game.spec} is too long to be solved: it can take more than {_MAX_LENGTH} moves")


class Lookahead:
    """Values of positions for a seat that maximises; `others` gives the value where another seat moves.

    For games with perfect information. The key of a position is its text in OpenSpiel, the seat to move and the number
    of moves.
    """

    def __init__(self, game: Game, seat: int, others: Callable[[State, ActionValue], float]) -> None:
        self._game = game
        self._seat = seat
        self._others = others
        self._known: dict[tuple[str, int, int], float] = {}
        check_length(game)
        self.value(game.start(0))

    def value(self, state: State) -> float:
        """The value of a state for the seat."""
        key = (str(state), state.current_player(), state.move_number())
        if key not in self._known:
            if len(self._known) >= MAX_POSITIONS:
                raise ConfigError(f"{self._game.spec} is too large to be solved: over {MAX_POSITIONS} positions")
            self._known[key] = self._compute(state)
        return self._known[key]

    def action_values(self, state: State) -> list[float]:
        """The value of each legal action, in the order of the legal actions."""
        return [self.value(state.child(action)) for action in state.legal_actions()]

    def _compute(self, state: State) -> float:
        if state.is_terminal():
            return self._game.scores(state)[self._seat]
        if drawn := self._game.chance(state):
            return sum([p * self.value(state.child(action)) for action, p in drawn])
        if state.current_player() == self._seat:
            return max(self.action_values(state))
        return self._others(state, lambda action: self.value(state.child(action)))


@lru_cache(maxsize=16)
def _solved(game: Game, seat: int) -> Lookahead:
    """The minimax values of the game for a seat with one opponent."""
    return Lookahead(game, seat, lambda state, value: min([value(action) for action in state.legal_actions()]))
