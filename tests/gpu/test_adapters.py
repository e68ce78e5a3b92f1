"""Several adapters in one engine: each plays as the merged model would, whatever else is in the batch."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
import torch

from mage.engines.local.adapters import AdapterCapacity
from mage.engines.local.engine import LocalEngine
from mage.errors import ConfigError, EngineError
from mage.models.load import LoadedModel
from mage.protocols import Sampling
from mage.types import Completion
from mage.weights import LowRank
from tests.gpu.test_graph_executor import DEVICES, loaded, options_of, plain_logprobs, prompts

PROJECTIONS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
               "mlp.up_proj", "mlp.down_proj")  # fmt: skip


def drawn(model: Any, seed: int, rank: int, projections: tuple[str, ...] = PROJECTIONS) -> dict[str, LowRank]:
    """A random adapter that changes a model's mind."""
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, LowRank] = {}
    for name, module in model.named_modules():
        if name.endswith(projections):
            (num_out, num_in), like = module.weight.shape, module.weight
            a = torch.randn(rank, num_in, generator=generator) * 0.1
            b = torch.randn(num_out, rank, generator=generator) * 0.3
            found[name] = LowRank(a.to(like), b.to(like), 0.5 + seed)
    return found


def merged(model: Any, adapter: dict[str, LowRank]) -> Any:
    own = copy.deepcopy(model)
    with torch.no_grad():
        for name, (a, b, scaling) in adapter.items():
            own.get_submodule(name).weight.add_(scaling * (b @ a))
    return own


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", ["choice", "text"])
@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_a_mixed_batch_gives_each_adapter_its_own_logprobs(name: str, mode: str, device: str) -> None:
    model = loaded(name, device)
    adapters = {
        "one": drawn(model.model, 1, rank=8),
        "two": drawn(model.model, 2, rank=3),
        "few": drawn(model.model, 3, rank=8, projections=("q_proj", "up_proj")),
    }
    players = {"": model.model} | {key: merged(model.model, adapter) for key, adapter in adapters.items()}
    engine = LocalEngine(model, slots=64, adapters=AdapterCapacity(3, 8))
    asked = prompts(model, 6)
    options = options_of(model, mode)

    async def scene() -> dict[str, list[Completion]]:
        for key, adapter in adapters.items():
            await engine.publish_adapter(key, adapter, version=7)
        seats = {key: engine.adapter(key) if key else engine for key in players}
        calls = {
            key: [seat.complete(ids, Sampling(1.0, 12, n), options) for n, ids in enumerate(asked)]
            for key, seat in seats.items()
        }
        found = await asyncio.gather(*(call for those in calls.values() for call in those))
        return {key: found[6 * n : 6 * n + 6] for n, key in enumerate(seats)}

    for _ in range(2):  # the second time from what the first has read
        replies = asyncio.run(scene())
        for key, player in players.items():
            for ids, completion in zip(asked, replies[key], strict=True):
                gap = plain_logprobs(player, ids, completion, 1.0) - torch.tensor(completion.logprobs)
                assert float(gap.abs().max()) < 1e-4, key
                assert completion.version == (7 if key else 0)
    assert len({tuple(s.logprobs for s in those) for those in replies.values()}) == 4, "the adapters differ"


@pytest.mark.parametrize("device", DEVICES)
def test_a_new_version_forgets_what_the_old_one_read(device: str) -> None:
    model = loaded("llama", device)
    engine = LocalEngine(model, slots=8, adapters=AdapterCapacity(1, 4))
    (prompt,) = prompts(model, 1)
    for seed in (1, 2):
        adapter = drawn(model.model, seed, rank=4)
        asyncio.run(engine.publish_adapter("one", adapter))
        completion = asyncio.run(engine.adapter("one").complete(prompt, Sampling(1.0, 6, 0), None))
        gap = plain_logprobs(merged(model.model, adapter), prompt, completion, 1.0) - torch.tensor(completion.logprobs)
        assert float(gap.abs().max()) < 1e-4
        assert completion.version == engine.adapter("one").version == seed - 1


@pytest.mark.parametrize("device", DEVICES)
def test_the_place_of_an_adapter_that_is_dropped_is_taken_by_the_next(device: str) -> None:
    model = loaded("llama", device)
    engine = LocalEngine(model, slots=8, adapters=AdapterCapacity(2, 4))
    (prompt,) = prompts(model, 1)
    adapters = {name: drawn(model.model, seed, rank=4) for seed, name in enumerate("abc")}
    for name in "ab":
        asyncio.run(engine.publish_adapter(name, adapters[name]))
    asyncio.run(engine.adapter("a").complete(prompt, Sampling(1.0, 6, 0), None))
    engine.drop_adapter("a")
    with pytest.raises(EngineError, match="no adapter 'a'"):
        engine.drop_adapter("a")
    asyncio.run(engine.publish_adapter("c", adapters["c"]))
    for name in "bc":
        completion = asyncio.run(engine.adapter(name).complete(prompt, Sampling(1.0, 6, 0), None))
        gap = plain_logprobs(merged(model.model, adapters[name]), prompt, completion, 1.0)
        assert float((gap - torch.tensor(completion.logprobs)).abs().max()) < 1e-4, name


@pytest.mark.parametrize("device", DEVICES)
def test_nothing_of_a_place_s_last_adapter_is_left(device: str) -> None:
    model = loaded("llama", device)
    engine = LocalEngine(model, slots=4, adapters=AdapterCapacity(1, 8))
    (prompt,) = prompts(model, 1)
    asyncio.run(engine.publish_adapter("one", drawn(model.model, 1, rank=8)))
    less = drawn(model.model, 2, rank=3, projections=("q_proj", "up_proj"))
    asyncio.run(engine.publish_adapter("one", less))
    completion = asyncio.run(engine.adapter("one").complete(prompt, Sampling(1.0, 6, 0), None))
    expected = plain_logprobs(merged(model.model, less), prompt, completion, 1.0)
    assert float((expected - torch.tensor(completion.logprobs)).abs().max()) < 1e-4


def test_what_does_not_fit_is_refused() -> None:
    model = loaded("llama", "cpu")
    engine = LocalEngine(model, slots=4, adapters=AdapterCapacity(1, 4))
    good = drawn(model.model, 1, rank=4)
    with pytest.raises(EngineError, match=r"rank is 5 .* room for 4"):
        asyncio.run(engine.publish_adapter("one", drawn(model.model, 1, rank=5)))
    with pytest.raises(EngineError, match="no room for an adapter in the module 'lm_head'"):
        asyncio.run(engine.publish_adapter("one", {"lm_head": next(iter(good.values()))}))
    with pytest.raises(EngineError, match="no adapter 'one' was published; there are: none"):
        asyncio.run(engine.adapter("one").complete((5,), Sampling(1.0, 4, 0), None))
    asyncio.run(engine.publish_adapter("one", good))
    with pytest.raises(EngineError, match="room for 1 adapters, and 'two'"):
        asyncio.run(engine.publish_adapter("two", good))
    with pytest.raises(EngineError, match="without room"):
        asyncio.run(LocalEngine(model, slots=4).publish_adapter("one", good))
    broken = {name: LowRank(a, b * torch.nan, s) for name, (a, b, s) in good.items()}
    with pytest.raises(EngineError, match="not all finite"):
        asyncio.run(engine.publish_adapter("one", broken))
    with pytest.raises(ConfigError, match="'hf' cannot serve adapters"):
        LocalEngine(model, slots=4, adapters=AdapterCapacity(1, 4), executor="hf")
    windowed = LoadedModel("w", copy.deepcopy(model.model), model.tokenizer, model.chat_format)
    windowed.model.config.sliding_window = 24
    with pytest.raises(ConfigError, match="cannot be served with adapters"):
        LocalEngine(windowed, slots=4, adapters=AdapterCapacity(1, 4))


def test_adapters_that_wait_together_do_not_overrun_the_room() -> None:
    model = loaded("llama", "cpu")
    engine = LocalEngine(model, slots=4, adapters=AdapterCapacity(1, 4))
    (prompt,) = prompts(model, 1)
    first, second = (drawn(model.model, seed, rank=4) for seed in (1, 2))

    async def scene() -> tuple[object, object]:
        call = asyncio.ensure_future(engine.complete(prompt, Sampling(1.0, 40, 0), None))
        while engine.counters()["passes"] < 2:
            await asyncio.sleep(0)
        published = await asyncio.gather(
            engine.publish_adapter("one", first), engine.publish_adapter("two", second), return_exceptions=True
        )
        await call
        return published

    done, refused = asyncio.run(scene())
    assert done is None
    assert isinstance(refused, EngineError)
    completion = asyncio.run(engine.adapter("one").complete(prompt, Sampling(1.0, 6, 0), None))
    gap = plain_logprobs(merged(model.model, first), prompt, completion, 1.0) - torch.tensor(completion.logprobs)
    assert float(gap.abs().max()) < 1e-4, "the one that came too late has touched nothing"
