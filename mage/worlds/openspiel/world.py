"""The world of OpenSpiel games: makes the environments, rules and opponents of a task."""

from __future__ import annotations

from collections.abc import Mapping

from mage.errors import ConfigError
from mage.opponents.registry import MODEL_OPPONENTS, make_player, make_policy
from mage.opponents.remote import RemotePolicy
from mage.protocols import Player
from mage.seeds import derive, stream
from mage.spec import parse_spec
from mage.types import Task
from mage.worlds.openspiel.game import OpenSpielEnv, load_game

_MODEL_NAMES = tuple(MODEL_OPPONENTS)
"""A quick test by prefix, because parsing specs is slow."""


class OpenSpielWorld:
    """Stateless; games are loaded once and shared."""

    def new_env(self, task: Task, episode: int) -> OpenSpielEnv:
        return OpenSpielEnv(load_game(task.world), task, episode)

    def rules(self, task: Task) -> str:
        return load_game(task.world).rules_for(task.seat)

    def opponents(self, task: Task) -> Mapping[int, Player]:
        others = other_seats(task)
        return {seat: make_opponent(spec, task, seat) for seat, spec in zip(others, task.opponents, strict=True)}


def make_opponent(spec: str, task: Task, seat: int) -> Player:
    """The opponent of a spec in a seat of a task. The seed is the task's, so siblings have the same one."""
    game = load_game(task.world)
    if spec.startswith(_MODEL_NAMES):
        policy = make_policy(parse_spec(spec), game, seat, stream(task.seed, "opponent", seat))
        if isinstance(policy, RemotePolicy):
            return policy.make_player(game, task, seat)
    return make_player(spec, game, seat, derive(task.seed, "opponent", seat))


def other_seats(task: Task) -> list[int]:
    """All seats but the task's, checked against the number of opponents."""
    num_seats = load_game(task.world).num_seats
    if not 0 <= task.seat < num_seats:
        raise ConfigError(f"seat {task.seat} does not exist; {task.world} has seats 0 to {num_seats - 1}")
    if len(task.opponents) != num_seats - 1:
        raise ConfigError(f"{task.world} needs {num_seats - 1} opponents, not {len(task.opponents)}")
    return [seat for seat in range(num_seats) if seat != task.seat]
