"""How fast the engine generates and plays, with the alternatives beside it in the same run.

python benchmarks/engine_speed.py --device cuda --out results
python benchmarks/engine_speed.py --device cpu --tiny --out results
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import torch
from where import commit, machine

from mage.agents.briefing import briefing_of
from mage.agents.language import AgentSettings, LanguageAgent
from mage.aio import run_sync
from mage.engines.local.engine import LocalEngine
from mage.engines.local.executor import bytes_per_token
from mage.models.load import LoadedModel, load_model
from mage.protocols import Engine, Sampling
from mage.rollout.group import play_groups
from mage.types import Completion, Memory, ReplyMode, Task
from mage.worlds.registry import load_world

PROMPT, NEW = 170, 64
WORLD = "rps(rounds=3)"


class Clock:
    """Wall-clock seconds of a piece of work, the device's queue included."""

    def __init__(self, device: str) -> None:
        self._device = device

    def __call__(self, work: Callable[[], Any], repeats: int = 3) -> float:
        times: list[float] = []
        for _ in range(repeats):
            self.wait()
            start = time.perf_counter()
            work()
            self.wait()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    def wait(self) -> None:
        if self._device == "cuda":
            torch.cuda.synchronize()


class GenerateEngine:
    """The loop everybody writes first: wait for all trials, pad their whole prompts, call `generate`."""

    def __init__(self, loaded: LoadedModel, width: int) -> None:
        self._model, self._chat_format = loaded.model, loaded.chat_format
        self._width = width
        self._waiting: list[tuple[Sequence[int], Sampling, Any, asyncio.Future[Completion]]] = []

    async def complete(self, prompt: Sequence[int], sampling: Sampling, choices: Any) -> Completion:
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting.append((prompt, sampling, choices, future))
        if len(self._waiting) == self._width:
            waiting, self._waiting = self._waiting, []
            self._serve(waiting)
        return await future

    def _serve(self, waiting: list[tuple[Sequence[int], Sampling, Any, asyncio.Future[Completion]]]) -> None:
        """Choices are asked for freely, as such loops do, and one of them is taken at random where none came."""
        num_new = 2 if waiting[0][2] is not None else waiting[0][1].max_tokens
        found = generate(self._model, [tuple(prompt) for prompt, *_ in waiting], num_new, self._chat_format.end)
        for (_, _, choices, future), tokens in zip(waiting, found, strict=True):
            if choices is not None:
                tokens = tuple(choices[sum(tokens) % len(choices)])
                future.set_result(Completion(tokens, (0.0,) * len(tokens), tuple((t,) for t in tokens), 0, False))
            else:
                is_cut = tokens[-1] != self._chat_format.end
                future.set_result(Completion(tokens, (0.0,) * len(tokens), None, 0, is_cut))


class Obedient:
    """A codec that hears a legal action in every reply, so that untrained models play whole episodes."""

    def __init__(self, chat_format: Any) -> None:
        self._chat_format = chat_format

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chat_format, name)

    def decode(self, tokens: Sequence[int]) -> str:
        return "<action>rock</action>"


def generate(
    model: Any, prompts: Sequence[tuple[int, ...]], num_new: int, end: int, **how: Any
) -> list[tuple[int, ...]]:
    """transformers' `generate` on left-padded prompts."""
    width = max(map(len, prompts))
    device = next(model.parameters()).device
    ids = torch.tensor([[0] * (width - len(p)) + list(p) for p in prompts], device=device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)
    with torch.inference_mode():
        out = model.generate(
            ids, attention_mask=mask, max_new_tokens=num_new, do_sample=True, top_k=0, top_p=1.0, temperature=1.0,
            pad_token_id=end, eos_token_id=end, **how,
        )  # fmt: skip
    rows = [row[width:] for row in out.tolist()]
    return [tuple(row[: row.index(end) + 1] if end in row else row) for row in rows]


def random_prompts(vocab: int, num: int) -> list[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(PROMPT - 20, PROMPT + 21, (num,), generator=generator).tolist()
    return [tuple(torch.randint(10, vocab, (n,), generator=generator).tolist()) for n in lengths]


def generation(loaded: LoadedModel, clock: Clock, num: int, static: bool) -> dict[str, Any]:
    """Prompts of about 170 tokens, 64 new ones each, by every way there is."""
    prompts = random_prompts(loaded.model.config.vocab_size, num)
    found: dict[str, Any] = {"prompts": num, "prompt_tokens": sum(map(len, prompts)), "new_tokens": NEW * num}
    never = loaded.model.config.vocab_size - 1
    plain: dict[str, Callable[[], Any]] = {
        "generate": lambda: generate(loaded.model, prompts, NEW, never, min_new_tokens=NEW)
    }
    if static:
        how = {"cache_implementation": "static", "min_new_tokens": NEW}
        plain["generate, static cache, compiled"] = lambda: generate(loaded.model, prompts, NEW, never, **how)
    for name, work in plain.items():
        start = time.perf_counter()
        work()
        first = time.perf_counter() - start
        found[name] = {"seconds": clock(work), "first": first}
    for name, executor, burst in (
        ("ours, transformers' forward", "hf", None),
        ("ours, own forward, one token at a time", "graph", 1),
        ("ours", "graph", None),
    ):
        engine = LocalEngine(loaded, slots=num, length=PROMPT + 20 + NEW + 8, executor=executor)
        if burst:
            engine._executor.burst = burst  # type: ignore[attr-defined]
        engine._end = never

        async def ask(engine: LocalEngine = engine) -> int:
            engine.reset_cache()
            calls = [engine.complete(p, Sampling(1.0, NEW, n), None) for n, p in enumerate(prompts)]
            return sum(len(s.tokens) for s in await asyncio.gather(*calls))

        def answer(ask: Callable[[], Coroutine[Any, Any, int]] = ask) -> int:
            return run_sync(ask())

        start = time.perf_counter()
        tokens = answer()
        first = time.perf_counter() - start
        found[name] = {"seconds": clock(answer), "first": first, "sampled": tokens}
        del engine, ask, answer
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    found["floor"] = floor(loaded, prompts)
    return found


def floor(loaded: LoadedModel, prompts: Sequence[Sequence[int]]) -> dict[str, float]:
    """The fewest bytes and operations, and the seconds they take at 4.0 TB/s and 790 TFLOP/s."""
    config = loaded.model.config
    weight = next(loaded.model.parameters())
    numbers = sum(p.numel() for p in loaded.model.parameters())
    per_token = bytes_per_token(config, weight.element_size())
    length = sum(map(len, prompts))
    kept = sum(length + len(prompts) * step for step in range(NEW)) * per_token
    read = NEW * numbers * weight.element_size() + kept
    inner = numbers - config.vocab_size * config.hidden_size
    operations = (
        2 * inner * (length + NEW * len(prompts)) + 2 * NEW * len(prompts) * config.vocab_size * config.hidden_size
    )
    return {
        "decode_bytes": read, "operations": operations, "seconds_bytes": read / 4.0e12,
        "seconds_operations": operations / 790e12,
    }  # fmt: skip


def rollout(loaded: LoadedModel, clock: Clock, num: int, reply: ReplyMode, with_loop: bool) -> dict[str, Any]:
    """Trials of three episodes of three rounds."""
    world = load_world(WORLD)
    how = AgentSettings(
        name="bench", memory=Memory.HISTORY, reply=reply, temperature=1.0, max_tokens=32, reflection_tokens=32,
        retries=0, context=1024,
    )  # fmt: skip
    size = 8
    chat_format = Obedient(loaded.chat_format) if reply is ReplyMode.TEXT else loaded.chat_format
    tasks = [Task(WORLD, ("copy",), 0, seed, 3, False, False, 1000) for seed in range(num // size)]

    async def play(engine: Engine) -> int:
        groups = await play_groups(
            world, tasks, size, lambda t, n: LanguageAgent(engine, chat_format, how, briefing_of(world, t), t, n)
        )
        failures = [failure for group in groups for failure in group.failures]
        if failures:
            raise RuntimeError(failures[0])
        return sum(len(s) for group in groups for trial in group.trials for s in trial.streams)

    found: dict[str, Any] = {"trials": num}
    for name, reuse in (("ours", True), ("ours, no prefix reuse", False)):
        engine = LocalEngine(loaded, slots=num, length=1024, reuse=reuse)

        def once(engine: LocalEngine = engine) -> int:
            engine.reset_cache()
            engine.reset_counters()
            return run_sync(play(engine))

        start = time.perf_counter()
        tokens = once()
        first = time.perf_counter() - start
        found[name] = {"seconds": clock(once), "first": first, "tokens": tokens, "counters": engine.counters()}
        del engine, once
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    if with_loop:
        loop_work: Callable[[], Awaitable[int]] = lambda: play(GenerateEngine(loaded, num))  # noqa: E731
        run_sync(loop_work())  # type: ignore[arg-type]
        found["loop with generate"] = {"seconds": clock(lambda: run_sync(loop_work()), 1)}  # type: ignore[arg-type]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--static", action="store_true", help="compiled static generate too; it compiles for 30 s")
    args = parser.parse_args()
    dtype = "bfloat16" if args.device == "cuda" else "float32"
    loaded = load_model("nano" if args.tiny else args.model, dtype=dtype, device=args.device, worlds=[WORLD])
    clock = Clock(args.device)
    num = 16 if args.tiny else 512
    args.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"machine": machine(torch.device(args.device)), "commit": commit()}
    measured: dict[str, Callable[[], Any]] = {
        "rollout, choice": lambda: rollout(loaded, clock, num, ReplyMode.CHOICE, True),
        "rollout, text": lambda: rollout(loaded, clock, num, ReplyMode.TEXT, not args.tiny),
        "generation": lambda: generation(loaded, clock, num, args.static),
    }
    for name, work in measured.items():
        results[name] = work()
        print(name, json.dumps(results[name], indent=1), flush=True)
        (args.out / "engine_speed.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
