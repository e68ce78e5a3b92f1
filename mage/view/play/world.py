"""The world of a play session: makes the chosen players and reports all events to the session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from mage.protocols import Agent, AgentFactory, Env, Player, World
from mage.types import AgentInfo, Memory, Observation, Phase, Reply, Result, Task, Trial, Turn
from mage.view.play.seats import SeatChoice
from mage.view.play.session import PlaySession, SessionState
from mage.worlds.wrapped import WrappedWorld


class SessionWorld(WrappedWorld):
    """A `World` around another one, with the players of a session."""

    def __init__(self, world: World, session: PlaySession, agent_factories: Mapping[int, AgentFactory]) -> None:
        super().__init__(world)
        self._session = session
        self._factories = agent_factories
        """By seat; the person's is not among them."""
        self.agents: dict[int, Agent] = {}

    def new_env(self, task: Task, episode: int) -> Env:
        self._session.on_episode_begin(episode)
        return _ReportingEnv(super().new_env(task, episode), self._session)

    def opponent(self, spec: str, task: Task, seat: int) -> Player:
        return self._make_agent(task, seat)

    def make_agent(self, task: Task, sibling: int) -> Agent:
        """The `AgentFactory` of the task's own seat."""
        return self._make_agent(task, task.seat)

    def trials(self, trial: Trial) -> list[Trial]:
        """One trial for each seat with a memory; if none has one, the trial of the task's seat."""
        views = [self._seen_by(trial, seat) for seat in sorted(self.agents)]
        return [view for view in views if view.agent.memory is not None] or [trial]

    def _seen_by(self, trial: Trial, seat: int) -> Trial:
        agent, names = self.agents[seat], [choice.name for choice in self._session.seats]
        streams, overflows = agent.memory()
        task = msgspec.structs.replace(trial.task, seat=seat, opponents=tuple(names[:seat] + names[seat + 1 :]))
        notes = self._session.notes_of(seat)
        return Trial(task, 0, agent.info, trial.episodes, notes, streams, overflows)

    def _make_agent(self, task: Task, seat: int) -> Agent:
        choice = self._session.seats[seat]
        if choice.is_person:
            agent: Agent = _Person(self._session)
        else:
            agent = self._factories[seat](msgspec.structs.replace(task, seat=seat), 0)
        self.agents[seat] = _ReportingAgent(agent, choice, self._session)
        return self.agents[seat]


class _Person:
    """The person at the browser. It sees what an agent in its seat would see."""

    info = AgentInfo("person", Memory.BOTH, None)

    def __init__(self, session: PlaySession) -> None:
        self._session = session

    async def act(self, observation: Observation) -> Reply:
        return Reply(await self._session.ask(observation, SessionState.MOVE), "", ())

    async def reflect(self, outcome: Observation) -> Reply | None:
        note = await self._session.ask(outcome, SessionState.NOTE)
        return Reply(note, note, ()) if note else None

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()


class _ReportingAgent:
    """An agent whose moves and notes are reported to the session."""

    def __init__(self, agent: Agent, choice: SeatChoice, session: PlaySession) -> None:
        self.info = msgspec.structs.replace(agent.info, name=choice.name)
        self._agent = agent
        self._session = session

    async def act(self, observation: Observation) -> Reply:
        self._session.raise_if_left()
        await asyncio.sleep(self._session.pace_s)
        reply = await self._session.unless_left(self._agent.act(observation))
        self._session.on_move(observation, reply)
        return reply

    async def reflect(self, outcome: Observation) -> Reply | None:
        reply = await self._session.unless_left(self._agent.reflect(outcome))
        if reply is not None:
            self._session.on_note(Turn(Phase.REFLECT, outcome, reply.action, reply.text, reply.calls, 0.0))
        return reply

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return self._agent.memory()


class _ReportingEnv:
    """An environment whose results are reported to the session."""

    def __init__(self, env: Env, session: PlaySession) -> None:
        self._env = env
        self._session = session

    def to_move(self) -> int | None:
        return self._env.to_move()

    def observe(self, seat: int) -> Observation:
        return self._env.observe(seat)

    def step(self, action: str | None) -> tuple[float, ...]:
        return self._env.step(action)

    def result(self) -> Result:
        result = self._env.result()
        self._session.on_episode_end(result)
        return result
