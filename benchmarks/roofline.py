"""How far the engine is from the roofline: decode steps and prefill passes beside the least time the card needs.

    python benchmarks/roofline.py --out FOLDER [--only SHAPE …]
    python benchmarks/roofline.py --device cpu --tiny --out FOLDER

The least time is what it takes to read all weights and the cached keys and values once, or to compute the products,
whichever is longer, with the bandwidth and the operations a second that a copy and a large product reach in the same
run. Sampling is part of a decode step and not of its least time. Models have random weights in bfloat16, and the cache
is taken as filled. The kernels of one case of each shape are listed by their time, to see where the rest goes.

Writes `roofline.json` and `roofline.md`.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from engine_speed import Clock
from kernel_times import kernel_table, kernels
from random_models import random_model, random_shape
from where import commit, machine

from mage.engines.local.adapters import AdapterCapacity
from mage.engines.local.graph_executor import DecodeBurst, GraphExecutor
from mage.engines.local.layout import Chunk
from mage.planning.shapes import Shape

SHAPES = ("smollm2-135m", "qwen2.5-1.5b", "qwen3-1.7b", "qwen3-4b")
DECODING = ((8, 256), (128, 256), (512, 256), (128, 2048))
"""Rows, and cached tokens of each."""
PROFILED = (128, 256)
PREFILL = (16, 512)
"""Rows, and new tokens of each."""
BURST = 16
RANK = 16


class Card(NamedTuple):
    """What a card reaches in this run."""

    bytes_per_s: float
    flops: float

    def floor_s(self, moved: float, computed: float) -> float:
        return max(moved / self.bytes_per_s, computed / self.flops)


def seconds(work: Callable[[], Any], device: torch.device) -> float:
    """Median wall-clock seconds, the device's queue included, after two times for warming up."""
    for _ in range(2):
        work()
    return Clock(device.type)(work, repeats=5)


def measured_card(device: torch.device, tiny: bool) -> Card:
    """The bandwidth of a copy, bytes read and written, and the operations a second of a large product."""
    num_bytes, width = (2**24, 256) if tiny else (2**32, 8192)
    source = torch.zeros(num_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    left = torch.randn(width, width, device=device, dtype=torch.bfloat16)
    copied = seconds(lambda: target.copy_(source), device)
    multiplied = seconds(lambda: left @ left, device)
    return Card(2 * num_bytes / copied, 2.0 * width**3 / multiplied)


def work_of(shape: Shape, rows: int, new: int, cached: int) -> tuple[float, float]:
    """Bytes that a pass must read, and operations that it must compute; the head runs on the last token of each row."""
    head = shape.vocab_size * shape.hidden_size
    entries = rows * (cached + new)
    moved = 2 * (shape.body_parameters + head) + 2 * 2 * shape.key_width * shape.num_hidden_layers * entries
    pairs = rows * (new * cached + new * (new + 1) / 2)
    attention = 4.0 * shape.query_width * shape.num_hidden_layers * pairs
    return float(moved), 2.0 * (shape.body_parameters * rows * new + head * rows) + attention


def made(shape: Shape, rows: int, length: int, rank: int, device: torch.device) -> GraphExecutor:
    capacity = AdapterCapacity(1, rank) if rank else None
    return GraphExecutor(random_model(shape, device), rows, length, capacity, burst=BURST)


def decoding(shape: Shape, rows: int, cached: int, rank: int, card: Card, device: torch.device) -> dict[str, Any]:
    """Seconds of a decode step in a burst, its least time, and the kernels of one burst where that is asked for."""
    executor = made(shape, rows, cached + 2 * BURST, rank, device)
    chunks = [Chunk(slot, cached, (1,) * (cached + 1), 0 if rank else -1) for slot in range(rows)]
    uniforms = np.random.default_rng(0).random((rows, BURST))
    burst = DecodeBurst(uniforms, np.ones(rows, np.float32))

    def work() -> None:
        executor.sample(chunks, burst).read()

    step_s = seconds(work, device) / BURST
    floor_s = card.floor_s(*work_of(shape, rows, 1, cached + BURST // 2))
    found: dict[str, Any] = {"seconds": step_s, "floor": floor_s, "ratio": step_s / floor_s}
    if (rows, cached) == PROFILED:
        found["kernels"] = kernels(work, device, steps=BURST)
    return found


def prefill(shape: Shape, rows: int, new: int, rank: int, card: Card, device: torch.device) -> dict[str, Any]:
    """Seconds of a pass over new prompts, and its least time."""
    executor = made(shape, rows, new + BURST, rank, device)
    chunks = [Chunk(slot, 0, (1,) * new, 0 if rank else -1) for slot in range(rows)]
    pass_s = seconds(lambda: executor.forward(chunks), device)
    floor_s = card.floor_s(*work_of(shape, rows, new, 0))
    return {"seconds": pass_s, "floor": floor_s, "ratio": pass_s / floor_s}


def page(report: dict[str, Any]) -> str:
    """The results for people."""
    card = report["card"]
    lines = [
        "# Distance of the engine to the roofline",
        "",
        f"{report['machine']}, commit {report['commit']}. Reached in this run: {card['bytes_per_s'] / 1e12:.2f} TB/s, "
        f"{card['flops'] / 1e12:.0f} TFLOP/s.",
        "",
        "| shape | adapter | pass | ms | least ms | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for row in report["passes"]:
        if "failure" in row:
            lines.append(f"| {row['shape']} | {row['rank'] or ''} | {row['pass']} | {row['failure']} | | |")
            continue
        times = f"{1e3 * row['seconds']:.3f} | {1e3 * row['floor']:.3f} | {row['ratio']:.1f}"
        lines.append(f"| {row['shape']} | {row['rank'] or ''} | {row['pass']} | {times} |")
    for row in report["passes"]:
        if "kernels" in row:
            title = f"{row['shape']}, adapter of rank {row['rank']}" if row["rank"] else row["shape"]
            lines += kernel_table(f"{title}, {row['pass']}", row["kernels"], "step")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the two files")
    parser.add_argument("--only", nargs="*", default=list(SHAPES), help="shapes that `mage plan` knows")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that it works")
    args = parser.parse_args(arguments)
    device = torch.device(args.device)
    args.out.mkdir(parents=True, exist_ok=True)
    card = measured_card(device, args.tiny)
    report: dict[str, Any] = {
        "machine": machine(device), "commit": commit(), "card": card._asdict(), "passes": [],
    }  # fmt: skip
    for name in args.only:
        shape = random_shape(name, tiny=args.tiny)
        passes: list[tuple[str, Callable[..., dict[str, Any]], tuple[int, int]]] = [
            *((f"decode, {rows} rows, {cached} cached", decoding, (rows, cached)) for rows, cached in DECODING),
            (f"prefill, {PREFILL[0]} rows of {PREFILL[1]}", prefill, PREFILL),
        ]
        for rank in (0, RANK):
            for title, measure, sizes in passes:
                row: dict[str, Any] = {"shape": name, "rank": rank, "pass": title}
                try:
                    row |= measure(shape, *sizes, rank, card, device)
                except torch.OutOfMemoryError as error:
                    row["failure"] = str(error).splitlines()[0]
                gc.collect()
                if device.type == "cuda":
                    torch.cuda.empty_cache()
                report["passes"].append(row)
                print({key: value for key, value in row.items() if key != "kernels"}, flush=True)
                (args.out / "roofline.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
                (args.out / "roofline.md").write_text(page(report), encoding="utf-8")


if __name__ == "__main__":
    main()
