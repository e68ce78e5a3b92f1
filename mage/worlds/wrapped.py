"""A world around another one, for subclasses that seat other opponents or watch episodes."""

from __future__ import annotations

from mage.protocols import Env, Player, World
from mage.types import Task, WorldInfo


class WrappedWorld:
    """Hands everything on to another world."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def info(self) -> WorldInfo:
        return self._world.info

    def rules(self, task: Task) -> str:
        return self._world.rules(task)

    def new_env(self, task: Task, episode: int) -> Env:
        return self._world.new_env(task, episode)

    def opponent(self, spec: str, task: Task, seat: int) -> Player:
        return self._world.opponent(spec, task, seat)

    def check_opponent(self, spec: str, seat: int) -> None:
        self._world.check_opponent(spec, seat)

    def check_level(self, level: str) -> None:
        self._world.check_level(level)
