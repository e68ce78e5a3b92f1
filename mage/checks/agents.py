"""Contract check for agents; raises AssertionError with the broken rule."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

from mage.protocols import Agent, AgentFactory, World
from mage.rollout.trial import play_trial
from mage.types import AgentInfo, Call, Observation, Reply, Task, Trial
from mage.worlds.registry import load_world

_Memory = tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]


def check_agent(make_agent: AgentFactory, tasks: Sequence[Task], world: World | None = None) -> None:
    """Play whole trials: replies are legal, streams only grow and hold every call, and equal jobs give equal trials.

    For agents whose replies depend on task, sibling and observations alone, so not for people and remote models.
    """
    for task in tasks:
        first, again = (asyncio.run(_checked(make_agent, task, world or load_world(task.world))) for _ in range(2))
        assert _comparable(first) == _comparable(again), "the same task and sibling give another trial"


def _comparable(trial: Trial) -> tuple[object, ...]:
    """All of a trial but log-probabilities, which may differ by rounding with prefix caching."""
    turns = [turn for episode in trial.episodes for turn in episode.turns] + list(trial.reflections)
    said = [(turn.phase, turn.observation, turn.action, turn.text, turn.reward) for turn in turns]
    return trial.agent, trial.scores, said, trial.streams, trial.overflows


async def _checked(make_agent: AgentFactory, task: Task, world: World) -> Trial:
    recorded: list[_RecordingAgent] = []

    def seat(task: Task, sibling: int) -> Agent:
        recorded.append(_RecordingAgent(make_agent(task, sibling)))
        return recorded[-1]

    trial = await play_trial(world, task, 0, seat)
    (agent,) = recorded
    _check_calls(trial.streams, agent.calls)
    for (before, _), (after, _) in pairwise([*agent.memories, (trial.streams, trial.overflows)]):
        assert len(before) <= len(after), "a stream is gone"
        for stream, (old, new) in enumerate(zip(before, after, strict=False)):
            assert new[: len(old)] == old, f"stream {stream} has changed where it could only grow"
    overflows = list(trial.overflows)
    assert overflows == sorted(set(overflows)), "an episode is named once, in order, where the context was full"
    assert set(overflows) <= set(range(len(trial.episodes))), "the context was full in an episode that was not played"
    return trial


def _check_calls(streams: Sequence[tuple[int, ...]], calls: Sequence[Call]) -> None:
    """Every call is in its stream as sampled, after the calls before it."""
    ends: dict[int, int] = {}
    for call in calls:
        tokens, end = call.completion.tokens, call.start + len(call.completion.tokens)
        assert call.stream < len(streams), f"a call points into stream {call.stream} of {len(streams)}"
        assert streams[call.stream][call.start : end] == tokens, "a call is not where its stream and start say"
        assert call.start > ends.get(call.stream, 0), "a call has no prompt between it and the one before"
        ends[call.stream] = end
    assert sorted(ends) == list(range(len(streams))), "nothing was sampled in a stream"


class _RecordingAgent:
    """Wraps an agent: checks its replies, and records its calls and memory."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.calls: list[Call] = []
        self.memories: list[_Memory] = []

    @property
    def info(self) -> AgentInfo:
        return self._agent.info

    async def act(self, observation: Observation) -> Reply:
        reply = await self._agent.act(observation)
        is_open = not observation.actions
        is_legal = reply.action is None or is_open or reply.action in observation.actions
        assert is_legal, f"{reply.action!r} is not a legal action"
        problems = [call.problem for call in reply.calls]
        assert reply.action is not None or not problems or problems[-1] is not None, "a forfeit without a problem"
        self._record(reply)
        return reply

    async def reflect(self, outcome: Observation) -> Reply | None:
        reply = await self._agent.reflect(outcome)
        assert reply is None or reply.action is not None, "a reflection is a text, if only an empty one"
        self._record(reply)
        return reply

    def memory(self) -> _Memory:
        assert self._agent.memory() == self._agent.memory(), "reading the memory changes it"
        return self._agent.memory()

    def _record(self, reply: Reply | None) -> None:
        self.calls += reply.calls if reply else ()
        self.memories.append(self.memory())
