"""The policy server in this process: one or several local engines.

Adapters on one base share an engine, which batches their calls together. Policies that are whole (small) models have
one engine each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import torch

from mage.engines.local.adapters import AdapterCapacity
from mage.engines.local.engine import LocalEngine
from mage.engines.local.executor import graph_unsupported_reason
from mage.engines.settings import LEARNER_BYTES, EngineSettings
from mage.errors import ConfigError, EngineError, listing
from mage.models.load import LoadedModel
from mage.protocols import Sampling, ScoringEngine, ServerLimits
from mage.types import Completion
from mage.weights import PolicyWeights

_SLOTS = 256
"""Slots of each further engine of a whole model: there are many, and each serves a part of the trials."""


class LocalPolicyServer:
    """Serves policies with local engines.

    The first policy is served by the engine that is made at the start, in the memory that the settings leave to it.
    The engine of a policy that was dropped serves the next one.
    """

    def __init__(self, loaded: LoadedModel, settings: EngineSettings) -> None:
        self._settings = settings
        is_whole = settings.is_trained and not settings.adapter_rank
        num_trained = sum(p.numel() for p in loaded.model.parameters()) if is_whole else 0
        self._capacity = _adapter_capacity(loaded, settings)
        self._first = LocalEngine(
            loaded,
            slots=settings.slots or None,
            length=settings.length,
            adapters=self._capacity,
            reserve=LEARNER_BYTES * num_trained // settings.ranks,
        )
        self._engines: dict[str, LocalEngine] = {}
        """Engines by policy; all are the first one where policies are adapters."""
        self._unused = [self._first]

    @property
    def limits(self) -> ServerLimits:
        return ServerLimits(self._first.length, None if self._capacity is None else self._capacity.places)

    async def publish(self, policy: str, weights: PolicyWeights, version: int) -> None:
        if self._capacity is not None:
            # Merged into bfloat16 weights, an adapter would lose precision.
            await self._first.publish(weights.model, version)
            await self._first.publish_adapter(policy, weights.adapter, version)
            self._engines[policy] = self._first
            return
        if policy not in self._engines:
            self._engines[policy] = self._unused.pop() if self._unused else self._new_engine()
        await self._engines[policy].publish(weights.merged(), version)

    def policy(self, name: str) -> LocalPolicy:
        return LocalPolicy(self, name)

    def drop(self, name: str) -> None:
        self.engine_of(name)
        if self._capacity is not None:
            self._first.drop_adapter(name)
            del self._engines[name]
        else:
            self._unused.append(self._engines.pop(name))

    def reset_cache(self) -> None:
        for engine in self._all():
            engine.reset_cache()

    def clear(self) -> None:
        self._engines, self._unused = {}, [self._first]
        self._first.drop_adapters()
        self._first.reset_cache()
        self._first.reset_counters()

    def metrics(self) -> Mapping[str, float]:
        return {"capture_s": sum(engine.capture_s for engine in self._all())}

    def counters(self) -> dict[str, int]:
        """The counters of all engines together; see `LocalEngine.counters`."""
        total: Counter[str] = Counter()
        for engine in self._all():
            total.update(engine.counters())
        return dict(total)

    def engine_of(self, name: str) -> ScoringEngine:
        """What serves a policy now."""
        if name not in self._engines:
            raise EngineError(f"no policy {name!r} was published; there are: {listing(self._engines)}")
        return self._engines[name] if self._capacity is None else self._first.adapter(name)

    def _all(self) -> list[LocalEngine]:
        """Every engine once."""
        return list(dict.fromkeys((self._first, *self._engines.values(), *self._unused)))

    def _new_engine(self) -> LocalEngine:
        # From the served copy: the loaded model may be in training, have an adapter by now, or be on another device.
        return LocalEngine(self._first.served, slots=self._settings.slots or _SLOTS, length=self._settings.length)


class LocalPolicy:
    """A policy of a local server, which may be published later."""

    def __init__(self, server: LocalPolicyServer, name: str) -> None:
        self._server = server
        self._name = name

    def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Coroutine[Any, Any, Completion]:
        return self._server.engine_of(self._name).complete(prompt, sampling, choices)

    def action_logprobs(
        self, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> Coroutine[Any, Any, tuple[float, ...]]:
        return self._server.engine_of(self._name).action_logprobs(prompt, choices, temperature)


def _adapter_capacity(loaded: LoadedModel, settings: EngineSettings) -> AdapterCapacity | None:
    """How many adapters the engine must have room for, or None where they are merged into the weights.

    A single adapter is merged where the weights are float32, or where the engine cannot serve adapters.
    """
    if not settings.adapter_rank:
        return None
    obstacle = graph_unsupported_reason(loaded.model, settings.length)
    if settings.policies > 1:
        if obstacle is not None:
            raise ConfigError(f"{loaded.name} cannot play with {settings.policies} adapters; {obstacle}")
        return AdapterCapacity(settings.policies, settings.adapter_rank)
    is_rounded = loaded.model.dtype is not torch.float32
    return AdapterCapacity(1, settings.adapter_rank) if is_rounded and obstacle is None else None
