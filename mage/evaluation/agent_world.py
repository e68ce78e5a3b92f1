"""A world whose opponents are agents, so that any agent can play in any seat."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mage.errors import pick
from mage.protocols import Agent, AgentFactory, Env, Player, World
from mage.types import Task, WorldInfo


class AgentWorld:
    """Wraps a world: the opponents that a task names are made by `agent_factories`."""

    def __init__(self, world: World, agent_factories: Mapping[str, AgentFactory]) -> None:
        self._world = world
        self._agent_factories = agent_factories

    @property
    def info(self) -> WorldInfo:
        return self._world.info

    def rules(self, task: Task) -> str:
        return self._world.rules(task)

    def new_env(self, task: Task, episode: int) -> Env:
        return self._world.new_env(task, episode)

    def opponent(self, spec: str, task: Task, seat: int) -> Player:
        return pick("agent", self._agent_factories, spec)(msgspec.structs.replace(task, seat=seat), 0)

    def check_opponent(self, spec: str, seat: int) -> None:
        pick("agent", self._agent_factories, spec)

    def check_level(self, level: str) -> None:
        self._world.check_level(level)


def with_announced_episodes(make_agent: AgentFactory, episodes: int) -> AgentFactory:
    """A factory whose agents are told that the trial has `episodes` episodes, however many are played."""

    def announced(task: Task, sibling: int) -> Agent:
        return make_agent(msgspec.structs.replace(task, episodes=episodes), sibling)

    return announced
