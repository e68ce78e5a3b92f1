"""Agents judged on splits whose answers are known."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mage.engines.scripted import ScriptedEngine, counter
from mage.evaluation.splits import Split, load_split
from mage.evaluation.suite.evaluate import SplitReport, evaluate_split, evaluation_tasks
from mage.opponents.policy import PolicyAgent
from mage.opponents.registry import make_player
from mage.protocols import Agent, AgentFactory
from mage.types import Memory, ReplyMode, Task
from mage.worlds.openspiel.game import load_game
from mage.worlds.registry import load_world
from tests.seated import make_settings, seat_engine

SEVEN = load_split("rps-seven")
KUHN = load_split("kuhn-scripts")


def policy_agent(spec: str) -> AgentFactory:
    """Seats a player without a model."""

    def seat(task: Task, sibling: int) -> Agent:
        return PolicyAgent(make_player(spec, load_game(task.world), task.seat, task.seed), spec)

    return seat


def scripted(memory: Memory, reply: ReplyMode = ReplyMode.CHOICE) -> AgentFactory:
    how = make_settings(memory=memory, reply=reply, reflection_tokens=200)
    return seat_engine(ScriptedEngine(counter), how)


def tasks_of(split: Split, trials: int, seats: Sequence[int] = (0,), seed: int = 7) -> list[Task]:
    return evaluation_tasks(split, episodes=3, seats=seats, trials=trials, seed=seed)


def evaluated(
    agent: AgentFactory, control: AgentFactory, split: Split, trials: int, seats: Sequence[int] = (0,)
) -> SplitReport:
    return asyncio.run(evaluate_split(load_world(split.world), agent, control, split, tasks_of(split, trials, seats)))
