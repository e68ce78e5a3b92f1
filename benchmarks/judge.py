"""All training methods side by side: one command that can be killed and given again.

python benchmarks/judge.py rps kuhn             on a CPU, three seeds; two processes where there are two cores
python benchmarks/judge.py rps-cost tokens=8000000 steps=1000    what a level costs: three methods, room to reach it
python benchmarks/judge.py rps-league           a league beside one agent and the same scripts; kuhn-league likewise
python benchmarks/judge.py rps-llm kuhn-llm     on a GPU, with smollm2; two at a time, so --minutes may have to be more

Each set of recipes is a few sweeps under runs/judge (or --out DIR), and a comparison of them beside.
KEY=VALUE overrides go for all recipes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

MAGE = (sys.executable, "-c", "from mage.cli import main; main()")


class Set(NamedTuple):
    """Recipes that are compared with each other, in sweeps that can run side by side."""

    sweeps: tuple[tuple[str, ...], ...]
    minutes: float
    """Most training time of one run."""
    seeds: int = 3


SETS = {
    "rps": Set(
        sweeps=(
            (
                "rps-mage",
                "rps-grpo",
                "rps-ppo",
                "rps-cloning",
                "rps-mage-no-scaling",
                "rps-mage-no-last-episode",
                "rps-mage-no-population",
            ),
            (
                "rps-lamer",
                "rps-gigpo",
                "rps-rloo",
                "rps-mage-as-published",
                "rps-mage-no-reflections",
                "rps-mage-no-history",
            ),
        ),
        minutes=1.5,
    ),
    "kuhn": Set(sweeps=(("kuhn-mage", "kuhn-lamer"), ("kuhn-grpo", "kuhn-mage-no-scaling")), minutes=3.0),
    "rps-cost": Set(sweeps=(("rps-mage",), ("rps-grpo", "rps-lamer")), minutes=10.0),
    "rps-league": Set(sweeps=(("rps-league",), ("rps-league-fixed", "rps-league-no-scaling")), minutes=15.0),
    "kuhn-league": Set(sweeps=(("kuhn-league",), ("kuhn-league-fixed", "kuhn-league-no-scaling")), minutes=15.0),
    "rps-llm": Set(sweeps=(("rps-llm-mage",), ("rps-llm-grpo",), ("rps-llm-lamer",), ("rps-llm-gigpo",)), minutes=3.0),
    "kuhn-llm": Set(
        sweeps=(("kuhn-llm-mage",), ("kuhn-llm-grpo",), ("kuhn-llm-lamer",), ("kuhn-llm-gigpo",)), minutes=6.0, seeds=1
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make or go on with all sweeps, then compare them. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", nargs="+", metavar="SET|KEY=VALUE", help=f"sets: {', '.join(SETS)}")
    parser.add_argument("--out", type=Path, default=Path("runs/judge"))
    parser.add_argument("--seeds", type=int, help="seeds of each recipe, instead of the set's own number")
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
    """The sweeps of a set: new ones, or those that have begun."""
    jobs: list[Job] = []
    for folder, recipes in zip(_folders(name, out), SETS[name].sweeps, strict=True):
        new = (*recipes, *overrides, "--seeds", str(seeds or SETS[name].seeds))
        new = (*new, "--max-minutes", str(minutes or SETS[name].minutes), "--run", str(folder))
        begun = ("--resume", str(folder))
        jobs.append(Job(folder.with_suffix(".log"), ("sweep", *(begun if (folder / "sweep.json").exists() else new))))
    return jobs


def comparison_of(name: str, out: Path) -> Job:
    """The comparison of a set's sweeps."""
    folders = [str(folder) for folder in _folders(name, out)]
    return Job(out / f"{name}-compare.log", ("compare", *folders, "-o", str(out / name)))


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


def _folders(name: str, out: Path) -> list[Path]:
    return [out / f"{name}-{letter}" for letter, _ in zip(ascii_lowercase, SETS[name].sweeps, strict=False)]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("give the same command again to go on", flush=True)
        sys.exit(130)
