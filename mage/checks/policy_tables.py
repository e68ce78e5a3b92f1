"""The contract of agents that can be asked what they would do, as a check. It raises AssertionError."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from math import sqrt

from mage.evaluation.exploitability.policy_table import InspectableAgent
from mage.types import Observation

_ERRORS = 5
"""How many standard errors what is drawn may be from what was foretold."""


def check_inspectable_agent(
    make: Callable[[], InspectableAgent],
    observations: Sequence[Observation],
    num_samples: int = 200,
    tolerance: float = 1e-4,
) -> None:
    """Asking changes nothing, copies go their own way, dictated moves are remembered, and odds come true.

    `observations` are a seat's own, of one episode, in an order in which it can meet them. `tolerance` is how far odds
    may differ when they are asked for again.
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
        assert max(gaps, default=0.0) <= tolerance, "asked again, it says something else"
        assert agent.memory() == before, "asking changes its memory"
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
            either.dictate(observation, action)
        assert agent.memory() == walked.memory(), "asked before or not, a dictated move leaves other memories"


def _check_odds(odds: Sequence[float], observation: Observation, counts: Counter[str | None]) -> None:
    assert len(odds) == len(observation.actions), "one probability for each action"
    assert all(share >= 0 for share in odds), "no probability is below 0"
    assert abs(sum(odds) - 1) < 1e-9, "probabilities sum to 1"
    num = counts.total()
    for action, share in zip(observation.actions, odds, strict=True):
        error = sqrt(max(share * (1 - share), 1 / num) / num)
        assert abs(counts[action] / num - share) <= _ERRORS * error, (
            f"{action!r} is taken more or less often than foretold"
        )
