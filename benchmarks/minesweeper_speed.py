"""How fast MineSweeper is: steps of random play beside gem-llm's, boards a second, and many trials at once.

    python benchmarks/minesweeper_speed.py [--steps 20000] [--rounds 5] [--gem FOLDER]

Prints one JSON object. Ours and gem-llm's take turns, where its package is given (`pip install --no-deps gem-llm`), on
boards of 6 by 6 cells with 3 mines and 7 turns; every step has its text. Episodes are on new boards, and once more with
three of ours on each, as in trials. Figures are medians over the rounds. The last figure is the peak memory of this
process after a thousand concurrent trials of a scripted model with reflections.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import random
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType

from where import commit
from world_speed import drawn_per_s, peak_mb, per_s, this_machine, trials_at_once

from mage.agents.briefing import briefing_of
from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, LanguageAgent
from mage.engines.scripted import ScriptedEngine, first
from mage.protocols import Agent
from mage.types import Memory, ReplyMode, Task
from mage.worlds.registry import load_world

SPEC = "minesweeper"
WORLD = load_world(SPEC)


def task_of(seed: int, spec: str = SPEC) -> Task:
    return Task(spec, (), 0, seed, 3, False, False, 1000)


def play_ours(num_steps: int, seed: int, episodes: int = 1) -> None:
    """Random play, with so many episodes on each board."""
    rng, done = random.Random(seed), 0
    while done < num_steps:
        task = task_of(rng.getrandbits(60))
        for episode in range(episodes):
            env = WORLD.new_env(task, episode)
            while env.to_move() is not None:
                env.step(rng.choice(env.observe(0).actions))
                done += 1
            env.result()


def import_gem(folder: Path) -> None:
    """Import gem-llm's MineSweeper without what its packages import, such as servers and other games."""
    for name in ("gem", "gem.envs", "gem.envs.game_env"):
        package = ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    importlib.import_module("gem.envs.game_env.minesweeper")


def play_gem(num_steps: int, seed: int) -> None:
    """The same in gem-llm's environment, whose first cell is always safe."""
    made = sys.modules["gem.envs.game_env.minesweeper"].MinesweeperEnv(6, 6, 3, 7)
    rng, done = random.Random(seed), 0
    while done < num_steps:
        made.reset(rng.getrandbits(30))
        is_over = False
        while not is_over:
            closed = [(r, c) for r in range(6) for c in range(6) if not made.revealed[r][c]]
            row, column = rng.choice(closed)
            _, _, terminated, truncated, _ = made.step(f"\\boxed{{reveal {row} {column}}}")
            is_over = terminated or truncated
            done += 1


def seat_model(task: Task, sibling: int) -> Agent:
    """A scripted model with everything in memory."""
    how = AgentSettings("first", Memory.BOTH, ReplyMode.CHOICE, 1.0, 100, 60, retries=1, context=8192)
    return LanguageAgent(ScriptedEngine(first), ByteFormat(), how, briefing_of(WORLD, task), task, sibling)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000, help="steps a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gem", type=Path, help="the folder of gem-llm's package `gem`")
    chosen = parser.parse_args(arguments)
    ways: dict[str, Callable[[int, int], None]] = {
        "ours": play_ours,
        "ours, three episodes on a board": partial(play_ours, episodes=3),
    }
    if chosen.gem:
        import_gem(chosen.gem)
        ways["gem-llm"] = play_gem
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(chosen.rounds):
        for name, play in ways.items():
            speeds[name].append(per_s(play, chosen.steps, number))
    medians = {name: median(found) for name, found in speeds.items()}
    seconds = asyncio.run(trials_at_once(task_of, 1000, seat_model))
    guess_free = partial(task_of, spec="minesweeper(start=guess-free)")
    report = {
        "world": SPEC,
        "steps_per_s": {name: round(figure) for name, figure in medians.items()},
        "ratio": round(medians["ours"] / medians["gem-llm"], 2) if "gem-llm" in medians else None,
        "boards_per_s": round(drawn_per_s(task_of, 2000)),
        "guess_free_boards_per_s": round(drawn_per_s(guess_free, 300)),
        "concurrent_trials": {"trials": 1000, "seconds": round(seconds, 1), "peak_memory_mb": peak_mb()},
        "machine": this_machine(),
        "commit": commit(),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
