"""An engine and a learner of one's own, each about thirty lines: what a plugin for another backend begins with.

`CountingServer` wraps another policy server and counts calls. `SgdLearner` is plain SGD on the policy gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from mage.engines.registry import ENGINES
from mage.engines.settings import EngineSettings
from mage.learners.load_weights import with_tied
from mage.learners.settings import LearnerSettings
from mage.models.load import LoadedModel
from mage.protocols import Engine, PolicyServer, Sampling, ServerLimits
from mage.types import Completion, Sample
from mage.weights import LearnerState, PolicyWeights


class CountingServer:
    """A policy server that hands everything on to the local one, and counts the calls of each policy."""

    def __init__(self, loaded: LoadedModel, settings: EngineSettings) -> None:
        self._inner: PolicyServer = ENGINES["local"](loaded, settings)
        self.calls: dict[str, int] = {}

    @property
    def limits(self) -> ServerLimits:
        return self._inner.limits

    async def publish(self, policy: str, weights: PolicyWeights, version: int) -> None:
        await self._inner.publish(policy, weights, version)

    def policy(self, name: str) -> Engine:
        return CountingEngine(self, name, self._inner.policy(name))

    def drop(self, name: str) -> None:
        self._inner.drop(name)

    def reset_cache(self) -> None:
        self._inner.reset_cache()

    def clear(self) -> None:
        self._inner.clear()

    def metrics(self) -> Mapping[str, float]:
        return {**self._inner.metrics(), "calls": sum(self.calls.values())}


class CountingEngine:
    """One policy of a counting server."""

    def __init__(self, server: CountingServer, name: str, inner: Engine) -> None:
        self._server, self._name, self._inner = server, name, inner

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        self._server.calls[self._name] = self._server.calls.get(self._name, 0) + 1
        return await self._inner.complete(prompt, sampling, choices)


class SgdLearner:
    """Plain SGD on the policy gradient: the sum of advantage x log-probability over the trained tokens."""

    has_values, weights_file = False, "model.safetensors"

    def __init__(self, model: Any, settings: LearnerSettings, with_values: bool, imitates: bool) -> None:
        self._model, self._settings, self.num_tokens = model, settings, 0

    def update(self, samples: Sequence[Sample]) -> dict[str, float]:
        gains = [torch.tensor(s.advantages) @ self._logprobs(s)[0] for s in samples]
        loss = -torch.stack(gains).sum() / sum(len(s.positions) for s in samples)
        gradients = torch.autograd.grad(loss, list(self._model.parameters()), allow_unused=True)
        with torch.no_grad():
            for weight, gradient in zip(self._model.parameters(), gradients, strict=True):
                if gradient is not None:
                    weight -= self._settings.config.lr * gradient
        read = sum(len(sample.tokens) for sample in samples)
        self.num_tokens += read
        return {"learner/loss": loss.item(), "learner/tokens": read}

    def _logprobs(self, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
        """The log-probability and the entropy of each trained token, among the ids it was chosen from."""
        logits_TV = self._model(torch.tensor([sample.tokens])).logits[0].float() / self._settings.temperature
        logprobs, entropies = [], []
        for position, allowed in zip(sample.positions, sample.allowed, strict=True):
            ids = list(range(logits_TV.shape[1]) if allowed is None else allowed)
            logprobs_K = logits_TV[position - 1, ids].log_softmax(0)
            logprobs.append(logprobs_K[ids.index(sample.tokens[position])])
            entropies.append(-(logprobs_K.exp() * logprobs_K).sum())
        return torch.stack(logprobs), torch.stack(entropies)

    @torch.no_grad()
    def evaluate_tokens(self, samples: Sequence[Sample]) -> list[list[tuple[float, float]]]:
        read = [self._logprobs(sample) for sample in samples]
        return [list(zip(logprobs.tolist(), entropies.tolist(), strict=True)) for logprobs, entropies in read]

    def values(self, samples: Sequence[Sample]) -> list[list[float]]:
        raise NotImplementedError

    def weights(self, trained: Mapping[str, Any] | None = None) -> PolicyWeights:
        return PolicyWeights(self._model.state_dict() if trained is None else with_tied(self._model, trained))

    def state(self) -> LearnerState:
        return LearnerState(self._model.state_dict(), {}, {"num_tokens": self.num_tokens})

    def restore(self, state: LearnerState) -> None:
        self._model.load_state_dict(state.weights, strict=False)  # files have tied weights once
        self.num_tokens = state.num_tokens

    def save(self, folder: Path, base: str) -> None:
        self._model.save_pretrained(folder)

    def set_settings(self, settings: LearnerSettings) -> None:
        self._settings = settings
