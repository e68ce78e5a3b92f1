"""The kernels of a piece of work by their time, as torch's profiler counts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

KERNELS = 14
KINDS = {
    "products": ("nvjet", "gemm", "gemv", "splitk", "addmm", "bmm"),
    "attention": ("flash", "fmha", "attention", "cudnn"),
    "reductions": ("reduce", "softmax", "norm", "scan"),
    "element by element": ("elementwise", "copy", "memcpy", "memset", "cat", "index", "gather", "scatter"),
}
"""Kinds of kernels by parts of their names, in the order of the search."""


def kernels(work: Callable[[], Any], device: torch.device, *, steps: int = 1) -> list[dict[str, Any]]:
    """The kernels of `work` by their time: microseconds and launches for each of its steps.

    The last rows sum the kernels of a kind, and all.
    """
    is_cuda = device.type == "cuda"
    profiled: Any
    with profile(activities=[ProfilerActivity.CUDA if is_cuda else ProfilerActivity.CPU]) as profiled:
        work()
        if is_cuda:
            torch.cuda.synchronize()

    def of_kernel(event: Any) -> float:
        return float(event.self_device_time_total if is_cuda else event.self_cpu_time_total)

    events = sorted(profiled.key_averages(), key=of_kernel, reverse=True)
    whole = sum(map(of_kernel, events)) or 1.0

    def row(name: str, chosen: Sequence[Any]) -> dict[str, Any]:
        time_us = sum(map(of_kernel, chosen))
        num = sum(event.count for event in chosen if of_kernel(event) > 0)
        return {"name": name, "us": time_us / steps, "launches": num / steps, "share": time_us / whole}

    by_kind: dict[str, list[Any]] = {kind: [] for kind in (*KINDS, "others")}
    for event in events:
        by_kind[kind_of(event.key)].append(event)
    listed = [row(event.key[:90], [event]) for event in events[:KERNELS]]
    return [*listed, *(row(f"all {kind}", chosen) for kind, chosen in by_kind.items()), row("all", events)]


def kind_of(kernel: str) -> str:
    """The kind of a kernel by its name."""
    name = kernel.lower()
    return next((kind for kind, parts in KINDS.items() if any(part in name for part in parts)), "others")


def kernel_table(title: str, rows: Sequence[Mapping[str, Any]], step: str) -> list[str]:
    """A section in Markdown, by lines."""
    return [
        "",
        f"## {title}",
        "",
        f"| kernel | us per {step} | launches | share |",
        "|---|---|---|---|",
        *(
            f"| `{row['name'].replace('|', '/')}` | {row['us']:.1f} | {row['launches']:.1f} | {row['share']:.1%} |"
            for row in rows
        ),
    ]
