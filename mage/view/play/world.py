"""The world of a sitting: it seats whoever was chosen, and tells the sitting all that happens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from mage.protocols import Agent, AgentFactory, Env, Player, World
from mage.types import AgentInfo, Memory, Observation, Phase, Reply, Result, Task, Trial, Turn
from mage.view.play.seats import SeatChoice
from mage.view.play.session import PlaySession, SessionState


class SessionWorld:
    """A `World` around another one."""

    def __init__(self, world: World, session: PlaySession, agent_factories: Mapping[int, AgentFactory]) -> None:
        self._world = world
        self._sitting = session
        self._seatings = agent_factories
        """By seat; the person's is not among them."""
        self.agents: dict[int, Agent] = {}

    def new_env(self, task: Task, episode: int) -> Env:
        self._sitting.entered(episode)
        return _Watched(self._world.new_env(task, episode), self._sitting)

    def rules(self, task: Task) -> str:
        return self._world.rules(task)

    def opponents(self, task: Task) -> Mapping[int, Player]:
        others = [seat for seat in range(len(self._sitting.sitters)) if seat != task.seat]
        return {seat: self._seated(task, seat) for seat in others}

    def seat(self, task: Task, sibling: int) -> Agent:
        """A `AgentFactory` for the task's own seat."""
        return self._seated(task, task.seat)

    def trials(self, trial: Trial) -> list[Trial]:
        """The trial as everybody lived it who keeps a memory; where nobody does, as the task's seat did."""
        views = [self._view(trial, seat) for seat in sorted(self.agents)]
        return [view for view in views if view.agent.memory is not None] or [trial]

    def _view(self, trial: Trial, seat: int) -> Trial:
        agent, names = self.agents[seat], [sitter.name for sitter in self._sitting.sitters]
        streams, overflows = agent.memory()
        task = msgspec.structs.replace(trial.task, seat=seat, opponents=tuple(names[:seat] + names[seat + 1 :]))
        notes = self._sitting.notes_of(seat)
        return Trial(task, 0, agent.info, trial.episodes, notes, streams, overflows)

    def _seated(self, task: Task, seat: int) -> Agent:
        sitter = self._sitting.sitters[seat]
        if sitter.is_person:
            agent: Agent = _Person(self._sitting)
        else:
            agent = self._seatings[seat](msgspec.structs.replace(task, seat=seat), 0)
        self.agents[seat] = _Seat(agent, sitter, self._sitting)
        return self.agents[seat]


class _Person:
    """Whoever sits at the browser. It sees what any agent in its seat would see."""

    info = AgentInfo("person", Memory.BOTH, None)

    def __init__(self, session: PlaySession) -> None:
        self._sitting = session

    async def act(self, observation: Observation) -> Reply:
        return Reply(await self._sitting.ask(observation, SessionState.MOVE), "", ())

    async def reflect(self, outcome: Observation) -> Reply | None:
        note = await self._sitting.ask(outcome, SessionState.NOTE)
        return Reply(note, note, ()) if note else None

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()


class _Seat:
    """Somebody at the table, whose every word the sitting hears."""

    def __init__(self, agent: Agent, sitter: SeatChoice, session: PlaySession) -> None:
        self.info = msgspec.structs.replace(agent.info, name=sitter.name)
        self._agent = agent
        self._sitting = session

    async def act(self, observation: Observation) -> Reply:
        self._sitting.refuse_leavers()
        await asyncio.sleep(self._sitting.pace_s)
        reply = await self._agent.act(observation)
        self._sitting.took(observation, reply)
        return reply

    async def reflect(self, outcome: Observation) -> Reply | None:
        reply = await self._agent.reflect(outcome)
        if reply is not None:
            self._sitting.wrote(Turn(Phase.REFLECT, outcome, reply.action, reply.text, reply.calls, 0.0))
        return reply

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return self._agent.memory()


class _Watched:
    """An episode whose end the sitting is told."""

    def __init__(self, env: Env, session: PlaySession) -> None:
        self._env = env
        self._sitting = session

    def to_move(self) -> int | None:
        return self._env.to_move()

    def observe(self, seat: int) -> Observation:
        return self._env.observe(seat)

    def step(self, action: str | None) -> tuple[float, ...]:
        return self._env.step(action)

    def result(self) -> Result:
        result = self._env.result()
        self._sitting.finished(result)
        return result
