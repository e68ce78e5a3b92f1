"""Play one episode: players act in turn until it is over."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

import msgspec

from mage.answers import number
from mage.protocols import Env, Player
from mage.types import Episode, Observation, Phase, Reply, Result, Turn


async def play_episode(env: Env, players: Mapping[int, Player]) -> Episode:
    """Play `env` to its end. A turn's reward is what its seat gains until its next turn, or the end.

    The rewards of a seat sum to its return, however the episode ended.
    """
    decisions: list[tuple[Observation, Reply]] = []
    rewards: list[float] = []
    latest: dict[int, int] = {}
    settled: dict[int, float] = {}
    while (seat := env.to_move()) is not None:
        observation = env.observe(seat)
        reply = await players[seat].act(observation)
        settled[seat] = settled[seat] + rewards[latest[seat]] if seat in latest else 0.0
        latest[seat] = len(decisions)
        decisions.append((observation, reply))
        rewards.append(0.0)
        gains = env.step(reply.action)
        for mover, index in latest.items():
            rewards[index] += gains[mover]
    result = _readable(env, env.result())
    for mover, index in latest.items():
        rewards[index] = result.returns[mover] - settled[mover]
    turns = [
        Turn(Phase.PLAY, observation, reply.action, reply.text, reply.calls, reward)
        for (observation, reply), reward in zip(decisions, rewards, strict=True)
    ]
    return Episode(tuple(turns), result)


def _readable(env: Env, result: Result) -> Result:
    """The result with numbers that read back from a transcript."""
    if all(type(score) is float and isfinite(score) for score in result.returns):
        return result
    scores = tuple(number(type(env).__name__, "result", score, "the score ") for score in result.returns)
    return msgspec.structs.replace(result, returns=scores)
