"""How fast trials are played: Kuhn poker through the whole machinery against OpenSpiel alone.

    python benchmarks/play_speed.py [--games 30000] [--rounds 5]

Prints one JSON object. Bare games, trials, and trials that are written down take turns, so that a busy machine
slows all alike; the figures are medians over the rounds. The last figure is the peak memory of this process
after a thousand concurrent trials with reflections.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import pyspiel
from where import commit
from world_speed import peak_mb, this_machine

from mage.agents.briefing import briefing_of
from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, LanguageAgent
from mage.engines.scripted import ScriptedEngine, first
from mage.opponents.agent_seat import seat_agent
from mage.protocols import Agent, AgentFactory
from mage.rollout.group import play_trials
from mage.runs.store import RunWriter
from mage.types import Failure, Memory, ReplyMode, Task, Trial
from mage.worlds.registry import load_world

GAME = "kuhn_poker"
EPISODES = 3
WORLD = load_world(GAME)


def play_bare(num_games: int) -> None:
    """Random play with nothing around OpenSpiel."""
    game = pyspiel.load_game(GAME)
    rng = random.Random(0)
    for _ in range(num_games):
        state = game.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                outcomes, odds = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(rng.choices(outcomes, odds)[0])
            else:
                state.apply_action(rng.choice(state.legal_actions()))
        state.returns()


async def play_all(num_games: int, make_agent: AgentFactory, keep: Callable[[Trial], object]) -> None:
    """Trials between two seats, a thousand at a time."""
    tasks = [Task(GAME, ("uniform",), i % 2, i, EPISODES, False, False, 1000) for i in range(num_games // EPISODES)]
    async for trial in play_trials(WORLD, [(task, 0) for task in tasks], make_agent):
        if isinstance(trial, Failure):
            raise SystemExit(f"a trial failed: {trial.error}: {trial.message}")
        keep(trial)


def seat_uniform(task: Task, sibling: int) -> Agent:
    """A random player in the agent's seat."""
    return seat_agent(WORLD, "uniform", task)


def seat_model(task: Task, sibling: int) -> Agent:
    """A scripted model with everything in memory."""
    how = AgentSettings("first", Memory.BOTH, ReplyMode.CHOICE, 1.0, 100, 60, retries=1, context=4096)
    return LanguageAgent(ScriptedEngine(first), ByteFormat(), how, briefing_of(WORLD, task), task, sibling)


def play_written(num_games: int) -> None:
    """The same trials, written to a run directory."""
    with tempfile.TemporaryDirectory() as folder:
        writer = RunWriter.create(Path(folder) / "run", kind="benchmark", config={}, seed=0)
        asyncio.run(play_all(num_games, seat_uniform, writer.append))
        writer.close()


def games_per_s(play: Callable[[int], None], num_games: int) -> float:
    started = time.perf_counter()
    play(num_games)
    return num_games / (time.perf_counter() - started)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=30_000, help="games a round")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    ways: dict[str, Callable[[int], None]] = {
        "bare": play_bare,
        "trials": lambda num_games: asyncio.run(play_all(num_games, seat_uniform, id)),
        "written": play_written,
    }
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(chosen.rounds):
        for name, play in ways.items():
            speeds[name].append(games_per_s(play, chosen.games))
    asyncio.run(play_all(1000 * EPISODES, seat_model, id))
    medians = {name: median(metrics) for name, metrics in speeds.items()}
    report = {
        "world": GAME,
        "games_per_s": {name: round(figure) for name, figure in medians.items()},
        "ratio_trials": round(medians["trials"] / medians["bare"], 3),
        "ratio_written": round(medians["written"] / medians["bare"], 3),
        "peak_memory_mb": peak_mb(),
        "machine": this_machine(),
        "commit": commit(),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
