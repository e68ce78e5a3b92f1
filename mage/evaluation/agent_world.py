"""Agents at one table: any agent may sit in any seat."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mage.errors import pick
from mage.protocols import Agent, AgentFactory, Env, Player, World
from mage.types import Task
from mage.worlds.openspiel.world import other_seats


class AgentWorld:
    """A world in which opponents are agents: a task names them, `seatings` bring them to the table."""

    def __init__(self, world: World, agent_factories: Mapping[str, AgentFactory]) -> None:
        self._world = world
        self._seatings = agent_factories

    def new_env(self, task: Task, episode: int) -> Env:
        return self._world.new_env(task, episode)

    def rules(self, task: Task) -> str:
        return self._world.rules(task)

    def opponents(self, task: Task) -> Mapping[int, Player]:
        return {
            seat: self._seated(name, task, seat) for seat, name in zip(other_seats(task), task.opponents, strict=True)
        }

    def _seated(self, name: str, task: Task, seat: int) -> Agent:
        return pick("agent", self._seatings, name)(msgspec.structs.replace(task, seat=seat), 0)


def with_announced_episodes(make_agent: AgentFactory, episodes: int) -> AgentFactory:
    """Seats agents for trials of `episodes` episodes, however many are then played."""

    def seat(task: Task, sibling: int) -> Agent:
        return make_agent(msgspec.structs.replace(task, episodes=episodes), sibling)

    return seat
