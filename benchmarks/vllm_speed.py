"""The local engine and vLLM beside each other in one run: generation, rollouts, publishing, and the gap to the learner.

python benchmarks/vllm_speed.py --device cuda --out results
python benchmarks/vllm_speed.py --device cpu --tiny --out results

Both are policy servers, made and asked as in training. `--server` asks a running vLLM server instead of one in this
process, `--lora-rank` publishes adapters instead of whole models. `--shape` measures a model of a shape that `mage`
plans for, with random weights and SmolLM2's tokenizer; `--save` writes it to a folder, for a server.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from engine_speed import PROMPT, WORLD, Obedient, random_prompts
from random_models import random_model, random_shape
from where import commit, machine

from mage.agents.briefing import briefing_of
from mage.agents.language import AgentSettings, LanguageAgent
from mage.aio import run_sync
from mage.config.load import load_config
from mage.engines.registry import make_server
from mage.engines.settings import EngineSettings
from mage.learners.local import LocalLearner
from mage.learners.settings import learner_settings
from mage.models.load import LoadedModel, load_model
from mage.protocols import PolicyServer, Sampling
from mage.rollout.group import play_groups
from mage.types import Completion, Memory, Phase, ReplyMode, Sample, Task
from mage.worlds.registry import load_world

POLICY = "main"
CONTEXT = {ReplyMode.CHOICE: 1024, ReplyMode.TEXT: 2560}


class Endless:
    """A chat format whose end of turn is an id that is hardly ever sampled, so that answers have their full length."""

    def __init__(self, chat_format: Any, end: int) -> None:
        self._chat_format, self.end = chat_format, end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chat_format, name)


def seconds(work: Callable[[], Any], repeats: int) -> dict[str, Any]:
    """Wall-clock seconds of the first time, and of the median of the following ones."""
    times: list[float] = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return {"seconds": statistics.median(times[1:]), "first": times[0], "all": times[1:]}


class Measured:
    """One engine, made, measured and freed."""

    def __init__(self, name: str, loaded: LoadedModel, learner: LocalLearner, args: argparse.Namespace) -> None:
        self.name, self.loaded, self.learner, self.args = name, loaded, learner, args
        self.num = 16 if args.tiny else args.num

    def all(self) -> dict[str, Any]:
        args = self.args
        found: dict[str, Any] = {}
        start = time.perf_counter()
        server = self.server(self.loaded, CONTEXT[ReplyMode.TEXT])
        found["start_s"] = time.perf_counter() - start
        publish = lambda: run_sync(server.publish(POLICY, self.learner.weights(), 0))  # noqa: E731
        found["publish"] = seconds(publish, args.repeats)
        found["rollout, choices"] = self.rollout(server, ReplyMode.CHOICE)
        found[f"rollout, texts of {args.text} tokens"] = self.rollout(server, ReplyMode.TEXT)
        found["generation with log-probabilities"] = self.generation(server)
        return found

    def server(self, loaded: LoadedModel, length: int) -> PolicyServer:
        rank = self.args.lora_rank
        servers = tuple(self.args.server) if self.name == "vllm" else ()
        endless = replace(loaded, chat_format=Endless(loaded.chat_format, loaded.model.config.vocab_size - 1))  # type: ignore[arg-type]
        settings = EngineSettings(length, slots=self.num, adapter_rank=rank, servers=servers)
        return make_server(self.name, endless, settings)

    def generation(self, server: PolicyServer) -> dict[str, Any]:
        """Prompts of about 170 random ids and as many new ones each as `--new` says."""
        prompts = random_prompts(self.loaded.model.config.vocab_size, self.num)
        replies: list[Completion] = []

        async def ask() -> None:
            server.reset_cache()
            engine = server.policy(POLICY)
            calls = [engine.complete(p, Sampling(1.0, self.args.new, n), None) for n, p in enumerate(prompts)]
            replies[:] = await asyncio.gather(*calls)

        found = seconds(lambda: run_sync(ask()), self.args.repeats)
        sampled = sum(len(reply.tokens) for reply in replies)
        return {**found, "prompts": len(prompts), "sampled": sampled, "gap": self.gap(prompts, replies)}

    def gap(self, prompts: Sequence[tuple[int, ...]], replies: Sequence[Completion]) -> dict[str, float]:
        """The differences of the engine's log-probabilities to the learner's, over a few replies."""
        samples = [_sample(prompt, reply) for prompt, reply in zip(prompts[:16], replies[:16], strict=True)]
        read = self.learner.evaluate_tokens(samples)
        pairs = [
            (engine, own)
            for sample, tokens in zip(samples, read, strict=True)
            for engine, (own, _) in zip(sample.logprobs, tokens, strict=True)
        ]
        differences = [abs(engine - own) for engine, own in pairs]
        return {"mean": statistics.fmean(differences), "largest": max(differences), "tokens": len(differences)}

    def rollout(self, server: PolicyServer, reply: ReplyMode) -> dict[str, Any]:
        """Trials of three episodes of three rounds."""
        world = load_world(WORLD)
        how = AgentSettings(
            name="measured", memory=Memory.HISTORY, reply=reply, temperature=1.0, max_tokens=self.args.text,
            reflection_tokens=32, retries=0, context=CONTEXT[reply],
        )  # fmt: skip
        chat_format: Any = self.loaded.chat_format
        if reply is ReplyMode.TEXT:
            chat_format = Obedient(Endless(chat_format, self.loaded.model.config.vocab_size - 1))
        size = 8
        tasks = [Task(WORLD, ("copy",), 0, seed, 3, False, False, 1000) for seed in range(self.num // size)]
        engine = server.policy(POLICY)

        async def play() -> None:
            server.reset_cache()
            groups = await play_groups(
                world, tasks, size, lambda t, n: LanguageAgent(engine, chat_format, how, briefing_of(world, t), t, n)
            )
            failures = [failure for group in groups for failure in group.failures]
            if failures:
                raise RuntimeError(failures[0])

        before = server.metrics().get("requests", 0.0)
        found = seconds(lambda: run_sync(play()), self.args.repeats)
        requests = server.metrics().get("requests", 0.0) - before
        return {**found, "trials": self.num, "requests": requests / (1 + self.args.repeats)}


def _sample(prompt: tuple[int, ...], reply: Completion) -> Sample:
    num = len(reply.tokens)
    return Sample(
        tokens=prompt + reply.tokens,
        positions=tuple(range(len(prompt), len(prompt) + num)),
        turns=(0,) * num,
        phases=(Phase.REFLECT,) * num,
        logprobs=reply.logprobs,
        advantages=(0.0,) * num,
        returns=(0.0,) * num,
        allowed=(None,) * num,
        version=0,
    )


def _loaded(model: str, dtype: str, args: argparse.Namespace) -> LoadedModel:
    loaded = load_model(model, dtype=dtype, device="cpu" if args.shape else args.device, worlds=[WORLD])
    if not args.shape:
        return loaded
    torch.manual_seed(0)
    made = random_model(random_shape(args.shape, tiny=args.tiny), args.device, getattr(torch, dtype))
    return replace(loaded, name=args.shape, model=made.eval())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--shape", default="", help="the shape of a model with random weights, in place of --model")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--save", type=Path, help="write the model to this folder, for a server, and measure nothing")
    parser.add_argument("--tiny", action="store_true", help="a tiny model and few trials, to try the script")
    parser.add_argument("--engines", default="local,vllm")
    parser.add_argument("--server", action="append", default=[], help="a running vLLM server's address; one or more")
    parser.add_argument("--lora-rank", type=int, default=0)
    parser.add_argument("--num", type=int, default=512, help="prompts, and trials")
    parser.add_argument("--new", type=int, default=64, help="new tokens of each prompt")
    parser.add_argument("--text", type=int, default=128, help="tokens of each text in rollouts")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    dtype = "bfloat16" if args.device == "cuda" else "float32"
    model = "nano(heads=2,context=4096)" if args.tiny else args.model
    if args.save:
        _loaded(model, dtype, args).save(args.save)
        return
    loaded, trained = (_loaded(model, dtype, args) for _ in range(2))
    config = load_config(
        "rps", (f"agent.model={model}", f"learner.lora_rank={args.lora_rank}", "learner.compile=false")
    )
    learner = LocalLearner(trained.model, learner_settings(config))
    args.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {
        "machine": machine(torch.device(args.device)), "commit": commit(), "prompt_tokens": PROMPT,
        "arguments": {name: str(value) for name, value in vars(args).items()},
    }  # fmt: skip
    for name in args.engines.split(","):
        results[name] = Measured(name, loaded, learner, args).all()
        print(name, json.dumps(results[name], indent=1), flush=True)
        (args.out / "vllm_speed.json").write_text(json.dumps(results, indent=1))
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
