"""How fast ALFWorld is: steps of random play beside the package `alfworld`, games a second, and many trials at once.

    python benchmarks/alfworld_speed.py [--steps 20000] [--rounds 5] [--package-steps 60]

Prints one JSON object. Where the package is installed, both play the same games, written in its format with full
rooms, and take turns; a step is a command, its answer and the list of possible commands. "Engine" is that and no more;
"episodes" are played through the world as in training, with observations that also hold facts and keys. Figures are
medians over the rounds. The peak memory is that of this process after a thousand concurrent trials of three episodes
of random play, before the package is imported.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from where import commit
from world_speed import drawn_per_s, peak_mb, per_s, this_machine, trials_at_once

from mage.types import Task
from mage.worlds.alfworld.generate import Size
from mage.worlds.alfworld.house_words import HouseWords
from mage.worlds.alfworld.rules import after, start_of
from mage.worlds.alfworld.world import AlfWorld
from mage.worlds.registry import load_world

GAMES = ["bedroom-3:pick:1", "livingroom-2:look:4", "bathroom-5:clean:2", "kitchen-7:heat:9", "kitchen-26:cool:3"]
SPEC = "alfworld(turns=30)"
SMALL = "alfworld(size=small,turns=10)"
NUM_GAMES = 300
"""Games that episodes come back to, as siblings and the episodes of a trial do; they are drawn before."""


def task_of(spec: str, seed: int) -> Task:
    return Task(spec, (), 0, seed, 3, False, False, 1000)


def play_engine(spec: str, num_steps: int, seed: int) -> None:
    """Random play of our engine alone: commands, answers and lists of commands."""
    world, words, rng, done = load_world(spec), HouseWords(None), random.Random(seed), 0
    assert isinstance(world, AlfWorld)
    while done < num_steps:
        game = world.draw(task_of(spec, rng.randrange(NUM_GAMES)))
        position = start_of(game)
        for _ in range(min(30, num_steps - done)):
            commands = words.commands(game, position)
            position = after(game, position, commands[rng.choice(list(commands))])
            words.told(game, position)
            done += 1


def play_episodes(spec: str, num_steps: int, seed: int) -> None:
    """Random play through the world."""
    world, rng, done = load_world(spec), random.Random(seed), 0
    while done < num_steps:
        env = world.new_env(task_of(spec, rng.randrange(NUM_GAMES)), 0)
        while env.to_move() is not None and done < num_steps:
            env.step(rng.choice(env.observe(0).actions))
            done += 1


def beside_package(folder: str, num_steps: int, num_package: int, rounds: int) -> dict[str, float]:
    """Steps a second on the package's games: of our engine, of our episodes, of its step and of its episodes."""
    own, package = (f'alfworld(games="{folder}",turns=30,engine={engine})' for engine in ("own", "package"))
    found: dict[str, list[float]] = {name: [] for name in ("engine", "episodes", "package step", "package reset")}
    for number in range(rounds):
        found["engine"].append(per_s(partial(play_engine, own), num_steps, number))
        found["episodes"].append(per_s(partial(play_episodes, own), num_steps, number))
        world, rng = load_world(package), random.Random(number)
        started = time.perf_counter()
        env = world.new_env(task_of(package, number), 0)
        found["package reset"].append(1 / (time.perf_counter() - started))
        started = time.perf_counter()
        for _ in range(num_package):
            if env.to_move() is None:
                break
            env.step(rng.choice(env.observe(0).actions))
        found["package step"].append(env.observe(0).turn / (time.perf_counter() - started))
    return {name: median(figures) for name, figures in found.items()}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000, help="steps a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--package-steps", type=int, default=30, help="steps a round of the package, in one episode")
    chosen = parser.parse_args(arguments)
    before = peak_mb()
    seconds = asyncio.run(trials_at_once(partial(task_of, SPEC), 1000))
    concurrent = {"trials": 1000, "seconds": round(seconds, 1), "peak_memory_mb": peak_mb(), "before_mb": before}
    for seed in range(NUM_GAMES):
        load_world(SPEC).new_env(task_of(SPEC, seed), 0)
    ways = {"engine": partial(play_engine, SPEC), "episodes": partial(play_episodes, SPEC)}
    speeds = {
        name: round(median(per_s(play, chosen.steps, number) for number in range(chosen.rounds)))
        for name, play in ways.items()
    }
    report = {
        "world": SPEC,
        "steps_per_s": speeds,
        "games_per_s": {spec: round(drawn_per_s(partial(task_of, spec), 500)) for spec in (SPEC, SMALL)},
        "concurrent_trials": concurrent,
    }
    if find_spec("alfworld") and find_spec("textworld"):
        sys.path.append(str(Path(__file__).parents[1]))  # games are written by a helper of the tests
        from tests.alfworld_made import write_games

        with tempfile.TemporaryDirectory() as folder:
            write_games(Path(folder), GAMES, at_one_place=2, size=Size.FULL)
            found = beside_package(folder, chosen.steps, chosen.package_steps, chosen.rounds)
        report["on_games_of_the_package_per_s"] = {name: round(figure, 1) for name, figure in found.items()}
        report["times_faster"] = {name: round(found[name] / found["package step"]) for name in ("engine", "episodes")}
    report["machine"] = this_machine()
    report["commit"] = commit()
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
