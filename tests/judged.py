"""Agents judged on splits whose answers are known."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mage.engines.scripted import ScriptedEngine, counter
from mage.evaluate.splits import Split, load_split
from mage.evaluate.suite import SplitReport, evaluation_tasks, judge
from mage.games.openspiel import load_game
from mage.players.policy import Guest
from mage.players.table import make_player
from mage.protocols import Agent, Seating
from mage.types import Memory, ReplyMode, Task
from tests.seated import WORLD, make_settings, seat_engine

SEVEN = load_split("rps-seven")
KUHN = load_split("kuhn-scripts")


def guest(spec: str) -> Seating:
    """Seats a player without a model."""

    def seat(task: Task, sibling: int) -> Agent:
        return Guest(make_player(spec, load_game(task.game), task.seat, task.seed), spec)

    return seat


def scripted(memory: Memory, reply: ReplyMode = ReplyMode.CHOICE) -> Seating:
    how = make_settings(memory=memory, reply=reply, reflection_tokens=200)
    return seat_engine(ScriptedEngine(counter), how)


def tasks_of(split: Split, trials: int, seats: Sequence[int] = (0,), seed: int = 7) -> list[Task]:
    return evaluation_tasks(split, episodes=3, seats=seats, trials=trials, seed=seed)


def judged(agent: Seating, control: Seating, split: Split, trials: int, seats: Sequence[int] = (0,)) -> SplitReport:
    return asyncio.run(judge(WORLD, agent, control, split, tasks_of(split, trials, seats)))
