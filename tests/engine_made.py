"""Tiny models for the engine in this process, what to ask them, and a plain pass to hold its answers against."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from mage.engines.local.engine import LocalEngine
from mage.models.load import LoadedModel, load_model
from mage.protocols import Sampling
from mage.types import Completion

Ids = tuple[int, ...]
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
LLAMA = (LlamaConfig, LlamaForCausalLM)
MISTRAL = (MistralConfig, MistralForCausalLM)
QWEN2 = (Qwen2Config, Qwen2ForCausalLM)
QWEN3 = (Qwen3Config, Qwen3ForCausalLM)
FAMILIES: dict[str, Any] = {
    "llama": (*LLAMA, {}),
    "qwen2": (*QWEN2, {"tie_word_embeddings": True}),
    "qwen3": (*QWEN3, {"head_dim": 16}),
    "mistral": (*MISTRAL, {"sliding_window": None}),
    "mistral with a window": (*MISTRAL, {"sliding_window": 24}),
}


@cache
def nano() -> LoadedModel:
    """The embedded model, sharpened."""
    return sharpened(load_model("nano(words=[20])", seed=7, worlds=("rps", "kuhn_poker", "tic_tac_toe")))


@cache
def family(name: str) -> LoadedModel:
    """A tiny random model that speaks with the words of nano."""
    make_config, make_model, more = FAMILIES[name]
    base = nano()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = make_model(make_config(vocab_size=len(base.tokenizer), **{**SMALL, **more})).eval()
    return sharpened(LoadedModel(name, model, base.tokenizer, base.chat_format))


def sharpened(loaded: LoadedModel) -> LoadedModel:
    """Weights large enough that tokens differ in probability, and that a wrong cache shows."""
    with torch.no_grad():
        for weight in loaded.model.parameters():
            if weight.dim() > 1:
                weight.mul_(4.0 if weight.std() < 0.1 else 1.5)
    return loaded


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of some work, in a loop of its own."""
    return asyncio.run(work)


def prompts(loaded: LoadedModel, num: int, seed: int = 0, most_turns: int = 3) -> list[Ids]:
    """Streams of different lengths with a common opening."""
    chat_format, rng = loaded.chat_format, random.Random(seed)
    words = ("rock", "paper", "scissors")
    made: list[Ids] = []
    for _ in range(num):
        ids = chat_format.opening("The game is rock-paper-scissors, against one opponent.") + chat_format.user(
            "Round 1 of 3."
        )
        for turn in range(rng.randrange(most_turns + 1)):
            ids += chat_format.choice(rng.choice(words))
            ids += chat_format.user(f"Round {turn + 2} of 9. Last round: you rock, opponent {rng.choice(words)}.")
        made.append(ids)
    return made


def choices(loaded: LoadedModel, *actions: str) -> list[Ids]:
    """Actions as the model would have to write them."""
    return [loaded.chat_format.choice(action) for action in actions or ("bet", "bet 2", "pass", "rock")]


def plain_logprobs(model: Any, prompt: Ids, completion: Completion, temperature: float) -> list[float]:
    """What a plain forward pass over prompt and reply says of the sampled tokens."""
    ids_1T = torch.tensor([prompt + completion.tokens], device=next(model.parameters()).device)
    with torch.no_grad():
        logits_TV = model(ids_1T, use_cache=False).logits[0].float() / temperature
    found: list[float] = []
    for at, token in enumerate(completion.tokens):
        logits_V = logits_TV[len(prompt) + at - 1]
        if completion.allowed is not None:
            others = torch.full_like(logits_V, -torch.inf)
            others[list(completion.allowed[at])] = logits_V[list(completion.allowed[at])]
            logits_V = others
        found.append(float(logits_V.log_softmax(-1)[token]))
    return found


def assert_exact(model: Any, prompt: Ids, completion: Completion, temperature: float = 1.0) -> None:
    """The engine's log-probabilities are those of a plain pass."""
    assert list(completion.logprobs) == pytest.approx(plain_logprobs(model, prompt, completion, temperature), abs=1e-4)


async def ask_all(
    engine: LocalEngine, asked: Sequence[Ids], options: list[Ids] | None, temperature: float = 1.0, tokens: int = 6
) -> list[Completion]:
    """Replies to all prompts, asked at once and seeded by their number."""
    calls = [engine.complete(ids, Sampling(temperature, tokens, seed), options) for seed, ids in enumerate(asked)]
    return list(await asyncio.gather(*calls))
