"""All training methods side by side: one command that can be killed and given again.

python benchmarks/methods.py rps kuhn             on a CPU, three seeds; two processes where there are two cores
python benchmarks/methods.py rps-cost tokens=8000000 steps=1000    what a level costs: three methods, room to reach it
python benchmarks/methods.py rps-league           a league beside one agent and the same scripts; kuhn-league likewise
python benchmarks/methods.py rps-llm kuhn-llm     on a GPU, with smollm2; two at a time, so --minutes may be more

Each arm of a set is a sweep under runs/methods/SET (or --out DIR), and a comparison of them stands beside.
KEY=VALUE overrides go for all arms.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

MAGE = (sys.executable, "-c", "from mage.cli import main; main()")


class Set(NamedTuple):
    """Arms that are compared with each other: each is named, and is a recipe with overrides."""

    arms: dict[str, str]
    minutes: float
    """Most training time of one run."""
    seeds: int = 3


LESS = {
    "mage-no-scaling": "rps-base+mage credit.options.scale=none",
    "mage-no-last-episode": "rps-base+mage credit.objective=cumulative credit.to_go=false",
    "mage-no-population": "rps-base+mage population.split=rps-seven",
    "mage-no-reflections": "rps-base+mage agent.memory=history",
    "mage-no-history": "rps-base+mage agent.memory=reflections",
    "mage-as-published": "rps-base+mage credit.to_go=false",
}
"""MAGE less one thing at a time."""


def with_methods(base: str, *methods: str) -> dict[str, str]:
    """Each method on top of one recipe.

    >>> with_methods("rps-base", "grpo")
    {'grpo': 'rps-base+grpo'}
    """
    return {method: f"{base}+{method}" for method in methods}


def with_controls(league: str) -> dict[str, str]:
    """A league, one agent in its place, and the league without agent-specific normalisation."""
    return {
        "league": league,
        "league-fixed": f"{league} league.learners=0",
        "league-no-scaling": f"{league} credit.options.scale=none",
    }


SETS = {
    "rps": Set(
        arms={
            **with_methods("rps-base", "mage", "lamer", "grpo", "gigpo", "ppo", "rloo"),
            "cloning": "rps-base+cloning batch.groups=32 batch.size=2",
            **LESS,
        },
        minutes=1.5,
    ),
    "kuhn": Set(
        arms={
            **with_methods("kuhn-base", "mage", "grpo", "lamer"),
            "mage-no-scaling": "kuhn-base+mage credit.options.scale=none",
        },
        minutes=3.0,
    ),
    "rps-cost": Set(arms=with_methods("rps-base", "mage", "grpo", "lamer"), minutes=10.0),
    "rps-league": Set(arms=with_controls("rps-league"), minutes=15.0),
    "kuhn-league": Set(arms=with_controls("kuhn-league"), minutes=15.0),
    "rps-llm": Set(arms=with_methods("rps-llm-base", "mage", "grpo", "lamer", "gigpo"), minutes=3.0),
    "kuhn-llm": Set(arms=with_methods("kuhn-llm-base", "mage", "grpo", "lamer", "gigpo"), minutes=6.0, seeds=1),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make or go on with all sweeps, then compare them. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", nargs="+", metavar="SET|KEY=VALUE", help=f"sets: {', '.join(SETS)}")
    parser.add_argument("--out", type=Path, default=Path("runs/methods"))
    parser.add_argument("--seeds", type=int, help="seeds of each arm, instead of the set's own number")
    parser.add_argument("--minutes", type=float, help="most training time of one run, instead of the set's own")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    names = [name for name in options.given if "=" not in name]
    overrides = [name for name in options.given if "=" in name]
    unknown = [name for name in names if name not in SETS]
    if unknown or not names:
        parser.error(f"unknown set {', '.join(unknown) or '(none)'}; known: {', '.join(SETS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    sweeps = [
        sweep for name in names for sweep in sweeps_of(name, options.out, overrides, options.seeds, options.minutes)
    ]
    with ThreadPoolExecutor(options.processes) as workers:
        codes = list(workers.map(run, sweeps))
    for name in names:
        codes.append(run(comparison_of(name, options.out)))
    return max(codes)


class Job(NamedTuple):
    """A command of mage, and the file that keeps what it says."""

    log: Path
    arguments: tuple[str, ...]


def sweeps_of(
    name: str, out: Path, overrides: Sequence[str], seeds: int | None = None, minutes: float | None = None
) -> list[Job]:
    """The sweeps of a set, one for each arm: new ones, or those that have begun."""
    jobs: list[Job] = []
    for arm, recipe in SETS[name].arms.items():
        folder = out / name / arm
        new = (*recipe.split(), *overrides, "--seeds", str(seeds or SETS[name].seeds))
        new = (*new, "--max-minutes", str(minutes or SETS[name].minutes), "--run", str(folder))
        begun = ("--resume", str(folder))
        log = out / f"{name}-{arm}.log"
        jobs.append(Job(log, ("sweep", *(begun if (folder / "sweep.json").exists() else new))))
    return jobs


def comparison_of(name: str, out: Path) -> Job:
    """The comparison of a set's arms, each under its name."""
    arms = [f"{arm}={out / name / arm}" for arm in SETS[name].arms]
    return Job(out / f"{name}-compare.log", ("compare", *arms, "-o", str(out / f"{name}-compared")))


def run(job: Job) -> int:
    """Run a command of mage with one thread, add what it says to its log, and return its exit code."""
    print(f"mage {' '.join(job.arguments)}  >> {job.log}", flush=True)
    with job.log.open("ab") as log:
        done = subprocess.run(
            [*MAGE, *job.arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
    if done.returncode:
        print(f"mage {job.arguments[0]} ended with {done.returncode}; {job.log} says why", flush=True)
    return done.returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("give the same command again to go on", flush=True)
        sys.exit(130)
