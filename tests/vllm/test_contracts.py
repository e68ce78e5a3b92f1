"""The policy server on vLLM keeps the contracts: in this process and over HTTP, tied and untied heads, and LoRA."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import log
from typing import Any

import pytest

from mage.checks.servers import check_policy_server, check_publish
from mage.engines.local.server import LocalPolicyServer
from mage.engines.vllm.backend import Backend
from mage.engines.vllm.requests import MAX_DECISION_IDS, VllmAnswer, VllmRequest
from mage.engines.vllm.server import VllmPolicyServer
from mage.errors import ConfigError, EngineError
from mage.protocols import PolicyServer, Sampling
from mage.types import Completion
from mage.weights import PolicyWeights
from tests.engine_made import choices, prompts
from tests.vllm.conftest import MakeBackend
from tests.vllm.made import KINDS, LENGTH, PLACES, learner_of, model_of, settings_of, two_weights

WHERE = ("here", "http")
TOLERANCE = 1e-5
"""Of log-probabilities; ours and vLLM's were 4e-6 apart at most."""


def server_of(backend: Backend, kind: str) -> VllmPolicyServer:
    return VllmPolicyServer(model_of(kind), settings_of(kind), backend)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", WHERE)
def test_policies_play_with_what_was_published_last(make_backend: MakeBackend, where: str, kind: str) -> None:
    backend = make_backend(where, kind)
    assert server_of(backend, kind).limits.policies == (PLACES if kind == "adapters" else 1)
    check_policy_server(lambda: server_of(backend, kind), two_weights(kind), model_of(kind).chat_format)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", WHERE)
def test_what_vllm_plays_is_what_the_learner_says(make_backend: MakeBackend, where: str, kind: str) -> None:
    server = server_of(make_backend(where, kind), kind)
    check_publish(server, learner_of(kind), model_of(kind).chat_format, tolerance=TOLERANCE)


@pytest.mark.parametrize("where", WHERE)
def test_log_probabilities_are_of_the_distribution_that_was_sampled_from(make_backend: MakeBackend, where: str) -> None:
    server, learner = server_of(make_backend(where, "tied"), "tied"), learner_of("tied", "agent.temperature=0.7")
    check_publish(server, learner, model_of("tied").chat_format, temperature=0.7, tolerance=TOLERANCE)


@pytest.mark.parametrize("kind", ["tied", "adapters"])
@pytest.mark.parametrize("where", WHERE)
def test_calls_in_flight_are_answered_with_the_weights_they_began_with(
    make_backend: MakeBackend, where: str, kind: str
) -> None:
    loaded, server = model_of(kind), server_of(make_backend(where, kind), kind)
    first, second = two_weights(kind)
    options, requests = choices(loaded, "bet", "bet 2", "pass"), prompts(loaded, 6)

    def calls() -> list[asyncio.Task[Completion]]:
        engine = server.policy("main")
        return [
            asyncio.create_task(engine.complete(ids, Sampling(1.0, 8, seed), given))
            for seed, ids in enumerate(requests)
            for given in (None, options)
        ]

    async def play() -> tuple[list[Completion], ...]:
        await server.publish("main", first, 0)
        before = await asyncio.gather(*calls())
        begun = calls()
        await asyncio.sleep(0)
        published = asyncio.create_task(server.publish("main", second, 1))
        await asyncio.sleep(0)
        late = calls()
        during, later = await asyncio.gather(*begun), await asyncio.gather(*late)
        await published
        return before, during, later, await asyncio.gather(*calls())

    before, during, later, after = asyncio.run(play())
    assert {reply.version for reply in (*before, *during)} == {0}
    assert {reply.version for reply in (*later, *after)} == {1}
    for expected, found in ((before, during), (after, later)):
        assert [reply.tokens for reply in found] == [reply.tokens for reply in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=TOLERANCE)
    assert [reply.tokens for reply in before] != [reply.tokens for reply in after]


async def asked(server: PolicyServer, kind: str, temperature: float, num: int = 24) -> list[Completion]:
    """Choices of many prompts at once, at a temperature."""
    loaded = model_of(kind)
    await server.publish("main", two_weights(kind)[0], 5)
    engine, options = server.policy("main"), choices(loaded, "bet", "bet 2", "pass", "rock")
    calls = [
        engine.complete(ids, Sampling(temperature, 8, seed), options) for seed, ids in enumerate(prompts(loaded, num))
    ]
    return list(await asyncio.gather(*calls))


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
@pytest.mark.parametrize("where", WHERE)
def test_choices_are_those_of_the_local_engine(make_backend: MakeBackend, where: str, temperature: float) -> None:
    found = asyncio.run(asked(server_of(make_backend(where, "tied"), "tied"), "tied", temperature))
    wanted = asyncio.run(asked(LocalPolicyServer(model_of("tied"), settings_of("tied")), "tied", temperature))
    assert [(c.tokens, c.allowed, c.version) for c in found] == [(c.tokens, c.allowed, c.version) for c in wanted]
    assert len({c.tokens for c in found}) > 1
    for one, other in zip(found, wanted, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=TOLERANCE)


@pytest.mark.parametrize("where", WHERE)
def test_forced_tokens_cost_no_request_and_a_decision_costs_one(make_backend: MakeBackend, where: str) -> None:
    loaded, server = model_of("tied"), server_of(make_backend(where, "tied"), "tied")

    async def play() -> tuple[Completion, Completion]:
        await server.publish("main", two_weights("tied")[0], 0)
        engine, prompt = server.policy("main"), prompts(loaded, 1)[0]
        before = server.metrics()["requests"]
        single = await engine.complete(prompt, Sampling(1.0, 8, 1), choices(loaded, "rock"))
        assert server.metrics()["requests"] == before
        several = await engine.complete(prompt, Sampling(1.0, 8, 1), choices(loaded, "rock", "pass"))
        assert server.metrics()["requests"] == before + 1
        return single, several

    single, several = asyncio.run(play())
    assert set(single.logprobs) == {0.0}
    assert several.allowed is not None
    assert several.logprobs[0] < 0.0 == several.logprobs[1]


@pytest.mark.parametrize("where", WHERE)
def test_scores_are_those_of_the_local_engine_with_more_ids_than_vllm_names(
    make_backend: MakeBackend, where: str
) -> None:
    loaded, server = model_of("tied"), server_of(make_backend(where, "tied"), "tied")
    local = LocalPolicyServer(loaded, settings_of("tied"))
    vocabulary, end = loaded.model.config.vocab_size, loaded.chat_format.end
    wide = [(token, end) for token in range(vocabulary) if token != end]
    assert len(wide) > MAX_DECISION_IDS

    async def scores(of: PolicyServer) -> list[float]:
        await of.publish("main", two_weights("tied")[0], 0)
        engine: Any = of.policy("main")
        found = [await engine.action_logprobs(prompts(loaded, 1)[0], options, 0.7) for options in (wide, wide[:5])]
        return [*found[0], *found[1]]

    found = asyncio.run(scores(server))
    assert found == pytest.approx(asyncio.run(scores(local)), abs=TOLERANCE)
    assert max(found) > log(1 / 3)


@pytest.mark.parametrize("where", WHERE)
def test_many_long_texts_at_once_are_those_of_one_at_a_time(make_backend: MakeBackend, where: str) -> None:
    """More prompts than one step has room for; on a CPU none may be read in parts."""
    server = server_of(make_backend(where, "tied"), "tied")
    chat_format, vocabulary = model_of("tied").chat_format, model_of("tied").model.config.vocab_size
    asked = [
        tuple((7 * number + 3 * at) % vocabulary for at in range(LENGTH - 16 - number % 5)) for number in range(40)
    ]

    async def play() -> tuple[list[Completion], list[Completion]]:
        await server.publish("main", two_weights("tied")[0], 0)
        engine = server.policy("main")
        calls = [engine.complete(ids, Sampling(1.0, 8, seed), None) for seed, ids in enumerate(asked)]
        together = list(await asyncio.gather(*calls))
        server.reset_cache()
        alone = [await engine.complete(ids, Sampling(1.0, 8, seed), None) for seed, ids in enumerate(asked[:8])]
        return together, alone

    together, alone = asyncio.run(play())
    assert [reply.tokens for reply in together[:8]] == [reply.tokens for reply in alone]
    assert len({reply.tokens for reply in together}) > 30
    assert all(chat_format.end not in reply.tokens[:-1] for reply in together)


def test_a_temperature_that_vllm_would_raise_is_refused(make_backend: MakeBackend) -> None:
    server = server_of(make_backend("here", "tied"), "tied")

    async def play(temperature: float) -> Completion:
        await server.publish("main", two_weights("tied")[0], 0)
        return await server.policy("main").complete((5, 6), Sampling(temperature, 4, 0), None)

    with pytest.raises(
        EngineError, match=r"vLLM has no temperature of 0\.005; set agent\.temperature to 0 or to 0\.01"
    ):
        asyncio.run(play(0.005))
    assert set(asyncio.run(play(0.0)).logprobs) == {0.0}


class OtherWeights:
    """A backend that loses something of what is published."""

    def __init__(self, inner: Backend, left_out: str) -> None:
        self._inner, self._left_out, self._first = inner, left_out, dict[str, Any]()

    @property
    def length(self) -> int:
        return self._inner.length

    async def generate(self, request: VllmRequest) -> VllmAnswer:
        if self._left_out == "salt":
            return await self._inner.generate(request._replace(salt="always"))
        return await self._inner.generate(request)

    async def generate_on_each(self, request: VllmRequest) -> Mapping[str, VllmAnswer]:
        return {"vLLM": await self.generate(request)}

    async def load_model(self, weights: Mapping[str, Any]) -> None:
        kept = {name: tensor.clone() for name, tensor in weights.items()}
        if self._left_out in weights:
            kept[self._left_out] = self._first.setdefault(self._left_out, kept[self._left_out])
        await self._inner.load_model(kept)

    async def load_adapter(self, adapter: Any) -> None:
        await self._inner.load_adapter(adapter)

    async def drop_adapter(self, adapter: Any) -> None:
        await self._inner.drop_adapter(adapter)


def test_weights_that_vllm_did_not_take_are_noticed_when_they_are_published(make_backend: MakeBackend) -> None:
    """As where a tied head stays as it was."""
    server = server_of(OtherWeights(make_backend("here", "tied"), "lm_head.weight"), "tied")
    first, second = two_weights("tied")

    async def publish() -> None:
        await server.publish("main", first, 0)
        await server.publish("main", second, 1)

    with pytest.raises(EngineError, match="vLLM does not play with the weights that were published for 'main'"):
        asyncio.run(publish())
    with pytest.raises(EngineError, match="no policy 'main' was published"):
        asyncio.run(server.policy("main").complete((5, 6), Sampling(1.0, 4, 0), None))


def test_a_prefix_cache_of_old_weights_would_be_noticed(make_backend: MakeBackend) -> None:
    """Without salts of its own a publication reuses what other weights have read."""
    backend = OtherWeights(make_backend("here", "tied"), "salt")
    server = server_of(backend, "tied")
    server._probe.tolerance = float("inf")
    with pytest.raises(
        AssertionError, match=r"prefix cache|weights that were not published|not those of the published"
    ):
        check_publish(server, learner_of("tied"), model_of("tied").chat_format, tolerance=TOLERANCE)


def test_a_base_that_is_another_one_is_published_below_the_adapters(make_backend: MakeBackend) -> None:
    """As in a sweep over seeds, whose runs share an engine and begin with other random weights."""
    backend, first = make_backend("here", "adapters"), learner_of("adapters").weights()
    other = {name: tensor + 0.1 * tensor.roll(1, -1) for name, tensor in first.model.items()}
    other["lm_head.weight"] = other["model.embed_tokens.weight"]
    server = server_of(backend, "adapters")

    async def publish() -> None:
        await server.publish("main", first, 0)
        server.clear()
        await server.publish("main", PolicyWeights(other, first.adapter), 0)
        server.clear()
        await server.publish("main", first, 0)

    asyncio.run(publish())  # each publication is compared with a plain pass


def test_a_second_whole_model_is_refused(make_backend: MakeBackend) -> None:
    server = server_of(make_backend("here", "tied"), "tied")
    weights = PolicyWeights(model_of("tied").model.state_dict())

    async def publish() -> None:
        await server.publish("one", weights, 0)
        await server.publish("two", weights, 0)

    with pytest.raises(EngineError, match="vLLM was started with room for 1 policies, and 'two' would be one more"):
        asyncio.run(publish())


def test_heads_that_vllm_has_no_cpu_kernel_for_are_refused() -> None:
    from mage.engines.vllm.in_process import InProcessVllm
    from mage.models.load import load_model
    from tests.vllm.made import need_vllm

    need_vllm()
    with pytest.raises(ConfigError, match="no attention on a CPU for heads of 16 numbers, which nano has; nano"):
        InProcessVllm(load_model("nano"), settings_of("tied"))


def test_a_build_for_another_kind_of_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from mage.engines.vllm.in_process import InProcessVllm
    from tests.vllm.made import need_vllm

    need_vllm()
    from vllm.platforms import current_platform

    monkeypatch.setattr(current_platform, "is_cpu", lambda: False)
    with pytest.raises(ConfigError, match="device = cpu: the vLLM that is installed is built for GPUs and plays there"):
        InProcessVllm(model_of("tied"), settings_of("tied"))
