"""A world for tasks of any spec, for tests that play several."""

from __future__ import annotations

from mage.protocols import Env, Player
from mage.types import Task, WorldInfo
from mage.worlds.registry import load_world


class AnyWorld:
    """The world that each task names. `info` is that of a game of two seats."""

    @property
    def info(self) -> WorldInfo:
        return load_world("rps").info

    def rules(self, task: Task) -> str:
        return load_world(task.world).rules(task)

    def new_env(self, task: Task, episode: int) -> Env:
        return load_world(task.world).new_env(task, episode)

    def opponent(self, spec: str, task: Task, seat: int) -> Player:
        return load_world(task.world).opponent(spec, task, seat)

    def check_opponent(self, spec: str, seat: int) -> None:
        load_world("rps").check_opponent(spec, seat)

    def check_level(self, level: str) -> None:
        load_world("rps").check_level(level)
