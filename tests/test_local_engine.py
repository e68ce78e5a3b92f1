"""The engine in this process: exact log-probabilities, whatever is batched, cached, forced or published."""

from __future__ import annotations

import asyncio
import copy
import math
import random
from collections.abc import Coroutine, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
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

from mage.checks.engines import check_engine
from mage.engines.draw import draw_tokens
from mage.engines.jobs import Ask
from mage.engines.local import LocalEngine
from mage.errors import ConfigError, EngineError
from mage.games.world import OpenSpielWorld
from mage.models.load import Loaded, load_model
from mage.players.agent import AgentSettings, LanguageAgent
from mage.protocols import Sampling
from mage.rollout.group import play_groups
from mage.seeds import pick_index
from mage.types import Group, Memory, ReplyMode, Sampled, Task

Ids = tuple[int, ...]
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
FAMILIES: dict[str, Any] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {"tie_word_embeddings": True}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 16}),
    "mistral": (MistralConfig, MistralForCausalLM, {"sliding_window": None}),
    "mistral with a window": (MistralConfig, MistralForCausalLM, {"sliding_window": 24}),
}


@cache
def nano() -> Loaded:
    return sharpened(load_model("nano(words=[20])", seed=7))


@cache
def family(name: str) -> Loaded:
    """A tiny random model that speaks with the words of nano."""
    make_config, make_model, more = FAMILIES[name]
    base = nano()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = make_model(make_config(vocab_size=len(base.tokenizer), **{**SMALL, **more})).eval()
    return sharpened(Loaded(name, model, base.tokenizer, base.codec))


def sharpened(loaded: Loaded) -> Loaded:
    """Weights large enough that tokens differ in probability, and that a wrong cache shows."""
    with torch.no_grad():
        for weight in loaded.model.parameters():
            if weight.dim() > 1:
                weight.mul_(4.0 if weight.std() < 0.1 else 1.5)
    return loaded


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def prompts(loaded: Loaded, num: int, seed: int = 0) -> list[Ids]:
    """Streams of different lengths with a common opening."""
    codec, rng = loaded.codec, random.Random(seed)
    words = ("rock", "paper", "scissors")
    made: list[Ids] = []
    for _ in range(num):
        ids = codec.opening("The game is rock-paper-scissors, against one opponent.") + codec.user("Round 1 of 3.")
        for turn in range(rng.randrange(4)):
            ids += codec.choice(rng.choice(words))
            ids += codec.user(f"Round {turn + 2} of 9. Last round: you rock, opponent {rng.choice(words)}.")
        made.append(ids)
    return made


def choices(loaded: Loaded, *actions: str) -> list[Ids]:
    return [loaded.codec.choice(action) for action in actions or ("bet", "bet 2", "pass", "rock")]


def plain_logprobs(model: Any, prompt: Ids, sampled: Sampled, temperature: float) -> list[float]:
    """What a plain forward pass over prompt and reply says of the sampled tokens."""
    with torch.no_grad():
        logits_TV = model(torch.tensor([prompt + sampled.tokens]), use_cache=False).logits[0].float() / temperature
    found: list[float] = []
    for at, token in enumerate(sampled.tokens):
        logits_V = logits_TV[len(prompt) + at - 1]
        if sampled.allowed is not None:
            others = torch.full_like(logits_V, -torch.inf)
            others[list(sampled.allowed[at])] = logits_V[list(sampled.allowed[at])]
            logits_V = others
        found.append(float(logits_V.log_softmax(-1)[token]))
    return found


def assert_exact(model: Any, prompt: Ids, sampled: Sampled, temperature: float = 1.0) -> None:
    assert list(sampled.logprobs) == pytest.approx(plain_logprobs(model, prompt, sampled, temperature), abs=1e-4)


async def ask_all(
    engine: LocalEngine, asked: Sequence[Ids], options: list[Ids] | None, temperature: float = 1.0, tokens: int = 6
) -> list[Sampled]:
    calls = [engine.complete(ids, Sampling(temperature, tokens, seed), options) for seed, ids in enumerate(asked)]
    return list(await asyncio.gather(*calls))


def test_the_contract_is_kept() -> None:
    check_engine(LocalEngine(nano(), slots=8), nano().codec)


@pytest.mark.filterwarnings("ignore:.*runs without a prefix cache")
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("mode", ["choice", "text"])
def test_logprobs_are_those_of_a_plain_pass(name: str, mode: str) -> None:
    loaded = family(name)
    engine = LocalEngine(loaded, slots=16)
    options = choices(loaded) if mode == "choice" else None
    asked = prompts(loaded, 12)
    for temperature in (1.0, 0.6):
        first = run(ask_all(engine, asked, options, temperature))
        for ids, sampled in zip(asked, first, strict=True):
            assert_exact(loaded.model, ids, sampled, temperature)
        asked = [ids + s.tokens + loaded.codec.user("Round 5 of 9.") for ids, s in zip(asked, first, strict=True)]
    if "window" not in name:
        assert engine.counters()["hits"] >= 12, "the second round should find its prefixes"


def test_a_model_that_cannot_use_the_cache_says_so_once_and_reads_everything() -> None:
    loaded = family("mistral with a window")
    with pytest.warns(UserWarning, match="attention window of 24 is shorter"):
        engine = LocalEngine(loaded, slots=4)
    asked = prompts(loaded, 3)
    run(ask_all(engine, asked, choices(loaded, "rock", "paper")))
    assert engine.counters()["read"] == sum(map(len, asked))


def test_a_trials_next_call_pays_only_for_its_new_tokens() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=8)
    (prompt,) = prompts(loaded, 1)
    options = choices(loaded, "rock", "paper")
    (sampled,) = run(ask_all(engine, [prompt], options))
    assert engine.counters() | {"hits": 0, "reused": 0} == engine.counters()
    assert engine.counters()["read"] == len(prompt)
    engine.reset_counters()
    more = loaded.codec.user("Round 2 of 3.")
    run(ask_all(engine, [prompt + sampled.tokens + more], options))
    assert engine.counters() == {
        "calls": 1,
        "hits": 1,
        "read": len(sampled.tokens) + len(more),
        "reused": len(prompt),
        "sampled": 1,
        "forced": 1,
        "passes": 1,
    }


def test_a_shared_opening_is_read_once() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=16)
    opening = loaded.codec.opening("The game is rock-paper-scissors. " * 8)
    asked = [opening + loaded.codec.user(f"Round {n % 9} of 9.") for n in range(16)]
    assert len(opening) > 32
    sampled = run(ask_all(engine, asked, choices(loaded, "rock", "paper")))
    for ids, one in zip(asked, sampled, strict=True):
        assert_exact(loaded.model, ids, one)
    assert engine.counters()["read"] < len(opening) + 16 * len(asked[0][len(opening) :]) + 1


def test_forced_tokens_cost_no_pass() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=4)
    (prompt,) = prompts(loaded, 1)
    (sampled,) = run(ask_all(engine, [prompt], choices(loaded, "you play rock")))
    assert sampled.tokens == loaded.codec.choice("you play rock")
    assert sampled.logprobs == (0.0,) * 4
    assert sampled.allowed == tuple((token,) for token in sampled.tokens)
    assert engine.counters()["passes"] == engine.counters()["read"] == 0
    (sampled,) = run(ask_all(engine, [prompt], choices(loaded, "you play rock", "you play paper")))
    assert [len(ids) for ids in sampled.allowed or ()] == [1, 1, 2, 1]
    assert engine.counters()["passes"] == 1
    assert_exact(loaded.model, prompt, sampled)


def test_where_one_action_begins_another_the_end_is_a_decision() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=64)
    (prompt,) = prompts(loaded, 1)
    sampled = run(ask_all(engine, [prompt] * 64, choices(loaded, "bet", "bet 2")))
    assert {one.tokens for one in sampled} == set(choices(loaded, "bet", "bet 2"))
    for one in sampled:
        assert one.allowed is not None
        assert loaded.codec.end in one.allowed[1]
        assert one.logprobs[1] < 0
        assert_exact(loaded.model, prompt, one)


def test_action_probabilities_are_exact_and_sum_to_one() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=8)
    prompt = prompts(loaded, 1, seed=2)[0]
    options = choices(loaded, "bet", "bet 2", "bet 20", "pass", "you play rock", "you play paper")
    found = run(engine.action_logprobs(prompt, options, temperature=0.8))
    assert sum(math.exp(p) for p in found) == pytest.approx(1.0, abs=1e-6)
    for sampled in run(ask_all(engine, [prompt] * 8, options, 0.8)):
        assert sum(sampled.logprobs) == pytest.approx(found[options.index(sampled.tokens)], abs=1e-4)


def test_samples_follow_the_probabilities() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=64)
    prompt = prompts(loaded, 1, seed=2)[0]
    options = choices(loaded, "bet", "bet 2", "pass")
    found = run(engine.action_logprobs(prompt, options))
    num = 2000
    sampled = run(ask_all(engine, [prompt] * num, options))
    for option, logprob in zip(options, found, strict=True):
        share, p = sum(one.tokens == option for one in sampled) / num, math.exp(logprob)
        assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / num) + 1e-9


def test_greedy_takes_the_likeliest_and_is_certain() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=4)
    prompt = prompts(loaded, 1, seed=2)[0]
    options = choices(loaded, "rock", "paper", "scissors")
    found = run(engine.action_logprobs(prompt, options))
    (sampled,) = run(ask_all(engine, [prompt], options, temperature=0.0))
    assert sampled.tokens == options[found.index(max(found))]
    assert sampled.logprobs == (0.0, 0.0)
    (free,) = run(ask_all(engine, [prompt], None, temperature=0.0))
    with torch.no_grad():
        assert free.tokens[0] == int(loaded.model(torch.tensor([prompt])).logits[0, -1].argmax())


async def shuffled(engine: LocalEngine, asked: list[Ids], order: list[int], pause: bool) -> list[Sampled]:
    async def one(index: int) -> Sampled:
        for _ in range(index % 3 if pause else 0):
            await asyncio.sleep(0)
        return await engine.complete(asked[index], Sampling(1.0, 5, index), None)

    found = await asyncio.gather(*(one(index) for index in order))
    return [found[order.index(index)] for index in range(len(asked))]


def test_the_order_of_arrival_changes_nothing() -> None:
    asked = prompts(nano(), 24)
    order = list(range(24))
    expected = run(shuffled(LocalEngine(nano(), slots=32), asked, order, pause=False))
    for seed in range(3):
        random.Random(seed).shuffle(order)
        again = run(shuffled(LocalEngine(nano(), slots=32), asked, order, pause=True))
        assert again == expected, "to the last bit, log-probabilities included"


def play(
    engine: LocalEngine, loaded: Loaded, memory: Memory, num: int = 8, reply: ReplyMode = ReplyMode.CHOICE
) -> list[Group]:
    world = OpenSpielWorld()
    how = AgentSettings("nano", memory, reply, 1.0, 12, 8, 0, engine.length)
    tasks = [Task("rps(rounds=2)", ("uniform",), 0, seed, 3, False, False, 1000) for seed in range(num)]
    found: list[Group] = run(
        play_groups(
            world, tasks, 8, lambda task, n: LanguageAgent(engine, loaded.codec, how, world.rules(task), task, n)
        )
    )
    assert not any(group.failures for group in found)
    return found


def tokens_of(groups: Sequence[Group]) -> list[Any]:
    return [trial.streams for group in groups for trial in group.trials]


@pytest.mark.parametrize("memory", [Memory.HISTORY, Memory.BOTH])
def test_few_slots_and_many_trials_give_the_tokens_of_many_slots(memory: Memory) -> None:
    few, many = LocalEngine(nano(), slots=4), LocalEngine(nano(), slots=64)
    assert tokens_of(play(few, nano(), memory)) == tokens_of(play(many, nano(), memory))
    assert few.counters()["read"] > 1.2 * many.counters()["read"], (
        "the few slots should have been given up and read again"
    )


def test_whole_trials_are_the_same_twice_and_exact() -> None:
    engine = LocalEngine(nano(), slots=64)
    first = play(engine, nano(), Memory.BOTH, num=2, reply=ReplyMode.TEXT)
    engine.reset_cache()
    assert play(engine, nano(), Memory.BOTH, num=2, reply=ReplyMode.TEXT) == first, "to the last bit"
    for trial in (trial for group in first for trial in group.trials[:2]):
        for turn in (*(t for e in trial.episodes for t in e.turns), *trial.reflections):
            for call in turn.calls:
                assert_exact(nano().model, trial.streams[call.stream][: call.start], call.sampled)


def other_weights(loaded: Loaded) -> dict[str, torch.Tensor]:
    return {name: tensor + 0.1 * tensor.roll(1, -1) for name, tensor in loaded.model.state_dict().items()}


def test_published_weights_are_used_and_the_cache_is_dropped() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=8)
    asked = prompts(loaded, 5)
    before = run(ask_all(engine, asked, None))
    run(engine.publish(other_weights(loaded)))
    changed = copy.deepcopy(loaded.model)
    changed.load_state_dict(other_weights(loaded))
    after = run(ask_all(engine, asked, None))
    assert {s.version for s in before} == {0}
    assert {s.version for s in after} == {1} == {engine.version}
    for ids, old, new in zip(asked, before, after, strict=True):
        assert_exact(loaded.model, ids, old)
        assert_exact(changed, ids, new)


def test_the_engine_has_weights_of_its_own() -> None:
    loaded = load_model("nano", seed=1)
    engine = LocalEngine(loaded, slots=4)
    prompt = prompts(loaded, 1)[0]
    before = run(engine.action_logprobs(prompt, choices(loaded)))
    with torch.no_grad():
        for weight in loaded.model.parameters():
            weight.add_(1.0)
    engine.reset_cache()
    assert run(engine.action_logprobs(prompt, choices(loaded))) == before


def test_publish_waits_for_calls_in_flight_and_others_wait_for_it() -> None:
    loaded = nano()

    async def scene() -> list[list[Sampled]]:
        engine = LocalEngine(loaded, slots=4)
        asked = prompts(loaded, 12)
        early = asyncio.ensure_future(ask_all(engine, asked, None, tokens=16))
        while engine.counters()["passes"] < 2:
            await asyncio.sleep(0)
        published = asyncio.ensure_future(engine.publish(other_weights(loaded)))
        again = asyncio.ensure_future(engine.publish(loaded.model.state_dict()))
        await asyncio.sleep(0)
        assert not published.done()
        late = asyncio.ensure_future(ask_all(engine, asked, None, tokens=16))
        done = [await early, await late]
        await published
        await again
        assert engine.version == 2
        return done

    early, late = run(scene())
    assert {0, 2} == {s.version for s in early}, "four slots: some began before, the rest waited for the weights"
    assert {s.version for s in late} == {2}
    for ids, sampled in zip(prompts(loaded, 12), early, strict=True):
        assert_exact(loaded.model, ids, sampled)


def test_weights_that_do_not_fit_are_refused() -> None:
    engine = LocalEngine(nano(), slots=4)
    weights = nano().model.state_dict()
    with pytest.raises(EngineError, match="no weight called 'nonsense'"):
        run(engine.publish({**weights, "nonsense": torch.zeros(1)}))
    with pytest.raises(EngineError, match=r"'model\.norm\.weight' is missing"):
        run(engine.publish({name: w for name, w in weights.items() if name != "model.norm.weight"}))
    with pytest.raises(EngineError, match=r"has shape \(64,\), not \(2,\)"):
        run(engine.publish({**weights, "model.norm.weight": torch.zeros(2)}))
    assert engine.version == 0
    run(engine.publish({name: w for name, w in weights.items() if name != "lm_head.weight"}))
    assert engine.version == 1, "a tied head may be left out, as it is on disk"


def test_a_model_that_diverged_is_an_error_for_its_callers_and_no_hang() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=4)
    run(engine.publish({name: w * math.nan for name, w in loaded.model.state_dict().items()}))
    found = run(gathered(engine, prompts(loaded, 6)))
    assert {type(error) for error in found} == {EngineError}
    assert "not finite" in str(found[0])
    run(engine.publish(loaded.model.state_dict()))
    others = prompts(loaded, 6)[::-1]
    for ids, sampled in zip(others, run(ask_all(engine, others, None)), strict=True):
        assert_exact(loaded.model, ids, sampled)


async def gathered(engine: LocalEngine, asked: Sequence[Ids]) -> list[Any]:
    calls = [engine.complete(ids, Sampling(1.0, 4, seed), None) for seed, ids in enumerate(asked)]
    return list(await asyncio.gather(*calls, return_exceptions=True))


def test_a_cancelled_call_gives_its_slot_back() -> None:
    loaded = nano()

    async def scene() -> Sampled:
        engine = LocalEngine(loaded, slots=1)
        prompt, other = prompts(loaded, 2)
        calls = [asyncio.ensure_future(engine.complete(prompt, Sampling(1.0, 200, n), None)) for n in range(3)]
        while engine.counters()["passes"] < 2:
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        return await engine.complete(other, Sampling(1.0, 3, 9), None)

    assert_exact(loaded.model, prompts(loaded, 2)[1], run(scene()))


def test_an_engine_outlives_a_loop_that_was_stopped() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=1)
    prompt = prompts(loaded, 1)[0]

    async def stopped() -> None:
        await asyncio.wait_for(ask_all(engine, [prompt] * 4, None, tokens=400), timeout=0.02)

    with pytest.raises(TimeoutError):
        run(stopped())
    (sampled,) = run(ask_all(engine, [prompt], None))
    assert_exact(loaded.model, prompt, sampled)


@pytest.mark.parametrize(
    ("prompt", "sampling", "options", "message"),
    [
        ((), Sampling(1.0, 4, 0), None, "prompt is empty"),
        ((5,) * 125, Sampling(1.0, 4, 0), None, "125 tokens and an answer of 4 do not fit the engine's 128"),
        ((5,), Sampling(-1.0, 4, 0), None, "temperature must be 0 or more, not -1.0"),
        ((5,), Sampling(math.nan, 4, 0), None, "temperature must be 0 or more"),
        ((5,), Sampling(1.0, 0, 0), None, "max_tokens is 0"),
        ((5,), Sampling(1.0, 2, 0), [(7, 8, 2), (9, 2)], "max_tokens is 2, but the longest answer has 3 tokens"),
        ((5,), Sampling(1.0, 4, 0), [], "at least one choice"),
        ((5,), Sampling(1.0, 4, 0), [(7, 2), (7, 2)], "choices must differ"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    prompt: Ids, sampling: Sampling, options: list[Ids] | None, message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        run(LocalEngine(nano(), slots=2, length=128).complete(prompt, sampling, options))


def test_an_engine_needs_room() -> None:
    with pytest.raises(ConfigError, match="room for 16 tokens at least, not 8"):
        LocalEngine(nano(), length=8)
    with pytest.raises(ConfigError, match="one slot at least, not 0"):
        LocalEngine(nano(), slots=0)
    assert LocalEngine(nano()).length == 1024


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=12),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_a_draw_is_the_inverse_of_the_distribution_function(logits: list[float], point: float, heat: float) -> None:
    weights = (torch.tensor(logits, dtype=torch.float64) / heat).softmax(0).tolist()
    edges = [sum(weights[: n + 1]) for n in range(len(weights))]
    draw, bound = draw_tokens(
        torch.tensor([logits, logits]), [Ask(None, heat, point), Ask(tuple(range(len(logits))), heat, point)]
    )
    assert (draw.token, draw.logprob) == (bound.token, bound.logprob)
    if min(abs(point - edge) for edge in edges) > 1e-5:
        assert draw.token == pick_index(weights, point)
    assert draw.logprob == pytest.approx(math.log(weights[draw.token]), abs=1e-4)
    assert bound.logprobs == pytest.approx([math.log(w) for w in weights], abs=1e-4)


def test_what_has_no_probability_is_never_drawn() -> None:
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]])
    found = [draw_tokens(logits, [Ask(None, 1.0, point)])[0].token for point in (0.0, 0.49, 0.5, 1 - 2**-53)]
    assert found == [1, 1, 3, 3]
