"""New weights for the engine: used from then on, never in the middle of a call, and refused where they do not fit."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from mage.engines.local.engine import LocalEngine
from mage.errors import EngineError
from mage.models.load import LoadedModel, load_model
from mage.protocols import Sampling
from mage.types import Completion
from tests.engine_made import Ids, ask_all, assert_exact, choices, nano, prompts, run


def other_weights(loaded: LoadedModel) -> dict[str, torch.Tensor]:
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
    loaded = load_model("nano", seed=1, worlds=["rps", "kuhn_poker"])
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

    async def scene() -> list[list[Completion]]:
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
    for ids, completion in zip(prompts(loaded, 12), early, strict=True):
        assert_exact(loaded.model, ids, completion)


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
    for ids, completion in zip(others, run(ask_all(engine, others, None)), strict=True):
        assert_exact(loaded.model, ids, completion)


async def gathered(engine: LocalEngine, asked: Sequence[Ids]) -> list[Any]:
    calls = [engine.complete(ids, Sampling(1.0, 4, seed), None) for seed, ids in enumerate(asked)]
    return list(await asyncio.gather(*calls, return_exceptions=True))


def test_a_publish_that_is_cancelled_harms_nobody() -> None:
    loaded = nano()

    async def scene() -> list[Completion]:
        engine = LocalEngine(loaded, slots=2)
        asked = prompts(loaded, 6)
        calls = asyncio.ensure_future(ask_all(engine, asked, None, tokens=16))
        while engine.counters()["passes"] < 2:
            await asyncio.sleep(0)
        published = asyncio.ensure_future(engine.publish(other_weights(loaded)))
        await asyncio.sleep(0)
        published.cancel()
        found = await calls
        assert engine.version == 0, "what nobody waits for is not loaded"
        return found

    for ids, completion in zip(prompts(loaded, 6), run(scene()), strict=True):
        assert_exact(loaded.model, ids, completion)
