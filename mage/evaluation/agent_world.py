"""A world whose opponents are agents, so that any agent can play in any seat."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mage.errors import pick
from mage.protocols import Agent, AgentFactory, Env, Player, World
from mage.types import Task
from mage.worlds.openspiel.world import other_seats


class AgentWorld:
    """Wraps a world: the opponents that a task names are made by `agent_factories`."""

    def __init__(self, world: World, agent_factories: Mapping[str, AgentFactory]) -> None:
        self._world = world
        self._agent_factories = agent_factories

    def new_env(self, task: Task, episode: int) -> Env:
        return self._world.new_env(task, episode)

    def rules(self, task: Task) -> str:
        return self._world.rules(task)

    def opponents(self, task: Task) -> Mapping[int, Player]:
        return {
            seat: self._make_agent(name, task, seat)
            for seat, name in zip(other_seats(task), task.opponents, strict=True)
        }

    def _make_agent(self, name: str, task: Task, seat: int) -> Agent:
        return pick("agent", self._agent_factories, name)(msgspec.structs.replace(task, seat=seat), 0)


def with_announced_episodes(make_agent: AgentFactory, episodes: int) -> AgentFactory:
    """A factory whose agents are told that the trial has `episodes` episodes, however many are played."""

    def announced(task: Task, sibling: int) -> Agent:
        return make_agent(msgspec.structs.replace(task, episodes=episodes), sibling)

    return announced
