"""Policy servers: ours keep the contract for every kind of model, and the checks find what is broken in others."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import torch

import mage.engines.local.server as server_module
from mage.checks.servers import check_policy_server, check_publish
from mage.engines.local.adapters import AdapterCapacity
from mage.engines.local.engine import LocalEngine
from mage.engines.local.server import LocalPolicyServer
from mage.engines.registry import ENGINES, make_server
from mage.engines.settings import EngineSettings
from mage.errors import ConfigError, EngineError
from mage.learners.local import LocalLearner
from mage.models.load import LoadedModel
from mage.protocols import Engine, PolicyServer, Sampling, ServerLimits
from mage.types import Completion
from mage.weights import PolicyWeights
from tests.engine_made import family, nano
from tests.made import made_settings

LENGTH = 256
KINDS = ["tied", "untied", "merged", "adapters"]
"""Whole models with a tied head and with one of its own; LoRA merged, and served as adapters."""
LORA = ("learner.lora_rank=4",)


@cache
def original(kind: str) -> LoadedModel:
    return family("llama") if kind in ("untied", "adapters") else nano()


def loaded(kind: str) -> LoadedModel:
    """A model that may be trained."""
    found = original(kind)
    return LoadedModel(found.name, copy.deepcopy(found.model), found.tokenizer, found.chat_format)


def settings_of(kind: str) -> EngineSettings:
    adapters = {"merged": (1, 4), "adapters": (5, 4)}
    num, rank = adapters.get(kind, (3, 0))
    return EngineSettings(LENGTH, slots=8, policies=num, adapter_rank=rank)


def learner_of(kind: str) -> LocalLearner:
    lora = LORA if kind in ("merged", "adapters") else ()
    return LocalLearner(loaded(kind).model, made_settings("learner.lr=0.01", *lora))


def other_weights(kind: str) -> tuple[PolicyWeights, PolicyWeights]:
    """The weights of two policies of one learner."""
    learner = learner_of(kind)
    trained = learner.state().copied().weights
    changed = {name: tensor + 0.1 * tensor.roll(1, -1) + 0.02 for name, tensor in trained.items()}
    if "lm_head.weight" in trained and kind == "tied":
        changed["lm_head.weight"] = changed["model.embed_tokens.weight"]
    return learner.weights(trained), learner.weights(changed)


@pytest.mark.parametrize("kind", KINDS)
def test_ours_keeps_the_contract(kind: str) -> None:
    check_policy_server(
        lambda: LocalPolicyServer(loaded(kind), settings_of(kind)), other_weights(kind), original(kind).chat_format
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_ours_plays_is_what_the_learner_says(kind: str) -> None:
    server = LocalPolicyServer(loaded(kind), settings_of(kind))
    assert (server.limits.policies == 5) == (kind == "adapters")
    check_publish(server, learner_of(kind), original(kind).chat_format)


def test_a_learner_that_trains_the_loaded_model_itself_is_served_too() -> None:
    """As in a run: the server is made first, then the learner puts its adapter into the same model."""
    given = loaded("merged")
    server = LocalPolicyServer(given, settings_of("merged"))
    check_publish(server, LocalLearner(given.model, made_settings("learner.lr=0.01", *LORA)), given.chat_format)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_single_adapter_is_merged_only_where_no_bits_are_lost(dtype: torch.dtype) -> None:
    given = loaded("untied")
    server = LocalPolicyServer(
        LoadedModel("llama", given.model.to(dtype), given.tokenizer, given.chat_format), settings_of("merged")
    )
    assert server._first.capacity == (None if dtype is torch.float32 else AdapterCapacity(1, 4))


def test_many_adapters_are_refused_where_the_model_cannot_be_served_with_them() -> None:
    windowed = family("mistral with a window")
    with pytest.raises(ConfigError, match="mistral with a window cannot play with 5 adapters; its attention window"):
        LocalPolicyServer(windowed, settings_of("adapters"))


def test_engines_are_made_as_policies_come_and_used_again() -> None:
    server = LocalPolicyServer(loaded("tied"), EngineSettings(LENGTH, slots=4))
    weights = PolicyWeights(original("tied").model.state_dict())

    def publish(*names: str) -> None:
        for name in names:
            asyncio.run(server.publish(name, weights, 0))

    publish("main", "one", "two", "one")
    engines = dict(server._engines)
    assert engines["main"] is server._first
    assert len(set(engines.values())) == 3
    server.drop("one")
    publish("three")
    assert server._engines["three"] is engines["one"]
    publish("four")
    assert len(set(server._engines.values())) == 4
    server.clear()
    publish("next")
    assert server._engines == {"next": server._first}


def test_further_engines_have_the_slots_that_are_asked_for_or_256() -> None:
    for asked, expected in ((3, 3), (0, 256)):
        server = LocalPolicyServer(loaded("tied"), EngineSettings(64, slots=asked))
        for name in ("main", "other"):
            asyncio.run(server.publish(name, PolicyWeights(original("tied").model.state_dict()), 0))
        assert server._engines["other"]._executor.num_slots == expected


def test_the_memory_that_is_left_to_a_learner_is_that_of_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    class Counted(LocalEngine):
        def __init__(self, loaded: LoadedModel, *, reserve: int = 0, **options: Any) -> None:
            found.append(reserve)
            super().__init__(loaded, reserve=reserve, **options)

    monkeypatch.setattr(server_module, "LocalEngine", Counted)
    for ranks in (1, 4):
        LocalPolicyServer(loaded("tied"), EngineSettings(64, slots=2, ranks=ranks))
    num = sum(weight.numel() for weight in original("tied").model.parameters())
    assert found == [16 * num, 4 * num]


def test_unknown_policies_are_refused_by_name() -> None:
    server = LocalPolicyServer(loaded("tied"), EngineSettings(64, slots=2))
    with pytest.raises(EngineError, match="no policy 'x' was published; there are: none"):
        server.drop("x")
    with pytest.raises(EngineError, match="no policy 'x' was published"):
        asyncio.run(_complete(server.policy("x")))


async def _complete(engine: Engine) -> Completion:
    return await engine.complete((5, 6), Sampling(1.0, 2, 0), None)


class Broken(LocalPolicyServer):
    """A server with a fault, for whole models."""

    def __init__(self, kind: str) -> None:
        super().__init__(loaded(kind), settings_of(kind))


class Stale(Broken):
    """Keeps its prefix caches when new weights come."""

    async def publish(self, policy: str, weights: PolicyWeights, version: int) -> None:
        await super().publish(policy, PolicyWeights({**self._engine_weights(policy, weights)}), version)

    def _engine_weights(self, policy: str, weights: PolicyWeights) -> Mapping[str, Any]:
        for engine in self._all():
            engine._cache.clear = lambda *_: None  # type: ignore[method-assign]
        return weights.merged()

    def reset_cache(self) -> None:
        for engine in self._all():
            type(engine._cache).clear(engine._cache)


class HeadLeftOut(Broken):
    """Leaves the head as it was: what a tied weight under one name does to an engine that has it under two."""

    async def publish(self, policy: str, weights: PolicyWeights, version: int) -> None:
        head = original("untied").model.state_dict()["lm_head.weight"]
        await super().publish(policy, PolicyWeights({**weights.merged(), "lm_head.weight": head}), version)


class OldAdapter(Broken):
    """Keeps the first adapter of a name."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self._kept: dict[str, PolicyWeights] = {}

    async def publish(self, policy: str, weights: PolicyWeights, version: int) -> None:
        copied = copy.deepcopy(PolicyWeights(dict(weights.model), dict(weights.adapter)))
        kept = self._kept.setdefault(policy, copied)
        await super().publish(policy, PolicyWeights(weights.model, kept.adapter), version)


class SameVersion(Broken):
    """Never raises the version of a policy."""

    async def publish(self, policy: str, weights: PolicyWeights, version: int) -> None:
        engine = self._engines.get(policy)
        await super().publish(policy, weights, version if engine is None else engine.version)


class WrongPolicy(Broken):
    """Publishes to the first policy, whatever the name."""

    async def publish(self, policy: str, weights: PolicyWeights, version: int) -> None:
        await super().publish(policy, weights, version)
        if policy != (first := next(iter(self._engines))):
            await super().publish(first, weights, version)


class Shared(Broken):
    """Plays with the learner's own tensors instead of copies."""

    async def publish(self, policy: str, weights: PolicyWeights, version: int) -> None:
        await super().publish(policy, weights, version)
        for name, parameter in self._engines[policy]._executor.model.named_parameters():
            parameter.data = weights.model[name]


class AnswersEarly(Broken):
    """Serves the loaded model under names that were never published."""

    def engine_of(self, name: str) -> Any:
        return self._engines.get(name, self._first)


@pytest.mark.parametrize(
    ("broken", "kind", "in_publish", "in_server"),
    [
        (Stale, "untied", "a stale prefix cache", "reuses prompts that other weights read"),
        (HeadLeftOut, "untied", "not those of the published weights", ""),
        (OldAdapter, "adapters", "the old weights play on", "'b' plays with other weights than its own"),
        (SameVersion, "tied", r"'main' have version \[1\], where 2", r"'b' have version \[5\], where 6"),
        (WrongPolicy, "tied", "", "'a' plays with other weights than its own after publishing another policy"),
        (Shared, "untied", "weights are shared", ""),
        (AnswersEarly, "tied", "", "a policy answers before it is published"),
    ],
)
def test_the_checks_say_what_is_broken(broken: type[Broken], kind: str, in_publish: str, in_server: str) -> None:
    chat_format = original(kind).chat_format
    if in_publish:
        with pytest.raises(AssertionError, match=in_publish):
            check_publish(broken(kind), learner_of(kind), chat_format)
    if in_server:
        with pytest.raises(AssertionError, match=in_server):
            check_policy_server(lambda: broken(kind), other_weights(kind), chat_format)


def test_a_policy_that_publishing_another_changes_is_found_with_a_learner_too() -> None:
    class Neighbours(Broken):
        async def publish(self, policy: str, weights: PolicyWeights, version: int) -> None:
            await super().publish(policy, weights, version)
            for name in self._engines:
                await super().publish(name, weights, version)

    with pytest.raises(AssertionError, match="publishing one policy changed another"):
        check_publish(Neighbours("tied"), learner_of("tied"), original("tied").chat_format)


def test_an_engine_that_is_not_a_policy_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Half:
        limits = ServerLimits(64)

        def publish(self) -> None: ...

    monkeypatch.setitem(ENGINES._added, "half", lambda *_: Half())
    monkeypatch.setitem(ENGINES._added, "bare", lambda *_: PolicyServer)
    with pytest.raises(ConfigError, match="the engine 'half' lacks policy, drop, reset_cache, clear, metrics;"):
        make_server("half", original("tied"), EngineSettings(64))
    with pytest.raises(ConfigError, match=r"the engine 'bare' lacks limits, a mage\.protocols\.ServerLimits"):
        make_server("bare", original("tied"), EngineSettings(64))
    with pytest.raises(ConfigError, match="unknown engine 'sglang'; known: bare, half, local, vllm"):
        make_server("sglang", original("tied"), EngineSettings(64))
