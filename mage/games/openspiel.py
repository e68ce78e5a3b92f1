"""One adapter plays any OpenSpiel game: sequential or simultaneous, any number of seats.

Simultaneous moves are played in turn; OpenSpiel's turn-based view keeps the earlier ones hidden. Chance is
drawn from named streams, so a task and an episode fix the deal whatever else is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyspiel

from mage.errors import ConfigError, PlayError
from mage.games.table import GAMES
from mage.games.words.base import State, Words
from mage.games.words.generic import GenericWords
from mage.seeds import derive, pick_index, uniform
from mage.spec import Spec, call_with, parse_spec
from mage.types import Ending, Fact, Observation, Result, Task


class Game:
    """OpenSpiel's rules with our words. Immutable and shared by all trials."""

    def __init__(self, spec: str, rules: Any, words: Words, scale: float) -> None:
        kind = rules.get_type()
        self.spec = spec
        self.words = words
        self.scale = scale
        """Returns are divided by this: the number of rounds for repeated games."""
        self.rules = rules if kind.dynamics == kind.Dynamics.SEQUENTIAL else pyspiel.convert_to_turn_based(rules)
        self.num_seats: int = rules.num_players()
        self.nothing: tuple[float, ...] = (0.0,) * self.num_seats
        self.lowest: float = rules.min_utility() / scale
        self.samples_itself = kind.chance_mode == kind.ChanceMode.SAMPLED_STOCHASTIC
        self.zero_sum: bool = kind.utility == kind.Utility.ZERO_SUM
        self.is_open = (
            kind.dynamics == kind.Dynamics.SEQUENTIAL and kind.information == kind.Information.PERFECT_INFORMATION
        )
        """Everybody sees everything, so the history of moves is a fact that search may use."""
        self.pays_midway = kind.reward_model == kind.RewardModel.REWARDS
        self.keyed_by_information = kind.provides_information_state_string and not (
            self.is_open and kind.provides_observation_string
        )

    def start(self, seed: int) -> State:
        """A fresh state. Games that draw chance by themselves get a seed of their own."""
        if self.samples_itself:
            parameters = {**self.rules.get_parameters(), "rng_seed": seed & 0x7FFFFFFF}
            return pyspiel.load_game(self.rules.get_type().short_name, parameters).new_initial_state()
        return self.rules.new_initial_state()

    def key(self, state: State, seat: int) -> str:
        """Equal for equal decision problems: the information state, or the position where nothing is hidden."""
        if self.keyed_by_information:
            return str(state.information_state_string(seat))
        return str(state.observation_string(seat))

    def observe(self, state: State, seat: int, episode: int, turn: int) -> Observation:
        """What `seat` knows in `state`; legal actions only for the mover."""
        ids = tuple(state.legal_actions(seat)) if state.current_player() == seat else ()
        word = self.words.action
        return Observation(
            seat,
            episode,
            turn,
            self.words.observe(state, seat),
            tuple([word(state, seat, i) for i in ids]),
            ids,
            self.key(state, seat),
            self.facts(state, seat),
        )

    def facts(self, state: State, seat: int) -> Mapping[str, Fact]:
        facts = self.words.facts(state, seat)
        return {**facts, "history": tuple(state.history())} if self.is_open else facts

    def scores(self, state: State) -> tuple[float, ...]:
        """Returns so far, scaled."""
        return tuple([value / self.scale for value in state.returns()])


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
        self._scores = game.nothing
        self._state = game.start(self._deal)
        self._pass_chance()

    def to_move(self) -> int | None:
        if self._forfeited_by is not None or self._num_turns >= self._max_turns:
            return None
        player: int = self._state.current_player()
        return player if player >= 0 else None

    def observe(self, seat: int) -> Observation:
        return self._game.observe(self._state, seat, self._episode, self._turns_by_seat[seat])

    def step(self, action: str | None) -> tuple[float, ...]:
        seat = self.to_move()
        if seat is None:
            raise PlayError(f"{self._game.spec}: the episode is over, {action!r} cannot be played")
        if action is None:
            self._forfeited_by = seat
            return self._game.nothing
        state, word = self._state, self._game.words.action
        for candidate in state.legal_actions():
            if word(state, seat, candidate) == action:
                break
        else:
            legal = ", ".join(word(state, seat, i) for i in state.legal_actions())
            raise PlayError(f"{self._game.spec}: {action!r} is not legal; legal are {legal}")
        state.apply_action(candidate)
        self._num_turns += 1
        self._turns_by_seat[seat] += 1
        self._pass_chance()
        if not (self._game.pays_midway or state.is_terminal()):
            return self._game.nothing
        before, self._scores = self._scores, self._game.scores(state)
        return tuple([now - then for now, then in zip(self._scores, before, strict=True)])

    def result(self) -> Result:
        if self.to_move() is not None:
            raise PlayError(f"{self._game.spec}: the episode is not over")
        game, state, seats = self._game, self._state, range(self._game.num_seats)
        facts = game.words.facts(state, None)
        if self._forfeited_by is not None:
            who = self._forfeited_by
            returns = tuple(game.lowest if seat == who else 0.0 for seat in seats)
            told = ("Another player gave up. The episode does not count.", "You gave up the episode.")
            outcomes = tuple(told[seat == who] for seat in seats)
            return Result(returns, outcomes, Ending.FORFEITED, who, facts)
        if not state.is_terminal():
            outcomes = tuple("The episode was stopped because it was too long." for _ in seats)
            return Result(game.scores(state), outcomes, Ending.TRUNCATED, None, facts)
        outcomes = tuple([game.words.outcome(state, seat) for seat in seats])
        return Result(game.scores(state), outcomes, Ending.FINISHED, None, facts)

    def _pass_chance(self) -> None:
        state = self._state
        while state.is_chance_node():
            outcomes = state.chance_outcomes()
            point = uniform(self._deal, self._num_draws)
            self._num_draws += 1
            state.apply_action(outcomes[pick_index([p for _, p in outcomes], point)][0])


@lru_cache(maxsize=256)
def load_game(spec: str) -> Game:
    """The game a spec names: one with words of its own, or any of OpenSpiel's by its name and parameters.

    >>> load_game("rps(rounds=3)").num_seats
    2
    """
    parsed = parse_spec(spec)
    if parsed.name in GAMES:
        rules, words, scale = call_with("game", parsed, GAMES[parsed.name])
        return Game(str(parsed), rules, words, scale)
    rules = _load_any(parsed)
    return Game(str(parsed), rules, GenericWords(rules), 1.0)


def known_games() -> tuple[str, ...]:
    """Names of all games that can be played, those with words of their own included."""
    playable = (t.short_name for t in pyspiel.registered_games() if t.default_loadable and _is_played_in_turn(t))
    return tuple(sorted({*playable, *GAMES}))


def _load_any(spec: Spec) -> Any:
    """Check name and parameters first: OpenSpiel prints to stderr before it raises."""
    kinds = {t.short_name: t for t in pyspiel.registered_games()}
    if spec.name not in kinds:
        raise ConfigError(
            f"unknown game {spec.name!r}; known with words: {', '.join(GAMES)}; "
            f"and OpenSpiel's {len(kinds)} (mage list games --all)"
        )
    if not _is_played_in_turn(kinds[spec.name]):
        raise ConfigError(f"{spec.name!r} is a mean-field game; mage plays games with separate players")
    known = kinds[spec.name].parameter_specification
    for name in spec.named:
        if name not in known:
            raise ConfigError(f"unknown parameter {name!r} of {spec.name!r}; known: {', '.join(known) or 'none'}")
    if spec.args:
        raise ConfigError(f"parameters of {spec.name!r} need names, as in {spec.name}(key=value)")
    try:
        return pyspiel.load_game(str(spec))
    except (pyspiel.SpielError, RuntimeError) as error:
        raise ConfigError(f"OpenSpiel refuses {str(spec)!r}: {' '.join(str(error).split())}") from None


def _is_played_in_turn(kind: Any) -> bool:
    return bool(kind.dynamics != kind.Dynamics.MEAN_FIELD)
