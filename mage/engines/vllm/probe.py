"""A probe of published weights: vLLM's log-probabilities beside those of a plain forward pass with the same weights.

Weights that are published wrongly are seldom an error, so every publication is compared once.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from mage.engines.vllm.requests import Ids, normalised, of_ids
from mage.models.load import LoadedModel

_PROMPT, _ASKED = 12, 16
"""Ids of the prompt, and ids whose log-probabilities are compared."""
_TOLERANCE, _ROUNDED_TOLERANCE = 1e-3, 0.5
"""Largest difference of log-probabilities in float32, and in the shorter formats."""


class Probe:
    """Knows the model's structure, and none of its weights."""

    def __init__(self, loaded: LoadedModel) -> None:
        model: nn.Module = loaded.model
        without = {id(p): nn.Parameter(torch.empty_like(p, device="meta"), False) for p in model.parameters()}
        self._model = copy.deepcopy(model, without)
        self._device = next(model.parameters()).device
        vocabulary = model.get_input_embeddings().num_embeddings  # type: ignore[operator]
        step = max(1, vocabulary // _ASKED)
        self.prompt: Ids = tuple((7 + 31 * at) % vocabulary for at in range(_PROMPT))
        self.allowed: Ids = tuple(range(0, vocabulary, step))[:_ASKED]
        self.tolerance = _TOLERANCE if loaded.model.dtype is torch.float32 else _ROUNDED_TOLERANCE

    @torch.no_grad()
    def expected(self, weights: Mapping[str, Tensor]) -> list[float]:
        """The log-probabilities of the allowed ids, by a plain pass with the weights."""
        placed = {name: tensor.detach().to(self._device) for name, tensor in weights.items()}
        ids_1T = torch.tensor([self.prompt], device=self._device)
        read = torch.func.functional_call(self._model, placed, (ids_1T,), {"use_cache": False}, tie_weights=False)
        logits_V = read.logits[0, -1]
        logprobs: list[float] = logits_V[list(self.allowed)].float().log_softmax(0).tolist()
        return logprobs

    def gap(self, expected: Sequence[float], found: Mapping[int, float]) -> float:
        """The largest difference of vLLM's log-probabilities to those of a plain pass."""
        answered = normalised(of_ids(self.allowed, found))
        return max(abs(one - other) for one, other in zip(expected, answered, strict=True))
