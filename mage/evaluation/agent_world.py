"""A world whose opponents are agents, so that any agent can play in any seat."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mage.errors import pick
from mage.protocols import Agent, AgentFactory, Player, World
from mage.types import Task
from mage.worlds.wrapped import WrappedWorld


class AgentWorld(WrappedWorld):
    """Wraps a world: the opponents that a task names are made by `agent_factories`."""

    def __init__(self, world: World, agent_factories: Mapping[str, AgentFactory]) -> None:
        super().__init__(world)
        self._agent_factories = agent_factories

    def opponent(self, spec: str, task: Task, seat: int) -> Player:
        return pick("agent", self._agent_factories, spec)(msgspec.structs.replace(task, seat=seat), 0)

    def check_opponent(self, spec: str, seat: int) -> None:
        pick("agent", self._agent_factories, spec)


def with_announced_episodes(make_agent: AgentFactory, episodes: int) -> AgentFactory:
    """A factory whose agents are told that the trial has `episodes` episodes, however many are played."""

    def announced(task: Task, sibling: int) -> Agent:
        return make_agent(msgspec.structs.replace(task, episodes=episodes), sibling)

    return announced
