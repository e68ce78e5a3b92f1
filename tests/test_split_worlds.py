"""A run is evaluated on each split in the split's own world, in the words of that world."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mage.evaluation.splits import load_split
from mage.evaluation.suite.evaluate import evaluate_split, play_all
from mage.protocols import AgentFactory, World
from mage.rollout.group import Job
from mage.training import loop
from mage.types import Failure, Trial
from mage.worlds.registry import load_world
from tests.tiny import tiny_parts


def test_a_reworded_split_is_played_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    split = load_split("rps-reworded")
    parts = tiny_parts('evaluation.splits=["rps-reworded"]')
    assert split.world != parts.config.world
    trials: list[Trial] = []

    async def kept(arm: str, world: World, jobs: Sequence[Job], make_agent: AgentFactory) -> list[Trial | Failure]:
        outcomes = await play_all(arm, world, jobs, make_agent)
        trials.extend(outcome for outcome in outcomes if isinstance(outcome, Trial))
        return outcomes

    def with_trials_kept(*given: Any, play: Any) -> Any:
        return evaluate_split(*given, play=kept)

    monkeypatch.setattr(loop, "evaluate_split", with_trials_kept)
    asyncio.run(loop.evaluate(parts, 0, 1))
    own, trained = (load_world(world).new_env(trials[0].task, 0).observe(0) for world in (split.world, "rps(rounds=3)"))
    assert own.actions != trained.actions
    for trial in trials:
        assert trial.episodes[0].turns[0].observation.actions == own.actions
