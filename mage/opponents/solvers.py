"""Opponents computed by solvers: equilibria by CFR+ and exact best responses."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyspiel

from mage.errors import ConfigError, InexactError
from mage.opponents.draws import enumerate_draws
from mage.opponents.parameters import with_original_words
from mage.opponents.policy import Policy, certainly
from mage.opponents.scripts import MakePolicy
from mage.opponents.search import ActionValue, Lookahead, check_length, position
from mage.spec import Spec, whole
from mage.types import Observation
from mage.worlds.openspiel.game import Game
from mage.worlds.openspiel.words.base import State

MAX_STATES = 200_000
"""Most states of a game tree that is solved; Leduc poker has about 9,500."""
MAX_VISITS = 30_000_000
"""Most state visits of CFR over all iterations: about a minute."""
_TIE = 1e-9


def cfr(game: Game, seat: int, rng: random.Random, iterations: Any = 1000) -> Policy:
    """An equilibrium, with its mixed moves: the average policy of that many iterations of CFR+."""
    odds_by_key = equilibrium(with_original_words(game), whole("iterations", iterations, 1))
    return lambda observation: odds_by_key[observation.key]


@lru_cache(maxsize=64)
def equilibrium(game: Game, iterations: int) -> Mapping[str, tuple[float, ...]]:
    """Probabilities of the legal actions by information state."""
    limit = min(MAX_VISITS // iterations, MAX_STATES)
    if count_states(game, limit) > limit:
        raise ConfigError(
            f"{game.spec} is too large for cfr({iterations}), which can visit {limit} states each time; "
            "take fewer iterations or a smaller game"
        )
    solver = pyspiel.CFRPlusSolver(game.rules)
    for _ in range(iterations):
        solver.evaluate_and_update_policy()
    table = solver.tabular_average_policy().policy_table()
    return {key: tuple([p for _, p in sorted(odds)]) for key, odds in table.items()}


def count_states(game: Game, limit: int) -> int:
    """The number of states of the game tree; some number above `limit` if it has more."""
    waiting = [game.start(0)]
    seen = 0
    while waiting and seen <= limit:
        state = waiting.pop()
        seen += 1
        if not state.is_terminal():
            waiting.extend([state.child(action) for action in state.legal_actions()])
    return seen


def best_response(make: MakePolicy, game: Game, seat: int, rng: random.Random, opponent: Any) -> Policy:
    """Scores the most an episode allows against `opponent` in every other seat.

    It plays the first of equally good actions. It knows the opponent's policy but not its draws for the trial: against
    a random phase or a mixture with each=trial it is the best response to the prior over these, within one episode. It
    responds to the opponent's first episode, so to a switch before it switches. In states that the opponent never
    reaches, it responds as if all others had moved at random.
    """
    if not isinstance(opponent, Spec):
        raise ConfigError(f"best-response needs an opponent, as in best-response:uniform, not {opponent}")
    others = [s for s in range(game.num_seats) if s != seat]
    try:
        ways = enumerate_draws(lambda drawn: {s: make(opponent, game, s, drawn) for s in others})
    except InexactError as error:
        raise InexactError(f"no best response to {str(opponent)!r}: {error}") from None
    if not game.has_perfect_information:
        reply = _InformationStateReply(game, seat, ways)
        choices = {key: reply.choice(key) for key in reply.places}
        return lambda observation: certainly(observation, observation.ids[choices[observation.key]])
    if len(ways) > 1:
        raise ConfigError(
            f"no best response to {str(opponent)!r} in {game.spec}: in games without hidden information it must "
            "have nothing to draw for the trial"
        )
    return _perfect_information_reply(game, seat, ways[0][1])


def _perfect_information_reply(game: Game, seat: int, policies: Mapping[int, Policy]) -> Policy:
    def others(state: State, value: ActionValue) -> float:
        mover = state.current_player()
        observation = game.observe(state, mover, 0, game.turn(state, mover))
        moves = zip(observation.ids, policies[mover](observation), strict=True)
        return sum([p * value(action) for action, p in moves if p > 0])

    solved = Lookahead(game, seat, others)

    def policy(observation: Observation) -> Sequence[float]:
        action_values = solved.action_values(position(game, observation))
        return certainly(observation, observation.ids[_first_best(action_values)])

    return policy


class _Node(NamedTuple):
    """A node of the game tree: a decision of the seat (`key`), a move of others (`odds`), or terminal (`score`)."""

    key: str | None
    odds: tuple[float, ...]
    children: tuple[_Node, ...]
    score: float


class _InformationStateReply:
    """Backward induction over the information states of one seat."""

    def __init__(self, game: Game, seat: int, ways: Sequence[tuple[float, Mapping[int, Policy]]]) -> None:
        check_length(game)
        self._game = game
        self._seat = seat
        self._num_states = 0
        self._choices: dict[str, int] = {}
        self.places: dict[str, list[tuple[float, float, _Node]]] = {}
        """Nodes by information state, with their reach probabilities: of the others' policies, and of random moves."""
        for weight, policies in ways:
            self._odds: dict[tuple[int, str], tuple[float, ...]] = {}
            self._policies = policies
            self._build_tree(game.start(0), (0,) * game.num_seats, weight, weight)

    def choice(self, key: str) -> int:
        """The index of the best legal action."""
        if key not in self._choices:
            places = self.places[key]
            led = sum([reach for reach, _, _ in places]) > 0
            weights = [reach if led else blind for reach, blind, _ in places]
            action_values = [
                sum([w * self._value(node.children[i]) for w, (_, _, node) in zip(weights, places, strict=True)])
                for i in range(len(places[0][2].children))
            ]
            total = sum(weights)
            self._choices[key] = _first_best([value / total for value in action_values])
        return self._choices[key]

    def _value(self, node: _Node) -> float:
        if node.key is not None:
            return self._value(node.children[self.choice(node.key)])
        if not node.children:
            return node.score
        return sum([p * self._value(child) for p, child in zip(node.odds, node.children, strict=True) if p > 0])

    def _build_tree(self, state: State, turns: tuple[int, ...], reach: float, blind: float) -> _Node:
        self._num_states += 1
        if self._num_states > MAX_STATES:
            raise ConfigError(f"{self._game.spec} is too large for a best response: over {MAX_STATES} states")
        if state.is_terminal():
            return _Node(None, (), (), self._game.scores(state)[self._seat])
        mover = state.current_player()
        actions = state.legal_actions()
        if mover == self._seat:
            key = self._game.key(state, mover)
            children = tuple([self._build_tree(state.child(a), turns, reach, blind) for a in actions])
            node = _Node(key, (), children, 0.0)
            self.places.setdefault(key, []).append((reach, blind, node))
            return node
        if state.is_chance_node():
            odds = tuple([p for _, p in state.chance_outcomes()])
            blindly = odds
        else:
            odds = self._odds_at(state, mover, turns[mover])
            blindly = (1 / len(odds),) * len(odds)
            turns = (*turns[:mover], turns[mover] + 1, *turns[mover + 1 :])
        steps = zip(actions, odds, blindly, strict=True)
        children = tuple([self._build_tree(state.child(a), turns, reach * p, blind * q) for a, p, q in steps])
        return _Node(None, odds, children, 0.0)

    def _odds_at(self, state: State, mover: int, turn: int) -> tuple[float, ...]:
        """The policy of another seat, evaluated once per information state."""
        place = (mover, self._game.key(state, mover))
        if place not in self._odds:
            self._odds[place] = tuple(self._policies[mover](self._game.observe(state, mover, 0, turn)))
        return self._odds[place]


def _first_best(action_values: Sequence[float]) -> int:
    best = max(action_values)
    return next(i for i, value in enumerate(action_values) if value >= best - _TIE)
