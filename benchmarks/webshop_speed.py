"""Speed of WebShop: the catalogue, queries and turns a second, 1,000 trials at once; tokens of a trial with --tokens.

    python benchmarks/webshop_speed.py [--tokens]

A turn has its observation made: text, actions, facts. Tokens are SmolLM2's, in `choice` with memory `history`.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from where import commit
from world_speed import peak_mb, random_episode, rate, trials_at_once

from mage.agents.briefing import briefing_of
from mage.agents.language import AgentSettings, LanguageAgent
from mage.models.load import load_model
from mage.opponents.agent_seat import seat_agent
from mage.protocols import Agent, Sampling
from mage.rollout.trial import play_trial
from mage.types import Completion, Memory, Observation, Reply, ReplyMode, Task
from mage.worlds.registry import load_world
from mage.worlds.webshop.generate import generated
from mage.worlds.webshop.search import Search

ROUNDS = 5
WORLD = "webshop"
SIZES = (5040, 20160)
NUM_TRIALS = 200
"""Trials whose tokens are counted."""


def task(world: str, seed: int) -> Task:
    return Task(world, (), 0, seed, 3, False, False, 100, str(seed % 1000))


def episode(number: int) -> int:
    return random_episode(task(WORLD, number), number)


def measure_search(size: int) -> None:
    """Print what it takes to make a catalogue of this size and to search it."""
    start = time.perf_counter()
    catalogue = generated(size, 0)
    made = time.perf_counter()
    search = Search(catalogue.products)
    indexed = time.perf_counter()
    queries = [query for goal in catalogue.goals for query in goal.queries]

    def find(number: int) -> int:
        search.find.__wrapped__(queries[number % len(queries)])
        return 1

    rates = [rate(find, 0.5) for _ in range(ROUNDS)]
    print(
        f"{size:,} products: made with 1,000 goals in {made - start:.1f} s, indexed in {indexed - made:.1f} s, "
        f"{statistics.median(rates):,.0f} new queries a second ({min(rates):,.0f} to {max(rates):,.0f})"
    )


class Dictated:
    """An engine that answers what it was told to, and an agent that tells it what a player does."""

    def __init__(self, player: Agent, loaded: Any, world: str, task: Task) -> None:
        how = AgentSettings("", Memory.HISTORY, ReplyMode.CHOICE, 1.0, 100, 60, retries=0, context=1 << 20)
        briefing = briefing_of(load_world(world), task)
        self._player = player
        self._agent = LanguageAgent(self, loaded.chat_format, how, briefing, task, 0)
        self._index = 0
        self.info, self.memory = self._agent.info, self._agent.memory

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        assert choices is not None
        tokens = tuple(choices[self._index])
        return Completion(tokens, (0.0,) * len(tokens), ((),) * len(tokens), 0, False)

    async def act(self, observation: Observation) -> Reply:
        action = (await self._player.act(observation)).action
        assert action is not None
        self._index = observation.actions.index(action)
        return await self._agent.act(observation)

    async def reflect(self, outcome: Observation) -> Reply | None:
        await self._player.reflect(outcome)
        return await self._agent.reflect(outcome)


def measure_tokens(world: str, player: str, loaded: Any) -> None:
    """Print how long the trials of a player are."""

    def make(task: Task, sibling: int) -> Agent:
        return Dictated(seat_agent(load_world(world), player, task), loaded, world, task)

    played = [asyncio.run(play_trial(load_world(world), task(world, seed), 0, make)) for seed in range(NUM_TRIALS)]
    lengths = sorted(sum(map(len, trial.streams)) for trial in played)
    done = statistics.mean(trial.episodes[-1].result.is_success(0) for trial in played)
    middle = statistics.median(lengths)
    print(f"{world}, {player}: {middle:,.0f} tokens a trial, most {lengths[-1]:,}; last episode {done:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", action="store_true")
    args = parser.parse_args()
    print(f"commit {commit()}")
    if args.tokens:
        loaded = load_model("smollm2")
        for turns in (12, 8, 6):
            for player in ("uniform", "learns-from-failure", "expert"):
                measure_tokens(WORLD if turns == 12 else f"{WORLD}(turns={turns})", player, loaded)
        return
    for size in SIZES:
        measure_search(size)
    for number in range(1000):
        episode(number)
    rates = [rate(episode, 1.0) for _ in range(ROUNDS)]
    print(f"random turns a second: {statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})")
    before = peak_mb()
    seconds = asyncio.run(trials_at_once(partial(task, WORLD), 1000))
    memory = f"peak memory {peak_mb()} MB, of which {before} before"
    print(f"1,000 trials of 3 episodes at once, random play: {seconds:.1f} s, {memory}")


if __name__ == "__main__":
    main()
