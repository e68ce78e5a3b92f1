"""What a league costs: four LoRA learners in mixed batches beside one, with the same number of trials a step.

    python benchmarks/league_speed.py --out FOLDER [--steps 12] [--device cpu --tiny]

Both are whole trainings by `rps-llm+league` against the population alone, in one process, one after the other and the
first once more at the end. A step is playing, credit and update. That every token was sampled by its own learner's
adapter shows in the gap between the engine's and the learner's log-probabilities, which stays what rounding makes it
though the adapters are far apart. Writes `league_speed.json` and `league_speed.md`.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from pathlib import Path
from statistics import median
from typing import Any

import torch
from safetensors.torch import load_file
from where import commit, machine

import mage
from mage.files import read_lines
from mage.training.league_members import LEARNERS

WARM_UP = 4
"""Steps that are not counted: graphs are captured and layers compiled in them."""


def settings(learners: int, args: argparse.Namespace) -> dict[str, Any]:
    """A league that meets the population alone, so that a step has as many trials whoever learns."""
    found: dict[str, Any] = {
        "steps": args.steps,
        "device": args.device,
        "league.learners": learners,
        "population.options": {"share": 1.0, "inner": "uniform"},
        "league.both": False,
        "league.snapshot_every": 0,
        "league.exploit_every": 0,
        "learner.entropy_end": 0.2,
        "learner.decay": False,
        "learner.lr": 2e-4,
        "learner.lora_rank": 16,
        "evaluation.splits": [],
        "checkpoint.every": 1000,
        "checkpoint.transcripts": 0,
    }
    tiny = {
        "agent.model": "nano(hidden=16,layers=1,heads=2,context=1024)",
        "batch.groups": 4,
        "learner.lora_rank": 2,
        "learner.token_budget": 8192,
    }
    return {**found, **(tiny if args.tiny else {})}


def measure(learners: int, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Figures of one training: medians over the steps after the first few."""
    shutil.rmtree(folder, ignore_errors=True)
    mage.train("rps-llm+league", settings(learners, args), folder=folder, quiet=True)
    config = json.loads((folder / "run.json").read_text())["config"]["batch"]
    timings = list(read_lines(folder / "timings.jsonl"))[WARM_UP:]
    metrics = [line for line in read_lines(folder / "metrics.jsonl") if "gap/mean_difference" in line][WARM_UP:]
    step_s = median(line["step_s"] for line in timings)
    return {
        "learners": learners,
        "trials": config["groups"] * config["size"],
        "step_s": step_s,
        "rollout_s": median(line["rollout_s"] for line in timings),
        "trials_per_s": config["groups"] * config["size"] / step_s,
        "gap": max(line["gap/mean_difference"] for line in metrics),
        "apart": apart(folder, args.steps),
        "gpu_gib": timings[-1].get("gpu_gib"),
        "gpu_reserved_gib": timings[-1].get("gpu_reserved_gib"),
    }


def apart(folder: Path, step: int) -> float | None:
    """How far the adapters of two learners are apart, by what one of them has moved: 0 would be the same twice."""
    places = sorted((folder / "checkpoints" / f"step-{step:06d}" / LEARNERS).iterdir())
    if len(places) < 2:
        return None
    one, other = (load_file(place / "adapter_model.safetensors") for place in places[:2])
    moved = [name for name in one if "lora_B" in name]  # zero at first
    distance = math.sqrt(sum(float((one[name].float() - other[name].float()).square().sum()) for name in moved))
    return distance / math.sqrt(sum(float(one[name].float().square().sum()) for name in moved))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = [measure(learners, args, args.out / f"run-{n}") for n, learners in enumerate((1, 4, 1))]
    for n in range(3):
        shutil.rmtree(args.out / f"run-{n}")
    about = {"machine": machine(torch.device(args.device)), "commit": commit()}
    ratio = rows[1]["trials_per_s"] / median((rows[0]["trials_per_s"], rows[2]["trials_per_s"]))
    (args.out / "league_speed.json").write_text(json.dumps({**about, "rows": rows, "ratio": ratio}, indent=1))
    lines = [
        f"Machine: {about['machine']}. Commit {about['commit']}.",
        "",
        "| learners | trials | s/step | s playing | trials/s | largest gap | adapters apart | GiB used | reserved |",
        "|---|---|---|---|---|---|---|---|---|",
        *("| " + " | ".join(_shown(value) for value in row.values()) + " |" for row in rows),
        "",
        f"Four learners have {ratio:.2f} of one learner's throughput.",
    ]
    (args.out / "league_speed.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


if __name__ == "__main__":
    main()
