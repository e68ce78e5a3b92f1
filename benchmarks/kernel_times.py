"""The kernels of a piece of work by their time, as torch's profiler counts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

KERNELS = 14


def kernels(work: Callable[[], Any], device: torch.device, *, steps: int = 1) -> list[dict[str, Any]]:
    """The kernels of `work` by their time: microseconds and launches for each of its steps; the last row sums all."""
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
    listed = [
        {
            "name": event.key[:90],
            "us": of_kernel(event) / steps,
            "launches": event.count / steps,
            "share": of_kernel(event) / whole,
        }
        for event in events[:KERNELS]
    ]
    num_all = sum(event.count for event in events if of_kernel(event) > 0)
    return [*listed, {"name": "all", "us": whole / steps, "launches": num_all / steps, "share": 1.0}]


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
