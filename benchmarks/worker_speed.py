"""What it costs to play in a worker: seconds of a trial beside those in one process, with Ray on this machine.

    python benchmarks/worker_speed.py [--trials 512 --repeats 7]

Both play the same chunks of trials of `rps`, one chunk after the other, each from an empty prefix cache; one worker has
the same work as the process, so the difference is what messages and Ray cost. The fastest of several, taken in turn:
whatever else runs on the machine only adds time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from where import commit, machine

from mage.config.load import load_config
from mage.league.matches import PlayedMatch
from mage.training.parts import LEARNER, build_parts
from mage.training.run_tokenizer import keep_tokenizer
from mage.training.setup import Setup, set_up

SIZE, CHUNK = 8, 64


def seconds_by_process(local: Setup, worker: Setup, num_trials: int, repeats: int) -> tuple[list[float], list[float]]:
    """Seconds of all trials, in this process and in one worker, and again and again."""
    matches = local.source.draw(0, {LEARNER: num_trials // SIZE})
    num = CHUNK // SIZE

    async def in_chunks() -> list[PlayedMatch]:
        played: list[PlayedMatch] = []
        for start in range(0, len(matches), num):
            local.parts.server.reset_cache()
            played += await local.match_play.play(matches[start : start + num], 0)
        return played

    async def measured() -> tuple[list[float], list[float]]:
        for setup in (local, worker):
            await setup.match_play.publish(0)
            await setup.match_play.play(matches, 0)
        here, there = [], []
        for _ in range(repeats):
            begun = time.perf_counter()
            wanted = await in_chunks()
            middle = time.perf_counter()
            found = await worker.match_play.play(matches, 0)
            here.append(middle - begun)
            there.append(time.perf_counter() - middle)
            assert found == wanted
        return here, there

    return asyncio.run(measured())


def made(folder: Path, workers: int) -> Setup:
    """The setup of a run of `rps` without, or with one worker."""
    given = [f"rollout.workers={workers}", f"rollout.chunk={CHUNK}", f"batch.size={SIZE}", "threads=1"]
    parts = build_parts(load_config("rps", given))
    keep_tokenizer(folder, parts.loaded)
    return set_up(parts, folder)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    with TemporaryDirectory() as scratch:
        local, worker = made(Path(scratch), 0), made(Path(scratch), 1)
        try:
            here, there = seconds_by_process(local, worker, args.trials, args.repeats)
            publishing = [_published(worker) for _ in range(args.repeats)]
        finally:
            worker.match_play.close()
    own, others = min(here), min(there)
    found = {
        "trials": args.trials,
        "ms_per_trial_in_process": 1e3 * own / args.trials,
        "ms_per_trial_in_a_worker": 1e3 * others / args.trials,
        "overhead_ms_per_trial": 1e3 * (others - own) / args.trials,
        "overhead_ms_by_repeat": [round(1e3 * (b - a) / args.trials, 3) for a, b in zip(here, there, strict=True)],
        "publish_ms": 1e3 * min(publishing),
        "machine": machine(torch.device("cpu")),
        "commit": commit(),
    }
    print(json.dumps(found, indent=1))


def _published(setup: Setup) -> float:
    begun = time.perf_counter()
    asyncio.run(setup.match_play.publish(0))
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
