"""The world of an OpenSpiel game: makes the environments, rules and opponents of a task."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from mage.errors import ConfigError, InexactError
from mage.opponents.behaviours import behaviours, canonical, drawn_behaviour
from mage.opponents.policy import PolicyPlayer
from mage.opponents.registry import MODEL_OPPONENTS, check_opponent, make_player, make_policy
from mage.opponents.remote import RemotePolicy
from mage.protocols import Player
from mage.seeds import derive, stream
from mage.spec import parse_spec
from mage.types import REFLECT_REQUEST, SAME_OPPONENTS, Task, WorldInfo
from mage.worlds.openspiel.exact import OpenSpielModel
from mage.worlds.openspiel.game import OpenSpielEnv, load_game
from mage.worlds.openspiel.security import security_value

_MODEL_NAMES = tuple(MODEL_OPPONENTS)
"""A quick test by prefix, because parsing specs is slow."""
_SAME_GAME = "You play {episodes} episodes of the same game."
_REFLECT_ALONE = "Write a short note to yourself: what did you find out, and what will you do next?"
"""What agents are told and asked in games of one seat, which have no opponents."""


class OpenSpielWorld:
    """Any game that `load_game` knows; games are loaded once and shared."""

    def __init__(self, spec: str) -> None:
        self.game = game = load_game(spec)
        total = game.rules.utility_sum()
        self.info = WorldInfo(
            num_seats=game.num_seats,
            lowest=game.lowest,
            highest=game.highest,
            has_chance=game.has_chance,
            constant_sum=None if total is None else total / game.scale,
            trial=_SAME_GAME if game.num_seats == 1 else SAME_OPPONENTS,
            reflect=_REFLECT_ALONE if game.num_seats == 1 else REFLECT_REQUEST,
            turns=game.num_turns,
        )

    def rules(self, task: Task) -> str:
        return self.game.rules_for(task.seat)

    def new_env(self, task: Task, episode: int) -> OpenSpielEnv:
        return OpenSpielEnv(self.game, task, episode)

    def opponent(self, spec: str, task: Task, seat: int) -> Player:
        """The opponent of a spec. The seed is the task's, so siblings have the same one."""
        if spec.startswith(_MODEL_NAMES):
            policy = make_policy(parse_spec(spec), self.game, seat, stream(task.seed, "opponent", seat))
            if isinstance(policy, RemotePolicy):
                return policy.make_player(self.game, task, seat)
        return self.player(spec, seat, derive(task.seed, "opponent", seat))

    def player(self, spec: str, seat: int, seed: int) -> PolicyPlayer:
        """The policy of a spec as a player in any seat. `seed` fixes all of its randomness."""
        return make_player(spec, self.game, seat, seed)

    def check_opponent(self, spec: str, seat: int) -> None:
        check_opponent(spec, self.game, seat)

    def behaviours(self, spec: str, seat: int) -> Collection[Hashable]:
        """What the opponent does, one for each of its draws; its canonical spec where they cannot be listed."""
        try:
            return behaviours(spec, self.game, seat)
        except InexactError:
            return (str(canonical(parse_spec(spec), self.game, seat)),)

    def drawn_behaviour(self, spec: str, task: Task, seat: int) -> Hashable:
        """What the opponent of a task does; None where that is too much to compare."""
        try:
            return drawn_behaviour(
                spec, self.player(spec, seat, derive(task.seed, "opponent", seat)).odds, self.game, seat
            )
        except InexactError:
            return None

    def check_level(self, level: str) -> None:
        raise ConfigError(f"{self.game.spec} has no level {level!r}: games have opponents instead")

    def exact_model(self, members: Sequence[tuple[str, float]], seat: int) -> OpenSpielModel:
        return OpenSpielModel(self.game, members, seat)

    def guaranteed_score(self, seat: int) -> float:
        """The equilibrium value of a zero-sum game of two players; else the security level."""
        return security_value(self.game.spec, seat)
