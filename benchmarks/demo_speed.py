"""The steps of `make demo` with one thread and with one for each core, in turn: python benchmarks/demo_speed.py

Prints medians over rounds of a step's play and update, in seconds of the clock and of the processor, and their ratios.
On a machine that is busy only the processor's seconds mean something; the load is printed with them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from mage.config.load import load_config
from mage.credit.dead_groups import split_dead, trained_groups
from mage.credit.running_stats import EMPTY
from mage.learners.local import LocalLearner
from mage.models.device import num_cores
from mage.training.loop import Collected, collect, to_batch
from mage.training.parts import build_parts
from mage.training.setup import Setup, set_up
from mage.types import Sample

Times = dict[str, list[tuple[float, float]]]


def timed(times: Times, name: str, work: Callable[[], object]) -> None:
    """Add the seconds that work takes, of the clock and of the processor."""
    wall, used = time.perf_counter(), time.process_time()
    work()
    times.setdefault(name, []).append((time.perf_counter() - wall, time.process_time() - used))


def played(setup: Setup) -> Collected:
    """One step's trials with their credit."""

    async def play() -> Collected:
        await setup.learners.prepare(0)
        return await collect(setup, 0, EMPTY)

    return asyncio.run(play())


def samples_of(setup: Setup) -> list[Sample]:
    """The samples of a step."""
    found = played(setup)
    live, dead = split_dead(found.advantages)
    trained = trained_groups(live, dead, setup.parts.config.batch.dead)
    return to_batch(found.groups, found.credited, found.advantages, trained)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds: int = parser.parse_args().rounds
    with TemporaryDirectory() as folder:
        setup = set_up(build_parts(load_config("rps")), Path(folder))
        parts, threads = setup.parts, num_cores()
        samples, times = samples_of(setup), Times()
        first = parts.learner
        assert isinstance(first, LocalLearner)
        learners = {
            num: LocalLearner(first.model, replace(first._settings, workers=num)) for num in dict.fromkeys((1, threads))
        }
        for _ in range(rounds):
            timed(times, "play", lambda: played(setup))
            for num, learner in learners.items():
                timed(times, f"update, {num} threads", lambda learner=learner: learner.update(samples))  # type: ignore[misc]
    num_tokens = sum(len(sample.tokens) for sample in samples)
    print(f"{threads} cores, load {os.getloadavg()[0]:.1f}, {rounds} rounds, {num_tokens} tokens")
    for name, seconds in times.items():
        wall, used = (median(column) for column in zip(*seconds, strict=True))
        print(f"{name:20} {wall:.3f} s, of the processor {used:.3f} s")
    one, all_ = (median(wall for wall, _ in times[f"update, {num} threads"]) for num in (1, threads))
    print(f"update, faster by {one / all_:.2f}")


if __name__ == "__main__":
    main()
