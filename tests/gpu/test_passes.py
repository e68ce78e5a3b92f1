"""Which rows share a pass: halves, bursts, and rows that come and go while others are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mage.engines.local import passes
from mage.engines.local.engine import LocalEngine
from mage.engines.local.graph_executor import GraphExecutor
from mage.protocols import Sampling
from mage.types import Completion, Memory, ReplyMode
from tests.engine_made import Ids
from tests.gpu.test_graph_executor import DEVICES, WAYS, flat_engine, loaded, play, prompts


def in_halves(engine: LocalEngine) -> LocalEngine:
    """An engine that goes on with one half of its rows while the other is under way, on a CPU too."""
    assert isinstance(engine._executor, GraphExecutor)
    engine._executor.overlaps = True
    return engine


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("memory", "reply"), WAYS)
def test_halves_give_the_tokens_of_the_whole(
    memory: Memory, reply: ReplyMode, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_MIN_HALF", "_MIN_TEXT_HALF"):
        monkeypatch.setattr(passes, name, 8)
    model = loaded("qwen3", device)
    whole, halves, few = flat_engine(model), in_halves(flat_engine(model)), in_halves(flat_engine(model, slots=20))
    assert isinstance(whole._executor, GraphExecutor)
    whole._executor.overlaps = False
    found = [[t.streams for g in play(e, model, memory, reply) for t in g.trials] for e in (whole, halves, few)]
    assert found[0] == found[1] == found[2]
    counts = [engine.counters() for engine in (whole, halves)]
    assert counts[1]["passes"] > 1.3 * counts[0]["passes"], "rows should have been read in two halves"
    assert counts[1]["read"] < 1.1 * counts[0]["read"], "siblings should wait for a prefix that is under way"


@pytest.mark.parametrize("device", DEVICES)
def test_a_call_that_is_cancelled_under_way_leaves_its_slot_clean(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_MIN_TEXT_HALF", 1)
    model = loaded("llama", device)
    asked = prompts(model, 8)

    async def scene(engine: LocalEngine) -> list[Completion]:
        calls = [asyncio.ensure_future(engine.complete(ids, Sampling(1.0, 40, 0), None)) for ids in asked]
        while not engine._passes.are_in_flight:
            await asyncio.sleep(0)
        for call in calls[4:]:
            call.cancel()
        later = [engine.complete(ids, Sampling(1.0, 20, 1), None) for ids in asked]
        await asyncio.gather(*calls[:4])
        return list(await asyncio.gather(*later))

    busy = asyncio.run(scene(in_halves(flat_engine(model, slots=6))))
    fresh = [asyncio.run(flat_engine(model).complete(ids, Sampling(1.0, 20, 1), None)) for ids in asked]
    assert [s.tokens for s in busy] == [s.tokens for s in fresh]


async def of_many_lengths(engine: LocalEngine, asked: Sequence[Ids], temperature: float) -> list[Completion]:
    calls = [engine.complete(ids, Sampling(temperature, 3 + 2 * n, n), None) for n, ids in enumerate(asked)]
    return list(await asyncio.gather(*calls))


@pytest.mark.parametrize("device", DEVICES)
def test_a_burst_gives_the_tokens_of_one_at_a_time(device: str) -> None:
    model = loaded("llama", device)
    slow, fast = flat_engine(model), flat_engine(model)
    assert isinstance(slow._executor, GraphExecutor)
    slow._executor.burst = 1
    asked = prompts(model, 20)
    for temperature in (1.0, 0.0):
        one, other = (asyncio.run(of_many_lengths(e, asked, temperature)) for e in (slow, fast))
        assert [s.tokens for s in one] == [s.tokens for s in other]
        assert len({len(s.tokens) for s in one}) > 10
        for a, b in zip(one, other, strict=True):
            assert list(a.logprobs) == pytest.approx(list(b.logprobs), abs=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_few_texts_that_begin_at_different_times_decode_together(device: str) -> None:
    """A pass that decodes reads all weights: new rows join the others instead of taking turns with them."""
    model = loaded("llama", device)
    asked = prompts(model, 12)

    async def scene(engine: LocalEngine) -> list[Completion]:
        calls = []
        for number, ids in enumerate(asked):
            calls.append(asyncio.ensure_future(engine.complete(ids, Sampling(1.0, 40, number), None)))
            if number % 4 == 3:  # the next four arrive while these are decoded
                passes = engine.counters()["passes"]
                while engine.counters()["passes"] == passes:
                    await asyncio.sleep(0)
        return list(await asyncio.gather(*calls))

    engine = in_halves(flat_engine(model))
    apart = [asyncio.run(flat_engine(model).complete(ids, Sampling(1.0, 40, n), None)) for n, ids in enumerate(asked)]
    assert [s.tokens for s in asyncio.run(scene(engine))] == [s.tokens for s in apart]
    longest = max(len(s.tokens) for s in apart)
    assert longest == 40
    assert engine.counters()["passes"] < 2 * longest, "three bursts that take turns would be about three times as many"


@pytest.mark.parametrize("device", DEVICES)
def test_a_short_reply_does_not_wait_for_a_long_one(device: str) -> None:
    model = loaded("llama", device)
    first, second = prompts(model, 2)

    async def scene() -> int:
        engine = flat_engine(model)
        long = asyncio.ensure_future(engine.complete(first, Sampling(1.0, 300, 1), None))
        await engine.complete(second, Sampling(1.0, 4, 2), None)
        passes = engine.counters()["passes"]
        long.cancel()
        return passes

    assert asyncio.run(scene()) < 60
