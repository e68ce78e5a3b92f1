"""What `rollout.lag` costs in learning: trains `rps` with lags 0, 1 and 2 and several seeds, and prints a table.

python benchmarks/lag.py FOLDER [--steps 80] [--seeds 3]

Runs that FOLDER has are not trained again, and interrupted ones go on. All have one worker.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import msgspec

from mage.files import read_lines

LAGS = (0, 1, 2)
FIXED = (
    "threads=1",
    "rollout.workers=1",
    "rollout.chunk=16",
    'evaluation.splits=["rps-trained", "rps-held-out"]',
    "evaluation.final_trials=4",
)
_LAST = 10
"""Steps over which training scores are averaged."""
_FIRST = 5
"""Steps that are left out of times: in the first one the worker is started."""


def train(folder: Path, steps: int, lag: int, seed: int) -> Path:
    """A run to its end."""
    run = folder / f"lag{lag}-seed{seed}"
    settings = (f"steps={steps}", f"seed={seed}", f"rollout.lag={lag}", *FIXED)
    what = ("--resume", str(run)) if (run / "run.json").exists() else ("rps", *settings, "--run", str(run))
    if not (run / "evaluations" / "final.json").exists():
        subprocess.run([sys.executable, "-c", "from mage.cli import main; main()", "train", *what], check=True)
    return run


def measured(run: Path, steps: int) -> dict[str, float]:
    """The numbers of a run."""
    lines = [line for line in read_lines(run / "metrics.jsonl") if "learner/loss" in line]
    times = list(read_lines(run / "timings.jsonl"))[_FIRST:]
    found: dict[str, Any] = {
        f"step {at - _LAST + 1} to {at}": mean(line["score/episode_3"] for line in lines[at - _LAST : at])
        for at in range(20, steps + 1, 20)
    }
    report = msgspec.json.decode((run / "evaluations" / "final.json").read_bytes())
    for split in report["reports"]:
        found[split["split"]] = split["agent"]["scores"][-1]["value"]
    found["gap/mean_difference"] = mean(line["gap/mean_difference"] for line in lines[_FIRST:])
    found["gap/outside_0.8_1.25"] = mean(line["gap/outside_0.8_1.25"] for line in lines[_FIRST:])
    found["lag/truncated_share, highest"] = max(line.get("lag/truncated_share", 0.0) for line in lines)
    found["seconds of a step"] = median(line["step_s"] for line in times)
    found["seconds of waiting for trials"] = median(line["rollout_s"] for line in times)
    return found


def show(by_lag: dict[int, list[dict[str, float]]]) -> None:
    """Print the means over seeds, with the lowest and the highest."""
    print(f"| | {' | '.join(f'lag {lag}' for lag in by_lag)} |\n|---|{'---|' * len(by_lag)}")
    for name in by_lag[LAGS[0]][0]:
        cells = []
        for found in by_lag.values():
            values = [one[name] for one in found]
            cells.append(f"{mean(values):.3f} ({min(values):.3f} to {max(values):.3f})")
        print(f"| {name} | {' | '.join(cells)} |")
    ratios = {
        lag: [own["seconds of a step"] / base["seconds of a step"] for own, base in zip(found, by_lag[0], strict=True)]
        for lag, found in by_lag.items()
    }
    print(
        "| step time by that of lag 0, by seed |",
        " | ".join(" ".join(f"{r:.2f}" for r in ratios[lag]) for lag in by_lag),
        "|",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Train all, seed by seed, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    by_lag: dict[int, list[dict[str, float]]] = {lag: [] for lag in LAGS}
    for seed in range(options.seeds):
        for lag in LAGS:
            by_lag[lag].append(measured(train(options.folder, options.steps, lag, seed), options.steps))
    show(by_lag)


if __name__ == "__main__":
    main()
