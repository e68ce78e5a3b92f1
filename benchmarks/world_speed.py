"""What the speeds of worlds are measured with: rates, random play, many trials at once, and memory."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Callable

from mage.opponents.agent_seat import seat_agent
from mage.protocols import Agent, AgentFactory
from mage.rollout.group import play_trials
from mage.seeds import stream
from mage.types import Failure, Task
from mage.worlds.registry import load_world


def rate(work: Callable[[int], int], seconds: float) -> float:
    """What `work` counts, a second; it gets the number of the call."""
    done, calls, start = 0, 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        done += work(calls)
        calls += 1
    return done / (time.perf_counter() - start)


def per_s(play: Callable[[int, int], None], num_steps: int, seed: int) -> float:
    """Steps a second of a function that plays so many, with a seed."""
    started = time.perf_counter()
    play(num_steps, seed)
    return num_steps / (time.perf_counter() - started)


def drawn_per_s(task_of: Callable[[int], Task], num: int) -> float:
    """How many new tasks are drawn a second."""
    started = time.perf_counter()
    for seed in range(num):
        task = task_of(10**9 + seed)
        load_world(task.world).new_env(task, 0)
    return num / (time.perf_counter() - started)


def random_episode(task: Task, number: int) -> int:
    """One episode of random play; its turns."""
    env = load_world(task.world).new_env(task, 0)
    rng, turns = stream(number, "moves"), 0
    while env.to_move() is not None:
        actions = env.observe(0).actions
        env.step(actions[int(rng.random() * len(actions))])
        turns += 1
    return turns


async def trials_at_once(task_of: Callable[[int], Task], num: int, make: AgentFactory | None = None) -> float:
    """Seconds of so many trials at once, of random play or of the given agents."""
    world = load_world(task_of(0).world)

    def seat_uniform(task: Task, sibling: int) -> Agent:
        return seat_agent(world, "uniform", task)

    started = time.perf_counter()
    jobs = [(task_of(seed), 0) for seed in range(num)]
    async for trial in play_trials(world, jobs, make or seat_uniform, concurrency=num):
        if isinstance(trial, Failure):
            raise SystemExit(f"a trial failed: {trial.error}: {trial.message}")
    return time.perf_counter() - started


def peak_mb() -> int:
    """The most memory that this process has had."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10))


def this_machine() -> str:
    """What it ran on."""
    python = platform.python_version()
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {python}"
