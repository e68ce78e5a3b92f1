"""Contract check for agents with readable action probabilities; raises AssertionError with the broken rule."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from math import sqrt

from mage.evaluation.exploitability.policy_table import InspectableAgent
from mage.types import Observation

_ERRORS = 5
"""Allowed difference of sampled frequencies from the stated probabilities, in standard errors."""


def check_inspectable_agent(
    make: Callable[[], InspectableAgent],
    observations: Sequence[Observation],
    num_samples: int = 200,
    tolerance: float = 1e-4,
) -> None:
    """Reading changes nothing, forks are independent, dictated moves are remembered, and probabilities match samples.

    `observations` are a seat's own, of one episode, in a possible order. `tolerance` bounds the difference of
    probabilities that are read twice.
    """
    asyncio.run(_check(make, observations, num_samples, tolerance))


async def _check(
    make: Callable[[], InspectableAgent], observations: Sequence[Observation], num_samples: int, tolerance: float
) -> None:
    agent, walked = make(), make()
    for observation in observations:
        before = agent.memory()
        odds = await agent.odds(observation)
        again = await agent.odds(observation)
        gaps = [abs(a - b) for a, b in zip(odds or (), again or (), strict=True)]
        assert max(gaps, default=0.0) <= tolerance, "a second reading gives other probabilities"
        assert agent.memory() == before, "reading changes the memory"
        counts: Counter[str | None] = Counter()
        for number in range(num_samples if odds is not None else 2):
            copies = agent.fork(number), agent.fork(number)
            assert all(copy.memory() == before for copy in copies), "a copy remembers something else"
            one, other = [await copy.act(observation) for copy in copies]
            assert (one.action, one.text) == (other.action, other.text), "two copies of one number answer differently"
            counts[one.action] += 1
        assert agent.memory() == before, "what a copy does changes the memory of the agent"
        if odds is not None:
            _check_odds(odds, observation, counts)
        action = observation.actions[0]
        for either in (agent, walked):
            either.force_action(observation, action)
        assert agent.memory() == walked.memory(), "reading before a dictated move changes the memory"


def _check_odds(odds: Sequence[float], observation: Observation, counts: Counter[str | None]) -> None:
    assert len(odds) == len(observation.actions), "one probability for each action"
    assert all(share >= 0 for share in odds), "no probability is below 0"
    assert abs(sum(odds) - 1) < 1e-9, "probabilities sum to 1"
    num = counts.total()
    for action, share in zip(observation.actions, odds, strict=True):
        error = sqrt(max(share * (1 - share), 1 / num) / num)
        assert abs(counts[action] / num - share) <= _ERRORS * error, (
            f"{action!r} is sampled more or less often than its probability says"
        )
