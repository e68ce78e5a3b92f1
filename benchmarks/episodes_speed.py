"""What longer trials cost: a whole step (play, credit, update) of twelve episodes beside one of three.

    python benchmarks/episodes_speed.py --out results [--device cpu --tiny]

Tokens grow with the episodes, and so should time; attention alone grows with the square. Its share is measured where
there is a GPU: seconds of attention kernels by seconds of all kernels, in one step under the profiler.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from where import commit, machine

from mage.config.load import load_config
from mage.config.schema import Config
from mage.credit.dead_groups import split_dead
from mage.credit.running_stats import EMPTY
from mage.league.matches import PlayedMatch
from mage.training.loop import estimate, play, to_batch
from mage.training.parts import LEARNER, Parts, build_parts
from mage.training.setup import set_up

ATTENTION = ("attend", "attention", "flash", "fmha", "sdpa")


def config_of(episodes: int, args: argparse.Namespace) -> Config:
    """The recipe that is measured."""
    groups = 4 if args.tiny else args.groups
    given = [f"trial.episodes={episodes}", f"batch.groups={groups}", "evaluation.splits=[]", f"device={args.device}"]
    recipe, context = ("rps", 1024) if args.tiny else ("rps-llm", 2048)
    return load_config(recipe, [*given, f"agent.context={context}", "steps=1000", "learner.entropy_end=0.2"])


def step(parts: Parts, number: int) -> tuple[float, float, int]:
    """Seconds of playing and of the rest, and the tokens of the update."""
    setup, device = set_up(parts, Path()), parts.config.device
    matches = setup.source.draw(number, {LEARNER: parts.config.batch.groups})

    async def played() -> list[PlayedMatch]:
        await setup.match_play.publish(number)
        return await play(setup, matches, number)

    start = time.perf_counter()
    groups = asyncio.run(played())
    wait(device)
    middle = time.perf_counter()
    found = estimate(setup, groups, EMPTY)
    batch = to_batch(found.groups, found.credited, found.advantages, split_dead(found.advantages)[0])
    parts.learner.update(batch)
    wait(device)
    return middle - start, time.perf_counter() - middle, sum(len(s.tokens) for s in batch)


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def attention_share(parts: Parts, number: int) -> float | None:
    """Of all kernel time in one step."""
    if parts.config.device != "cuda":
        return None
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step(parts, number)
    kernels = {event.key: event.self_device_time_total for event in profile.key_averages()}
    attention: float = sum(us for name, us in kernels.items() if any(part in name.lower() for part in ATTENTION))
    return attention / float(sum(kernels.values()))


def measure(episodes: int, args: argparse.Namespace) -> dict[str, Any]:
    """The figures of trials of so many episodes: the median of three steps, after two for warming up."""
    parts = build_parts(config_of(episodes, args))
    found = [step(parts, number) for number in range(5)][2:]
    rollout, update, tokens = (statistics.median(column) for column in zip(*found, strict=True))
    return {
        "episodes": episodes, "rollout_s": rollout, "update_s": update, "step_s": rollout + update, "tokens": tokens,
        "attention_share": attention_share(parts, 5),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--groups", type=int, default=32)
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    short, long = (measure(episodes, args) for episodes in (3, 12))
    results = {
        "machine": machine(torch.device(args.device)), "commit": commit(), "three": short, "twelve": long,
        "ratio": {key: long[key] / short[key] for key in ("rollout_s", "update_s", "step_s", "tokens")},
    }  # fmt: skip
    print(json.dumps(results, indent=1))
    (args.out / "episodes_speed.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
