"""Twelve episodes cost at most four times what three cost: tokens are counted, not seconds."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from mage.engines.local.server import LocalPolicyServer
from mage.training.parts import Parts
from mage.types import Group
from tests.tiny import evaluated, tiny_parts

LIMIT = 4.05


class Cost(NamedTuple):
    """Tokens of a few trials."""

    alone: int
    """Through the engine, each trial by itself."""
    together: int
    """Through the engine, trials at once: what siblings have in common is read once."""
    learner: float
    streams: int
    """What the streams hold."""


async def played(parts: Parts) -> tuple[list[Group], int, int]:
    """The groups, and what the engine read and sampled for them: trial by trial, and all at once."""
    tasks = parts.tasks(2, "tasks")
    await parts.publish(0)
    for task in tasks:
        parts.server.reset_cache()
        await parts.play([task], 1)
    alone = through(parts)
    parts.server.reset_cache()
    groups = await parts.play(tasks, 4)
    return groups, alone, through(parts) - alone


def through(parts: Parts) -> int:
    """Tokens read and sampled so far."""
    assert isinstance(parts.server, LocalPolicyServer)
    counted = parts.server.counters()
    return counted["read"] + counted["sampled"]


def cost(episodes: int, game: str) -> Cost:
    parts = tiny_parts(
        f"world={game}",
        f"trial.episodes={episodes}",
        "agent.memory=history",
        "agent.reply=choice",
        'population.members=["uniform"]',
        "agent.model=nano(hidden=16,layers=1,heads=2,context=2048)",
        "agent.context=2048",
    )
    groups, alone, together = asyncio.run(played(parts))
    trials = [trial for group in groups for trial in group.trials]
    assert len(trials) == 8
    assert not [trial for trial in trials if trial.overflows or len(trial.episodes) != episodes]
    assert all(len(trial.streams) == 1 for trial in trials), "history only ever grows"
    report = parts.learner.update(evaluated(parts, groups))
    return Cost(alone, together, report["learner/tokens"], sum(len(trial.streams[0]) for trial in trials))


@pytest.mark.parametrize("game", ["rps(rounds=3)", "pd(rounds=2)"])
def test_twelve_episodes_cost_at_most_four_times_what_three_cost(game: str) -> None:
    """Trials are counted alone: what siblings share saves the most where episodes are few, which is no growth."""
    three, twelve = cost(3, game), cost(12, game)
    assert 2.0 < twelve.alone / three.alone <= LIMIT
    assert 2.0 < twelve.learner / three.learner <= LIMIT
    for found in (three, twelve):
        assert found.learner <= found.streams, "the learner reads every stream once"
        assert found.together < 4 * found.alone, "siblings share what they have in common"
