"""Speed of Sokoban: rooms, moves and turns a second, with gym-sokoban's class beside it, and 1,000 trials at once.

    python benchmarks/sokoban_speed.py [--gym PYTHON]

PYTHON is an interpreter with gym-sokoban, in a virtual environment of its own: it is no dependency. Both are measured
in turn, five times; medians are printed. A move of ours has its observation made (text, possible actions, facts), one
of gym-sokoban its picture: one pixel a square, or sprites, its default.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
from collections import defaultdict
from functools import partial

from where import commit
from world_speed import peak_mb, random_episode, rate, trials_at_once

from mage.types import Task
from mage.worlds.registry import load_world
from mage.worlds.sokoban.generate import RoomWish, generate
from mage.worlds.sokoban.solve import solve

ROUNDS = 5
WORLD, SINGLE = "sokoban", "sokoban(moves=1,turns=21)"
GYM = """
import json, random, time, warnings
warnings.filterwarnings("ignore")
from gym_sokoban.envs.room_utils import generate_room
from gym_sokoban.envs.sokoban_env import SokobanEnv

def rate(work, seconds):
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        done += work()
    return done / (time.perf_counter() - start)

def room():
    try:
        generate_room(dim=(6, 6), num_steps=20, num_boxes=2)
    except (RuntimeError, RuntimeWarning):
        return 0
    return 1

env = SokobanEnv(dim_room=(6, 6), max_steps=21, num_boxes=2)
first = env.room_fixed.copy(), env.room_state.copy(), env.player_position.copy(), dict(env.box_mapping)

def episode(mode):
    env.room_fixed, env.room_state, env.player_position = (part.copy() for part in first[:3])
    env.box_mapping, env.num_env_steps, env.boxes_on_target = dict(first[3]), 0, 0
    for number in range(21):
        env.step(random.randrange(1, 5), observation_mode=mode)
    return 21

print(json.dumps({
    "gym-sokoban: rooms": rate(room, 1.0),
    "gym-sokoban: moves, one pixel a square": rate(lambda: episode("tiny_rgb_array"), 0.5),
    "gym-sokoban: moves, sprites": rate(lambda: episode("rgb_array"), 0.5),
}))
"""


def task(world: str, seed: int) -> Task:
    return Task(world, (), 0, seed, 3, False, False, 100)


def room(number: int, boxes: int) -> int:
    generate(RoomWish(6, 6, boxes, 5, 21), number)
    return 1


def solved(number: int) -> int:
    """Solve one of 500 rooms that were made before."""
    solve.cache_clear()
    made = ROOMS[number % len(ROOMS)]
    solve(made, made.player, made.boxes)
    return 1


ROOMS = [generate(RoomWish(6, 6, 2, 5, 21), seed) for seed in range(500)]


def ours() -> dict[str, float]:
    rates = {f"rooms with {boxes} boxes": rate(lambda n, boxes=boxes: room(n, boxes), 0.5) for boxes in (1, 2, 3, 4)}  # type: ignore[misc]
    return {
        **rates,
        "rooms with 2 boxes solved": rate(solved, 0.5),
        "moves, one a turn": rate(lambda number: random_episode(task(SINGLE, number % 500), number), 1.0),
        "turns of up to 3 moves": rate(lambda number: random_episode(task(WORLD, number % 500), number), 1.0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gym", metavar="PYTHON")
    gym = parser.parse_args().gym
    found: defaultdict[str, list[float]] = defaultdict(list)
    for seed in range(500):
        load_world(WORLD).new_env(task(WORLD, seed), 0)
        load_world(SINGLE).new_env(task(SINGLE, seed), 0)
    for _ in range(ROUNDS):
        rates = ours()
        if gym:
            ended = subprocess.run([gym, "-c", GYM], capture_output=True, text=True, check=True)
            rates |= json.loads(ended.stdout.splitlines()[-1])
        for name, value in rates.items():
            found[name].append(value)
    print(f"commit {commit()}; a second, median of {ROUNDS} (least to most)")
    for name, values in found.items():
        print(f"{name}: {statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})")
    before = peak_mb()
    seconds = asyncio.run(trials_at_once(partial(task, WORLD), 1000))
    memory = f"peak memory {peak_mb()} MB, of which {before} before"
    print(f"1,000 trials of 3 episodes at once, random moves: {seconds:.1f} s, {memory}")


if __name__ == "__main__":
    main()
