"""The engine in this process: exact log-probabilities, whatever is batched, forced or stopped."""

from __future__ import annotations

import asyncio
import math
import random

import pytest
import torch

from mage.checks.engines import check_engine
from mage.engines.local.engine import LocalEngine
from mage.protocols import Sampling
from mage.types import Completion
from tests.engine_made import FAMILIES, Ids, ask_all, assert_exact, choices, family, nano, prompts, run


def test_the_contract_is_kept() -> None:
    check_engine(LocalEngine(nano(), slots=8), nano().chat_format)


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
        for ids, completion in zip(asked, first, strict=True):
            assert_exact(loaded.model, ids, completion, temperature)
        asked = [ids + s.tokens + loaded.chat_format.user("Round 5 of 9.") for ids, s in zip(asked, first, strict=True)]
    if "window" not in name:
        assert engine.counters()["hits"] >= 12, "the second round should find its prefixes"


def test_forced_tokens_cost_no_pass() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=4)
    (prompt,) = prompts(loaded, 1)
    (completion,) = run(ask_all(engine, [prompt], choices(loaded, "you play rock")))
    assert completion.tokens == loaded.chat_format.choice("you play rock")
    assert completion.logprobs == (0.0,) * 4
    assert completion.allowed == tuple((token,) for token in completion.tokens)
    assert engine.counters()["passes"] == engine.counters()["read"] == 0
    (completion,) = run(ask_all(engine, [prompt], choices(loaded, "you play rock", "you play paper")))
    assert [len(ids) for ids in completion.allowed or ()] == [1, 1, 2, 1]
    assert engine.counters()["passes"] == 1
    assert_exact(loaded.model, prompt, completion)


def test_where_one_action_begins_another_the_end_is_a_decision() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=64)
    (prompt,) = prompts(loaded, 1)
    completion = run(ask_all(engine, [prompt] * 64, choices(loaded, "bet", "bet 2")))
    assert {one.tokens for one in completion} == set(choices(loaded, "bet", "bet 2"))
    for one in completion:
        assert one.allowed is not None
        assert loaded.chat_format.end in one.allowed[1]
        assert one.logprobs[1] < 0
        assert_exact(loaded.model, prompt, one)


def test_action_probabilities_are_exact_and_sum_to_one() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=8)
    prompt = prompts(loaded, 1, seed=2)[0]
    options = choices(loaded, "bet", "bet 2", "bet 20", "pass", "you play rock", "you play paper")
    found = run(engine.action_logprobs(prompt, options, temperature=0.8))
    assert sum(math.exp(p) for p in found) == pytest.approx(1.0, abs=1e-6)
    for completion in run(ask_all(engine, [prompt] * 8, options, 0.8)):
        assert sum(completion.logprobs) == pytest.approx(found[options.index(completion.tokens)], abs=1e-4)


def test_samples_follow_the_probabilities() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=64)
    prompt = prompts(loaded, 1, seed=2)[0]
    options = choices(loaded, "bet", "bet 2", "pass")
    found = run(engine.action_logprobs(prompt, options))
    num = 2000
    completion = run(ask_all(engine, [prompt] * num, options))
    for option, logprob in zip(options, found, strict=True):
        share, p = sum(one.tokens == option for one in completion) / num, math.exp(logprob)
        assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / num) + 1e-9


def test_greedy_takes_the_likeliest_and_is_certain() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=4)
    prompt = prompts(loaded, 1, seed=2)[0]
    options = choices(loaded, "rock", "paper", "scissors")
    found = run(engine.action_logprobs(prompt, options))
    (completion,) = run(ask_all(engine, [prompt], options, temperature=0.0))
    assert completion.tokens == options[found.index(max(found))]
    assert completion.logprobs == (0.0, 0.0)
    (free,) = run(ask_all(engine, [prompt], None, temperature=0.0))
    with torch.no_grad():
        assert free.tokens[0] == int(loaded.model(torch.tensor([prompt])).logits[0, -1].argmax())


async def shuffled(engine: LocalEngine, asked: list[Ids], order: list[int], pause: bool) -> list[Completion]:
    async def one(index: int) -> Completion:
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


def test_a_cancelled_call_gives_its_slot_back() -> None:
    loaded = nano()

    async def scene() -> Completion:
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
    (completion,) = run(ask_all(engine, [prompt], None))
    assert_exact(loaded.model, prompt, completion)
