"""The engine's own forward pass: on a CPU in plain PyTorch, on a GPU with its kernels and graphs."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Coroutine, Sequence
from functools import cache
from typing import Any

import pytest
import torch

from mage.agents.briefing import briefing_of
from mage.agents.language import AgentSettings, LanguageAgent
from mage.checks.engines import check_engine
from mage.engines.local import graph_executor
from mage.engines.local.engine import LocalEngine
from mage.engines.local.graph_executor import GraphExecutor
from mage.engines.local.layout import Chunk
from mage.engines.local.sampling import sample_free
from mage.models.load import LoadedModel, load_model
from mage.rollout.group import play_groups
from mage.types import Completion, Group, Memory, ReplyMode, Task
from tests import engine_made
from tests.engine_made import LLAMA, MISTRAL, QWEN2, QWEN3, Ids
from tests.worlds import AnyWorld

DEVICES = ["cuda" if torch.cuda.is_available() else "cpu"]
SLOW_ON_CPU = () if torch.cuda.is_available() else (pytest.mark.slow,)
WAYS = [(Memory.HISTORY, ReplyMode.CHOICE), pytest.param(Memory.BOTH, ReplyMode.TEXT, marks=SLOW_ON_CPU)]
"""The card where there is one: the same tests have passed on a CPU before they come there."""
NUM_TASKS = 8 if torch.cuda.is_available() else 4
SIZES = {
    "hidden_size": 96,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
FAMILIES: dict[str, Any] = {
    "llama": (*LLAMA, {}),
    "llama with biases": (*LLAMA, {"attention_bias": True, "mlp_bias": True}),
    "qwen2": (*QWEN2, {"tie_word_embeddings": True}),
    "qwen3": (*QWEN3, {"head_dim": 64, "num_key_value_heads": 3}),
    "mistral": (*MISTRAL, {"sliding_window": None, "num_key_value_heads": 1}),
}


@cache
def loaded(name: str, device: str, dtype: torch.dtype = torch.float32) -> LoadedModel:
    """A small random model with weights large enough that a mistake shows."""
    make_config, make_model, more = FAMILIES[name]
    base = load_model("nano(words=[20])", seed=7, worlds=("rps", "kuhn_poker", "tic_tac_toe"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = make_model(make_config(vocab_size=len(base.tokenizer), **{**SIZES, **more})).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.normal_(0.0, 0.12) if weight.dim() > 1 else weight.add_(0.2 * torch.randn_like(weight))
    return LoadedModel(name, model.to(device=device, dtype=dtype), base.tokenizer, base.chat_format)


def flat_engine(model: LoadedModel, slots: int = 64) -> LocalEngine:
    engine = LocalEngine(model, slots=slots, executor="graph")
    assert isinstance(engine._executor, GraphExecutor), "the model should have passed the check at the start"
    return engine


def prompts(model: LoadedModel, num: int) -> list[Ids]:
    """Streams of different lengths, some of them longer than a tile of the kernels."""
    return engine_made.prompts(model, num, most_turns=6)


def options_of(model: LoadedModel, mode: str) -> list[Ids] | None:
    return engine_made.choices(model) if mode == "choice" else None


def ask_all(
    engine: LocalEngine, asked: Sequence[Ids], options: list[Ids] | None, temperature: float = 1.0
) -> Coroutine[Any, Any, list[Completion]]:
    """Replies of up to 24 tokens: more than a burst has."""
    return engine_made.ask_all(engine, asked, options, temperature, tokens=24)


def plain_logprobs(model: Any, prompt: Ids, completion: Completion, temperature: float) -> torch.Tensor:
    return torch.tensor(engine_made.plain_logprobs(model, prompt, completion, temperature))


@pytest.mark.parametrize("device", DEVICES)
def test_the_contract_is_kept(device: str) -> None:
    model = loaded("llama", device)
    check_engine(flat_engine(model, slots=8), model.chat_format)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", ["choice", "text"])
@pytest.mark.parametrize("name", FAMILIES)
def test_logprobs_are_those_of_a_plain_pass(name: str, mode: str, device: str) -> None:
    model = loaded(name, device)
    engine = flat_engine(model)
    asked = prompts(model, 12)
    for temperature in (1.0, 0.6):
        replies = asyncio.run(ask_all(engine, asked, options_of(model, mode), temperature))
        for ids, completion in zip(asked, replies, strict=True):
            gap = plain_logprobs(model.model, ids, completion, temperature) - torch.tensor(completion.logprobs)
            assert float(gap.abs().max()) < 1e-4
        asked = [
            ids + s.tokens + model.chat_format.user("Round 5 of 9.") for ids, s in zip(asked, replies, strict=True)
        ]
    assert engine.counters()["hits"] >= 12, "the second round should find its prefixes"


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs a CUDA device")
@pytest.mark.parametrize("mode", ["choice", "text"])
@pytest.mark.parametrize("name", FAMILIES)
def test_in_bfloat16_logprobs_stay_within_rounding(name: str, mode: str) -> None:
    exact, rounded = loaded(name, "cuda"), loaded(name, "cuda", torch.bfloat16)
    asked = prompts(exact, 48)
    replies = asyncio.run(ask_all(flat_engine(rounded), asked, options_of(rounded, mode)))
    gaps = [
        plain_logprobs(rounded.model, ids, completion, 1.0) - torch.tensor(completion.logprobs)
        for ids, completion in zip(asked, replies, strict=True)
    ]
    noise = [
        plain_logprobs(rounded.model, ids, completion, 1.0) - plain_logprobs(exact.model, ids, completion, 1.0)
        for ids, completion in zip(asked, replies, strict=True)
    ]
    # No further from transformers in bfloat16 than that is from float32, with room for luck.
    assert float(torch.cat(gaps).abs().mean()) < 2.0 * float(torch.cat(noise).abs().mean())


def play(engine: LocalEngine, model: LoadedModel, memory: Memory, reply: ReplyMode) -> list[Group]:
    world = AnyWorld()
    how = AgentSettings(
        name="small", memory=memory, reply=reply, temperature=1.0, max_tokens=12, reflection_tokens=8, retries=0,
        context=engine.length,
    )  # fmt: skip
    tasks = [Task("rps(rounds=2)", ("uniform",), 0, seed, 3, False, False, 1000) for seed in range(NUM_TASKS)]
    found: list[Group] = asyncio.run(
        play_groups(
            world, tasks, 8, lambda t, n: LanguageAgent(engine, model.chat_format, how, briefing_of(world, t), t, n)
        )
    )
    assert not any(group.failures for group in found)
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("memory", "reply"), WAYS)
def test_few_slots_give_the_tokens_of_many(memory: Memory, reply: ReplyMode, device: str) -> None:
    model = loaded("qwen3", device)
    few, many = flat_engine(model, slots=4), flat_engine(model, slots=64)
    found = [[t.streams for g in play(e, model, memory, reply) for t in g.trials] for e in (few, many)]
    assert found[0] == found[1]
    assert few.counters()["read"] < 1.3 * many.counters()["read"], "trials that go on should keep what they have read"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", ["choice", "text"])
def test_a_slot_that_was_given_up_is_read_again(mode: str, device: str) -> None:
    model = loaded("llama", device)
    few, many = flat_engine(model, slots=2), flat_engine(model, slots=16)
    streams = {engine: prompts(model, 5) for engine in (few, many)}
    for _ in range(2):
        for at in range(5):  # one after the other: nobody knows who will go on
            for engine, asked in streams.items():
                (completion,) = asyncio.run(ask_all(engine, [asked[at]], options_of(model, mode)))
                asked[at] += completion.tokens + model.chat_format.user("Round 5 of 9.")
    assert streams[few] == streams[many]
    assert few.counters()["read"] > 1.3 * many.counters()["read"]


@pytest.mark.parametrize("device", DEVICES)
def test_published_weights_are_used(device: str) -> None:
    model = loaded("qwen2", device)
    engine = flat_engine(model)
    asked = prompts(model, 6)
    asyncio.run(ask_all(engine, asked, None))
    changed = copy.deepcopy(model.model)
    with torch.no_grad():
        for weight in changed.parameters():
            weight.add_(0.1 * weight.roll(1, -1))
    asyncio.run(engine.publish(changed.state_dict()))
    for mode in ("choice", "text"):
        for ids, completion in zip(asked, asyncio.run(ask_all(engine, asked, options_of(model, mode))), strict=True):
            assert completion.version == 1
            gap = plain_logprobs(changed, ids, completion, 1.0) - torch.tensor(completion.logprobs)
            assert float(gap.abs().max()) < 1e-4


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_graphs_agree_with_eager_passes(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded("llama", "cuda", dtype)
    rng = random.Random(1)
    captured, eager = (GraphExecutor(copy.deepcopy(model.model), 40, 256) for _ in range(2))
    read = [0] * 40
    rows = [tuple(rng.randrange(len(model.tokenizer)) for _ in range(200)) for _ in range(40)]
    for number in range(12):
        chosen = rng.sample(range(40), rng.choice((1, 3, 17, 40)))
        widths = [1 if number % 3 == 2 else rng.choice((1, 2, 15, 16)) for _ in chosen]
        chunks = [
            Chunk(slot, read[slot], rows[slot][: read[slot] + width])
            for slot, width in zip(chosen, widths, strict=True)
        ]
        found = captured.forward(chunks).clone()
        with monkeypatch.context() as patch:
            patch.setattr(graph_executor, "GRAPH_TOKENS", 0)
            expected = eager.forward(chunks)
        assert float((found - expected).norm() / expected.norm()) < (1e-5 if dtype is torch.float32 else 2e-2)
        for work in chunks:
            read[work.slot] = len(work.ids)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("width", [5, 128, 300, 3000])
def test_a_free_draw_follows_the_distribution_function_and_shows_what_is_not_finite(width: int, device: str) -> None:
    generator = torch.Generator().manual_seed(1)
    logits_RV = 3 * torch.randn(64, width, generator=generator)
    uniforms_R = torch.rand(64, generator=generator, dtype=torch.float64)
    temperature_R = torch.tensor([0.5, 1.0, 2.0, 0.0]).repeat(16)
    tokens_R, logprobs_R = (
        t.cpu() for t in sample_free(logits_RV.to(device), temperature_R.to(device), uniforms_R.to(device))
    )
    for row, (temperature, point) in enumerate(zip(temperature_R.tolist(), uniforms_R.tolist(), strict=True)):
        token, logprob = int(tokens_R[row]), float(logprobs_R[row])
        if temperature == 0.0:
            assert (token, logprob) == (int(logits_RV[row].argmax()), 0.0)
            continue
        weights = (logits_RV[row].double() / temperature).softmax(0)
        before, upto = float(weights[:token].sum()), float(weights[: token + 1].sum())
        assert before - 1e-5 <= point <= upto + 1e-5
        assert logprob == pytest.approx(float(weights[token].log()), abs=1e-4)
    for broken in (torch.nan, torch.inf):
        spoiled_RV = logits_RV.clone()
        spoiled_RV[::2, width // 2] = broken
        tokens_R, logprobs_R = sample_free(spoiled_RV.to(device), temperature_R.to(device), uniforms_R.to(device))
        assert not torch.isfinite(logprobs_R[::2]).any()
        assert torch.isfinite(logprobs_R[1::2]).all()
        assert int(tokens_R.min()) >= 0
        assert int(tokens_R.max()) < width


@pytest.mark.parametrize("device", DEVICES)
def test_logits_that_are_not_finite_are_an_error(device: str) -> None:
    model = loaded("llama", device)
    engine = flat_engine(model)
    asked = prompts(model, 3)
    asyncio.run(engine.publish({n: w * torch.nan for n, w in model.model.state_dict().items()}))
    for mode in ("choice", "text"):
        with pytest.raises(Exception, match="not finite"):
            asyncio.run(ask_all(engine, asked, options_of(model, mode)))
    asyncio.run(engine.publish(model.model.state_dict()))
    asyncio.run(ask_all(engine, asked, None))
