"""What `rollout.lag` costs in learning: trains `rps` with lags 0, 1 and 2 and several seeds, and prints a table.

    python benchmarks/lag.py FOLDER [--seeds 3 --steps 80 --stop 40]

The schedules of the runs are those of `--steps` steps; after `--stop` they are interrupted. All have one worker. Runs
that FOLDER has are not trained again, and those that did not get so far go on.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median

import torch
from where import commit, machine

from mage.files import count_lines, read_lines

LAGS = (0, 1, 2)
FIXED = ("threads=1", "rollout.workers=1", "rollout.chunk=16", 'evaluation.splits=["rps-trained", "rps-held-out"]')
_MAIN = "from mage.cli import main; main()"
_WINDOW = 10
"""Steps over which scores are averaged."""
_FIRST = 5
"""Steps that are left out of times: in the first one the worker is started."""


def train(run: Path, settings: Sequence[str], stop: int) -> None:
    """Train a run, or go on with it, until it has `stop` steps."""
    metrics = run / "metrics.jsonl"
    if metrics.exists() and count_lines(metrics) >= stop:
        return
    what = ("--resume", str(run)) if (run / "run.json").exists() else ("rps", *settings, "--run", str(run))
    with subprocess.Popen([sys.executable, "-c", _MAIN, "train", *what]) as process:
        while process.poll() is None and not (metrics.exists() and count_lines(metrics) >= stop):
            time.sleep(0.5)
        process.send_signal(signal.SIGINT)  # finishes the step and saves; no effect where the run has ended


def measured(run: Path, stop: int) -> dict[str, float]:
    """The numbers of a run."""
    lines = [line for line in read_lines(run / "metrics.jsonl") if "learner/loss" in line][:stop]
    times = list(read_lines(run / "timings.jsonl"))[_FIRST:stop]
    later = lines[_FIRST:]
    found = {
        f"score, steps {at - _WINDOW + 1} to {at}": mean(line["score/episode_3"] for line in lines[at - _WINDOW : at])
        for at in range(_WINDOW, stop + 1, _WINDOW)
    }
    for name in ("gap/mean_difference", "gap/outside_0.8_1.25"):
        found[f"`{name}`"] = mean(line[name] for line in later)
    found["`lag/truncated_share`, mean"] = mean(line.get("lag/truncated_share", 0.0) for line in later)
    found["`lag/truncated_share`, highest"] = max(line.get("lag/truncated_share", 0.0) for line in lines)
    found["`rollout_s` by `step_s`, median"] = median(line["rollout_s"] / line["step_s"] for line in times)
    found["`step_s`, median"] = median(line["step_s"] for line in times)
    return found


def show(by_lag: Mapping[int, Sequence[Mapping[str, float]]]) -> None:
    """Print means over seeds, with the value of each."""
    print(f"| | {' | '.join(f'lag {lag}' for lag in by_lag)} |\n|---|{'---|' * len(by_lag)}")
    for name in by_lag[LAGS[0]][0]:
        values = [[one[name] for one in found] for found in by_lag.values()]
        cells = [f"{mean(own):.3f} ({', '.join(f'{value:.3f}' for value in own)})" for own in values]
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    """Train all, seed by seed, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--stop", type=int, default=40)
    options = parser.parse_args()
    by_lag: dict[int, list[dict[str, float]]] = {lag: [] for lag in LAGS}
    for seed in range(options.seeds):
        for lag in LAGS:
            run = options.folder / f"lag{lag}-seed{seed}"
            train(run, (f"steps={options.steps}", f"seed={seed}", f"rollout.lag={lag}", *FIXED), options.stop)
            by_lag[lag].append(measured(run, options.stop))
    print(f"{machine(torch.device('cpu'))}; commit {commit()}\n")
    show(by_lag)


if __name__ == "__main__":
    main()
