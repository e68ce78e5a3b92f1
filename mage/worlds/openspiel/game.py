"""The environment of any OpenSpiel game: sequential or simultaneous, any number of seats.

Simultaneous moves are played in turn; OpenSpiel's turn-based view keeps the earlier ones hidden. Chance is sampled from
seeds by name, so the deal depends only on task and episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyspiel

from mage.errors import ConfigError, PlayError
from mage.registry import Registry
from mage.seeds import derive, pick_index, uniform
from mage.spec import Spec, call_with, parse_spec
from mage.types import Ending, Fact, Observation, Result, Task
from mage.worlds.openspiel.game_builders import GAMES, Built
from mage.worlds.openspiel.openings import check_opening, opening_of, opening_rule, without_opening
from mage.worlds.openspiel.positions import Positions, StateView
from mage.worlds.openspiel.rules import is_known, load_rules, names_without_parameters
from mage.worlds.openspiel.words.base import NamesSuccess, State, Words
from mage.worlds.openspiel.words.generic import GenericWords


def _builder(given: object) -> Callable[..., Built]:
    if not callable(given):
        raise TypeError(f"a game is a function that returns (rules, words, scale), not {given!r}")
    return given


WORDED: Registry[Callable[..., Built]] = Registry("game", GAMES, _builder, is_known)
"""Games with their own words, plugins included."""


class Game:
    """OpenSpiel's rules with our words. Immutable and shared by all trials."""

    def __init__(self, spec: str, rules: Any, words: Words, scale: float, opening: int = 0) -> None:
        kind = rules.get_type()
        self.spec = spec
        self.opening = opening
        """How many first moves of every episode are random, for any seat."""
        self.words = words
        self.scale = scale
        """Divisor of returns: the number of rounds for repeated games."""
        self.rules = rules if kind.dynamics == kind.Dynamics.SEQUENTIAL else pyspiel.convert_to_turn_based(rules)
        self.num_seats: int = rules.num_players()
        self.num_turns: int = rules.get_parameters()["num_repetitions"] if kind.short_name == "repeated_game" else 0
        """Turns of each seat in every finished episode; 0: their number varies."""
        self.zero_rewards: tuple[float, ...] = (0.0,) * self.num_seats
        self.lowest: float = rules.min_utility() / scale
        self.highest: float = rules.max_utility() / scale
        self._is_deterministic = kind.chance_mode == kind.ChanceMode.DETERMINISTIC
        self.has_chance = opening > 0 or not self._is_deterministic
        self.samples_chance_itself = kind.chance_mode == kind.ChanceMode.SAMPLED_STOCHASTIC
        self.zero_sum: bool = kind.utility == kind.Utility.ZERO_SUM
        self.has_perfect_information = (
            kind.dynamics == kind.Dynamics.SEQUENTIAL and kind.information == kind.Information.PERFECT_INFORMATION
        )
        """Turn-based with nothing hidden, so the history of moves is a fact that search may use."""
        self.has_intermediate_rewards = kind.reward_model == kind.RewardModel.REWARDS
        self.keyed_by_information_state = kind.provides_information_state_string and not (
            self.has_perfect_information and kind.provides_observation_string
        )
        self.positions = Positions(self)
        """The cache of its positions."""

    def start(self, seed: int) -> State:
        """An initial state. `seed` is for games that sample chance themselves."""
        if self.samples_chance_itself:
            parameters = {**self.rules.get_parameters(), "rng_seed": seed & 0x7FFFFFFF}
            return pyspiel.load_game(self.rules.get_type().short_name, parameters).new_initial_state()
        return self.rules.new_initial_state()

    def chance(self, state: State) -> tuple[tuple[int, float], ...]:
        """The outcomes of a chance node or of a random opening move, with probabilities; empty where a seat decides."""
        if state.is_chance_node():
            return tuple(state.chance_outcomes())
        if not self.opening or state.is_terminal() or self._is_past_opening(state):
            return ()
        actions = state.legal_actions()
        return tuple([(action, 1.0 / len(actions)) for action in actions])

    def turn(self, state: State, seat: int) -> int:
        """How many decisions a seat has made."""
        return _seats_to_move(state)[self.opening :].count(seat)

    def _is_past_opening(self, state: State) -> bool:
        is_long = state.move_number() >= self.opening  # a quick test; the number includes chance moves
        return is_long and (self._is_deterministic or len(_seats_to_move(state)) >= self.opening)

    def rules_for(self, seat: int) -> str:
        """The rules as told to a seat."""
        told = self.words.rules(seat)
        return f"{told} {opening_rule(self.opening)}" if self.opening else told

    def key(self, state: State, seat: int) -> str:
        """Key of a decision problem: the information state, or the position if nothing is hidden."""
        if self.keyed_by_information_state:
            return str(state.information_state_string(seat))
        return str(state.observation_string(seat))

    def view(self, state: State, seat: int) -> StateView:
        """The observation of `seat` in `state`; legal actions only for the seat to move."""
        ids = tuple(state.legal_actions(seat)) if state.current_player() == seat else ()
        actions = distinct([self.words.action(state, seat, i) for i in ids], ids)
        facts = self.facts(state, seat)
        if self.has_perfect_information:
            facts = {**facts, "history": tuple(state.history())}
        return StateView(self.words.observe(state, seat), actions, ids, self.key(state, seat), facts)

    def facts(self, state: State, seat: int | None) -> Mapping[str, Fact]:
        """The facts known to a seat, or all for None; with random openings, these moves by seat."""
        facts = self.words.facts(state, seat)
        return {**facts, "opening": self._opening_moves(state)} if self.opening else facts

    def _opening_moves(self, state: State) -> tuple[tuple[int, str], ...]:
        played, moves = self.rules.new_initial_state(), list[tuple[int, str]]()
        for action in state.history():
            if len(moves) == self.opening:
                break
            if (player := played.current_player()) >= 0:
                moves.append((player, self.words.action(played, player, action)))
            played.apply_action(action)
        return tuple(moves)

    def observe(self, state: State, seat: int, episode: int, turn: int) -> Observation:
        """The observation of `seat` after `turn` decisions in this episode."""
        return Observation(seat, episode, turn, *self.view(state, seat))

    def finished(self, state: State) -> Result:
        """The result of a terminal state."""
        outcomes = tuple([self.words.outcome(state, seat) for seat in range(self.num_seats)])
        scores = self.scores(state)
        return Result(scores, outcomes, Ending.FINISHED, None, self.facts(state, None), self.successes(scores))

    def scores(self, state: State) -> tuple[float, ...]:
        """Returns so far, scaled."""
        return tuple([value / self.scale for value in state.returns()])

    def successes(self, scores: Sequence[float]) -> tuple[bool, ...]:
        """For each seat whether its score is a success; empty where the game does not name one."""
        least = self.words.success_score if isinstance(self.words, NamesSuccess) else None
        return () if least is None else tuple(score >= least for score in scores)


class OpenSpielEnv:
    """One episode of one game."""

    def __init__(self, game: Game, task: Task, episode: int) -> None:
        self._game = game
        self._episode = episode
        self._max_turns = task.max_turns
        self._deal = derive(task.seed, "deal", 0 if task.replay_deal else episode)
        self._num_draws = 0
        self._num_turns = 0
        self._turns_by_seat = [0] * game.num_seats
        self._forfeited_by: int | None = None
        self._scores = game.zero_rewards
        self._mover: int | None = None
        self._position = game.positions.start(self._deal)
        self._advance()

    def to_move(self) -> int | None:
        return self._mover

    def observe(self, seat: int) -> Observation:
        return Observation(seat, self._episode, self._turns_by_seat[seat], *self._position.view(seat))

    def step(self, action: str | None) -> tuple[float, ...]:
        game, seat = self._game, self._mover
        if seat is None:
            raise PlayError(f"{game.spec}: the episode is over, {action!r} cannot be played")
        if action is None:
            self._forfeited_by, self._mover = seat, None
            return game.zero_rewards
        view = self._position.view(seat)
        if action not in view.actions:
            raise PlayError(f"{game.spec}: {action!r} is not legal; legal are {', '.join(view.actions)}")
        self._position = game.positions.after(self._position, view.ids[view.actions.index(action)])
        self._num_turns += 1
        self._turns_by_seat[seat] += 1
        self._advance()
        if not game.has_intermediate_rewards and self._mover is not None:
            return game.zero_rewards
        before, self._scores = self._scores, self._position.scores
        if self._scores == before:
            return game.zero_rewards
        return tuple([now - then for now, then in zip(self._scores, before, strict=True)])

    def result(self) -> Result:
        if self._mover is not None:
            raise PlayError(f"{self._game.spec}: the episode is not over")
        game, position, seats = self._game, self._position, range(self._game.num_seats)
        if self._forfeited_by is not None:
            who = self._forfeited_by
            returns = tuple(game.lowest if seat == who else 0.0 for seat in seats)
            told = ("Another player gave up. The episode does not count.", "You gave up the episode.")
            outcomes = tuple(told[seat == who] for seat in seats)
            facts, successes = game.facts(position.state, None), game.successes(returns)
            return Result(returns, outcomes, Ending.FORFEITED, who, facts, successes)
        if not position.state.is_terminal():
            outcomes = tuple("The episode was stopped because it was too long." for _ in seats)
            facts, successes = game.facts(position.state, None), game.successes(position.scores)
            return Result(position.scores, outcomes, Ending.TRUNCATED, None, facts, successes)
        return position.result

    def _advance(self) -> None:
        """Sample chance and opening moves, and set the seat to move."""
        while outcomes := self._position.chance:
            point = uniform(self._deal, self._num_draws)
            self._num_draws += 1
            drawn = outcomes[pick_index([p for _, p in outcomes], point)][0]
            self._position = self._game.positions.after(self._position, drawn)
        self._mover = self._position.mover if self._num_turns < self._max_turns else None


def _seats_to_move(state: State) -> list[int]:
    """The seat to move at each move so far, random opening moves included."""
    return [step.player for step in state.full_history() if step.player >= 0]


def distinct(words: Sequence[str], ids: Sequence[int]) -> tuple[str, ...]:
    """Unique action words: those that are empty or not unique get the action's number.

    >>> distinct(["a", "b", "a", ""], [4, 5, 6, 7])
    ('a (4)', 'b', 'a (6)', '(7)')
    """
    if len(set(words)) == len(words) and all(words):
        return tuple(words)
    shown = [w if w and words.count(w) == 1 else f"{w} ({i})".lstrip() for w, i in zip(words, ids, strict=True)]
    if len(set(shown)) < len(shown):
        raise PlayError(f"actions cannot be told apart: {', '.join(shown)}")
    return tuple(shown)


@lru_cache(maxsize=1024)
def load_game(spec: str) -> Game:
    """The game of a spec: one with its own words, or any of OpenSpiel's by name and parameters.

    >>> load_game("rps(rounds=3)").num_seats
    2
    """
    parsed = parse_spec(spec)
    usual, opening = without_opening(parsed), opening_of(parsed)
    if parsed.name in WORDED:
        built = call_with("world", usual, WORDED[parsed.name])
        if not (isinstance(built, tuple) and len(built) == 3 and isinstance(built[0], pyspiel.Game)):
            raise ConfigError(f"the game {parsed.name!r} must return an OpenSpiel game, its words and a scale")
        return _checked_game(parsed, *built, opening)
    if not is_known(parsed.name):
        raise ConfigError(
            f"unknown game {parsed.name!r}; with words: {', '.join(WORDED)}; `mage list worlds --all` names OpenSpiel's"
        )
    rules = load_rules(usual)
    return _checked_game(parsed, rules, GenericWords(rules), 1.0, opening)


def _checked_game(spec: Spec, rules: Any, words: Words, scale: float, opening: int) -> Game:
    if opening:
        check_opening(str(spec), rules, opening)
    return Game(str(spec), rules, words, scale, opening)


def generic_game(spec: Spec, rules: Any) -> Game:
    """A game with OpenSpiel's own strings."""
    return Game(str(spec), rules, GenericWords(rules), 1.0)


def known_games() -> tuple[str, ...]:
    """Names of all games that can be played."""
    return tuple(sorted({*names_without_parameters(), *WORDED}))
