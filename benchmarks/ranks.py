"""Updates on several ranks beside those of one process, on the same samples: python benchmarks/ranks.py --ranks 2 4

Prints the largest differences of weights and of metrics after four updates on the first trials of `rps`, and the
seconds of an update, for whole models, LoRA and a value head.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from where import commit, machine

from mage.config.load import load_config
from mage.credit.dead_groups import split_dead, trained_groups
from mage.credit.running_stats import EMPTY
from mage.learners.registry import make_learner
from mage.learners.settings import learner_settings
from mage.training.loop import collect, to_batch
from mage.training.parts import build_parts
from mage.training.setup import Setup, set_up
from mage.types import Sample
from mage.weights import LearnerState

KINDS = {"full": (), "LoRA": ("learner.lora_rank=4",), "value head": ()}
UPDATES = 4


def samples_of(setup: Setup) -> list[Sample]:
    """The samples of the first step."""

    async def play() -> list[Sample]:
        await setup.learners.prepare(0)
        found = await collect(setup, 0, EMPTY)
        live, dead = split_dead(found.advantages)
        trained = trained_groups(live, dead, setup.parts.config.batch.dead)
        return to_batch(found.groups, found.credited, found.advantages, trained)

    return asyncio.run(play())


def updated(
    model: Any, samples: list[Sample], kind: str, ranks: int
) -> tuple[LearnerState, list[dict[str, float]], float]:
    """The state after the updates, their metrics, and the median of their seconds."""
    settings = learner_settings(load_config("rps", (*KINDS[kind], f"learner.ranks={ranks}")))
    with_values = kind == "value head"
    learner = make_learner("local", copy.deepcopy(model), settings, with_values=with_values, imitates=False)
    metrics, seconds = [], []
    for _ in range(UPDATES):
        begun = time.perf_counter()
        metrics.append(learner.update(samples))
        seconds.append(time.perf_counter() - begun)
    return learner.state(), metrics, median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    given: list[int] = parser.parse_args().ranks
    with TemporaryDirectory() as folder:
        setup = set_up(build_parts(load_config("rps")), Path(folder))
        model = copy.deepcopy(setup.parts.loaded.model)
        samples = samples_of(setup)
    print(f"{machine(next(model.parameters()).device)}, commit {commit()}; {len(samples)} samples")
    print("| ranks | trained | weights | metrics | s an update | of one rank |\n|---|---|---|---|---|---|")
    one = {kind: updated(model, samples, kind, 1) for kind in KINDS}
    for ranks in given:
        for kind, (state, metrics, seconds) in one.items():
            own, own_metrics, own_seconds = updated(model, samples, kind, ranks)
            weights = max(float((own.weights[n] - t).abs().max()) for n, t in state.weights.items())
            gap = max(
                abs(mine[k] - v) for mine, other in zip(own_metrics, metrics, strict=True) for k, v in other.items()
            )
            print(f"| {ranks} | {kind} | {weights:.1e} | {gap:.1e} | {own_seconds:.2f} | {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
