"""How fast the learner learns: tokens and floating-point operations a second on made-up samples.

    python benchmarks/learner_speed.py --out FOLDER [--only NAME …] [--profile] [--device cpu --tiny]

Models have the shapes of SmolLM2-135M, Qwen3-0.6B, Qwen2.5-1.5B and Qwen3-4B and random weights in bfloat16. An update
is the learner's own, from samples to new weights, cutting into micro-batches and the optimizer's step included; each
figure is the median over several of them, after two for warming up.

Operations are counted as 6 x parameters x real tokens, embeddings and head left out; 4 x where an adapter is trained,
because the gradients of the base's weights are not computed. Attention (causal, so half a square) and the head's rows
for freely chosen tokens come on top, in a column of their own. Padding, recomputation and rows of the head that are
not trained count nowhere.

With `--profile` the kernels of one more update of each case are listed by their time. One case that fails or takes too
long is written down as such, and the others go on. Writes `learner_speed.json` and `learner_speed.md`.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from kernel_times import kernel_table, kernels
from random_models import random_model, random_shape
from where import commit, machine

from mage.config.load import load_config
from mage.errors import MageError
from mage.learners.local import LocalLearner
from mage.learners.settings import learner_settings
from mage.seeds import stream
from mage.types import Phase, Sample

MOVES = 9
REPLY = 32
LONG = 16384
WARM_UPS = 2
FAILURES = (
    *(MageError, RuntimeError, OSError, subprocess.SubprocessError, ImportError, AssertionError),
    *(LookupError, AttributeError, TypeError, ValueError),
)
"""Of one case; a `TimeoutError` is an `OSError`."""


@dataclass(frozen=True)
class Case:
    """What is measured."""

    shape: str
    reply: str
    """choice: a token from three ids for each move; text: 32 free tokens for each; long: one sequence, all trained."""
    trials: int
    budget: int
    lora: int = 0
    compiled: bool = True
    checkpointing: bool = False

    @property
    def name(self) -> str:
        marks = [
            "lora" if self.lora else "full",
            "compiled" if self.compiled else "eager",
            *(["checkpointing"] if self.checkpointing else []),
        ]
        return "-".join([self.shape, self.reply, *marks])


CASES = (
    Case("smollm2", "choice", trials=512, budget=65536),
    Case("qwen3-0.6b", "choice", trials=256, budget=32768),
    Case("qwen3-0.6b", "choice", trials=256, budget=32768, lora=16, compiled=False),
    Case("qwen3-4b", "choice", trials=64, budget=8192, compiled=False),
    Case("qwen3-4b", "choice", trials=64, budget=16384, lora=16, compiled=False),
    Case("qwen3-0.6b", "long", trials=4, budget=LONG),
    Case("qwen3-4b", "long", trials=2, budget=LONG, lora=16, compiled=False),
    Case("qwen3-4b", "choice", trials=64, budget=8192),
    Case("smollm2", "text", trials=512, budget=65536),
    Case("qwen3-0.6b", "choice", trials=256, budget=32768, lora=16),
    Case("qwen3-4b", "choice", trials=64, budget=16384, lora=16),
    Case("smollm2", "choice", trials=512, budget=65536, compiled=False),
    Case("qwen3-0.6b", "choice", trials=256, budget=32768, compiled=False),
    Case("qwen3-4b", "choice", trials=64, budget=16384, checkpointing=True, compiled=False),
    Case("smollm2", "choice", trials=512, budget=65536, lora=16),
    Case("qwen2.5-1.5b", "text", trials=64, budget=16384, lora=16, compiled=False),
    Case("qwen2.5-1.5b", "text", trials=64, budget=16384, lora=16),
    Case("qwen2.5-1.5b", "choice", trials=128, budget=16384, lora=16, compiled=False),
    Case("qwen2.5-1.5b", "text", trials=64, budget=16384, compiled=False),
    Case("qwen2.5-1.5b", "choice", trials=128, budget=16384, compiled=False),
)
"""In order of importance: where time is short, the last ones are left out."""
PEERS = {
    "qwen3-0.6b-long-full": "prime-rl, one H100, 16k tokens, 0.6B full: 11,900 tokens/s",
    "qwen3-4b-long-lora": "prime-rl, one H100, 16k tokens, 4B LoRA: 6,200 tokens/s",
}


def samples(case: Case, vocabulary: int, tiny: bool) -> list[Sample]:
    """Made-up samples: lengths that differ by a tenth, advantages of either sign."""
    if case.reply == "long":
        length = LONG // 64 if tiny else LONG
        return [_sample(number, length, range(1, length), vocabulary, 1) for number in range(case.trials)]
    reply = 1 if case.reply == "choice" else REPLY
    found = []
    for number in range(8 if tiny else case.trials):
        length = 430 + stream(0, "length", number).randrange(-20, 21) + MOVES * (reply - 1)
        apart = length // MOVES
        positions = [apart * (move + 1) - reply + i for move in range(MOVES) for i in range(reply)]
        found.append(_sample(number, positions[-1] + 1, positions, vocabulary, reply, case.reply == "choice"))
    return found


def _sample(
    number: int, length: int, positions: Sequence[int], vocabulary: int, reply: int, is_choice: bool = False
) -> Sample:
    rng = stream(0, "sample", number)
    ids = (vocabulary // 7, vocabulary // 3, vocabulary // 2)
    tokens = [rng.randrange(vocabulary) for _ in range(length)]
    for position in positions if is_choice else ():
        tokens[position] = rng.choice(ids)
    return Sample(
        tokens=tuple(tokens),
        positions=tuple(positions),
        turns=tuple(index // reply for index in range(len(positions))),
        phases=(Phase.PLAY,) * len(positions),
        logprobs=(-math.log(len(ids) if is_choice else vocabulary),) * len(positions),
        advantages=tuple(rng.choice((-1.0, 1.0)) for _ in positions),
        returns=(0.0,) * len(positions),
        allowed=((ids,) if is_choice else (None,)) * len(positions),
        version=0,
    )


def operations(case: Case, model: Any, batch: Sequence[Sample]) -> tuple[float, float]:
    """Operations of one update: parameters times tokens, and what attention and the head's rows add."""
    config = model.config
    passes = 4 if case.lora else 6
    body = sum(
        p.numel() for n, p in model.named_parameters() if ".lora_" not in n and "embed" not in n and "head" not in n
    )
    width = config.num_attention_heads * getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    attention = 6.0 * config.num_hidden_layers * width * sum(len(s.tokens) ** 2 for s in batch)
    free = sum(ids is None for s in batch for ids in s.allowed)
    head = float(passes) * config.hidden_size * config.vocab_size * free
    return float(passes) * body * sum(len(s.tokens) for s in batch), attention + head


def measure(
    case: Case, device: torch.device, tiny: bool, num_updates: int, until: float, profiled: bool
) -> dict[str, Any]:
    """The figures of one case."""
    is_cuda = device.type == "cuda"
    model = random_model(random_shape(case.shape, tiny=tiny), device)
    config = load_config(
        "rps",
        [
            f"learner.token_budget={case.budget}",
            f"learner.compile={json.dumps(case.compiled)}",
            f"learner.gradient_checkpointing={json.dumps(case.checkpointing)}",
            f"learner.lora_rank={case.lora}",
            "learner.prediction_weight=0",
            "learner.lr=1e-6",
            "steps=1000",
        ],
    )
    learner = LocalLearner(model, learner_settings(config))
    batch = samples(case, model.config.vocab_size, tiny)
    if is_cuda:
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    reports = [learner.update(batch) for _ in range(WARM_UPS)]
    warm_s = time.perf_counter() - began
    seconds: list[float] = []
    while len(seconds) < num_updates and (len(seconds) < 2 or time.perf_counter() < until):
        began = time.perf_counter()
        reports.append(learner.update(batch))  # ends when its figures have come back from the device
        if is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    update_s = median(seconds)
    num_tokens = sum(len(s.tokens) for s in batch)
    assert all(report["learner/tokens"] == num_tokens and math.isfinite(report["learner/loss"]) for report in reports)
    body, more = operations(case, model, batch)
    found = {"kernels": kernels(lambda: learner.update(batch), device)} if profiled else {}
    return {
        "tokens": num_tokens,
        "trained_tokens": sum(len(s.positions) for s in batch),
        "update_s": update_s,
        "updates": len(seconds),
        "warm_up_s": warm_s,
        "tokens_per_s": num_tokens / update_s,
        "tflops": body / update_s / 1e12,
        "tflops_with_attention_and_head": (body + more) / update_s / 1e12,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if is_cuda else None,
        "token_budget": reports[-1].get("learner/token_budget", case.budget),
        "out_of_memory": sum(report.get("learner/out_of_memory", 0.0) for report in reports),
        **found,
    }


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` when what is inside takes longer."""

    def ring(signum: int, frame: object) -> None:
        raise TimeoutError(f"took more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def guarded(
    case: Case, device: torch.device, tiny: bool, num_updates: int, left_s: float, case_s: float, profiled: bool
) -> dict[str, Any]:
    """The figures of a case, or why there are none."""
    seconds = min(case_s, left_s)
    if seconds < 5:
        return {"failure": "left out: no time was left"}
    began = time.perf_counter()
    try:
        with limited(seconds):
            return measure(case, device, tiny, num_updates, began + 0.7 * seconds, profiled)
    except FAILURES as error:
        lines = str(error).strip().splitlines() or ["no message"]
        why = " / ".join(line.strip() for line in lines[:8] if line.strip())
        return {"failure": f"{type(error).__name__}: {why[:600]}", "after_s": time.perf_counter() - began}


def clean(device: torch.device) -> None:
    """Leave nothing of a case behind."""
    torch._dynamo.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| case | tokens/s | TFLOP/s | with attention and head | s/update | peak GiB | micro-batch | warm-up s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        if "failure" in row:
            lines.append(f"| {name} | {row['failure'].replace('|', '/')} | | | | | | |")
            continue
        peak = "" if row["peak_gib"] is None else f"{row['peak_gib']:.1f}"
        whole = row["tflops_with_attention_and_head"]
        lines.append(
            f"| {name} | {row['tokens_per_s']:,.0f} | {row['tflops']:.1f} | {whole:.1f} | {row['update_s']:.3f} "
            f"| {peak} | {row['token_budget']:.0f} | {row['warm_up_s']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def page(report: Mapping[str, Any], command: str) -> str:
    """All that is written down, for people."""
    profiles = "\n".join(
        line
        for name, row in report["cases"].items()
        for line in (kernel_table(f"{name}, one update", row["kernels"], "update") if "kernels" in row else ())
    )
    peers = "\n".join(f"- beside `{name}…`: {text}" for name, text in PEERS.items())
    about = (__doc__ or "").split("\n\n", 2)[2].strip()
    return f"""# Learner speed

`{command}`. Machine: {report["machine"]}. Commit {report["commit"]}.

{about}

{table(report["cases"])}
Samples: choice, about 430 tokens and {MOVES} trained; text, about 709 tokens and {MOVES * REPLY} trained; long,
{LONG} tokens, all trained. The anchors we know of, with sequences of 16k tokens as in the cases called long:

{peers}
{profiles}
"""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the two files")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin like this")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--profile", action="store_true", help="list the kernels of one update of each case")
    parser.add_argument("--updates", type=int, default=5, help="updates measured a case")
    parser.add_argument("--case-s", type=float, default=60.0, help="seconds a case may take")
    parser.add_argument("--total-s", type=float, default=160.0, help="seconds all cases may take")
    chosen = parser.parse_args(arguments)
    device = torch.device(chosen.device)
    known = CASES if device.type == "cuda" else tuple(dict.fromkeys(replace(case, compiled=False) for case in CASES))
    cases = [case for case in known if not chosen.only or case.name.startswith(tuple(chosen.only))]
    if not cases:
        raise SystemExit(f"no case begins like that; there are: {', '.join(case.name for case in known)}")
    ends = time.perf_counter() + chosen.total_s
    chosen.out.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"machine": machine(device), "commit": commit(), "cases": {}}
    for case in cases:
        row = guarded(
            case, device, chosen.tiny, chosen.updates, ends - time.perf_counter(), chosen.case_s, chosen.profile
        )
        clean(device)
        report["cases"][case.name] = row
        print(f"{case.name}: {json.dumps(row)}", flush=True)
        # After each case: what was measured outlives whatever ends the process.
        (chosen.out / "learner_speed.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        command = f"python benchmarks/learner_speed.py {' '.join(arguments)}"
        (chosen.out / "learner_speed.md").write_text(page(report, command), encoding="utf-8")
    print(table(report["cases"]))


if __name__ == "__main__":
    main(sys.argv[1:])
