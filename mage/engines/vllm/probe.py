"""A probe of published weights: vLLM's log-probabilities beside those of a plain forward pass with the same weights.

Weights that are published wrongly are seldom an error, so every publication is compared once. In the shorter formats
rounding hides what few updates change, so what has changed since an earlier publication is compared as well.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from mage.engines.vllm.requests import MAX_DECISION_IDS, Ids, normalised, of_ids
from mage.models.load import LoadedModel

_PROMPT, _COMPARED = 12, 16
"""Ids of a prompt, and ids of which each log-probability is compared; for changes all that are asked for count."""
_NUM_PROMPTS = 8
"""The first is asked after each publication, the others where its answer looks like that of older weights."""
_TOLERANCE, _ROUNDED_TOLERANCE = 1e-3, 0.5
"""Largest difference of log-probabilities in float32, and in the shorter formats."""
LEAST_SHARE = 1 / 3
"""How much of a clear change vLLM must show: with less it plays with the weights before, or with others."""
_LEAST_CHANGE = 0.2
"""Smallest change that is clear, in tolerances: in bfloat16 twice what rounding was measured to be on a GPU."""
_CLEAR = 3.0
"""How many times larger than what else differs a clear change is. Rounding alone may reach twice: where vLLM's is
nothing, that of the two plain passes is the change, and half of it is left across."""


class Probe:
    """Knows the model's structure, and of weights that were published only what they answer."""

    def __init__(self, loaded: LoadedModel) -> None:
        model: nn.Module = loaded.model
        without = {id(p): nn.Parameter(torch.empty_like(p, device="meta"), False) for p in model.parameters()}
        self._model = copy.deepcopy(model, without)
        self._device = next(model.parameters()).device
        vocabulary = model.get_input_embeddings().num_embeddings  # type: ignore[operator]
        step = max(1, vocabulary // MAX_DECISION_IDS)
        self.prompts: tuple[Ids, ...] = tuple(
            [tuple((7 + 17 * number + 31 * at) % vocabulary for at in range(_PROMPT)) for number in range(_NUM_PROMPTS)]
        )
        self.allowed: Ids = tuple(range(0, vocabulary, step))[:MAX_DECISION_IDS]
        self.tolerance = _TOLERANCE if loaded.model.dtype is torch.float32 else _ROUNDED_TOLERANCE
        self._references: dict[str, Tensor] = {}
        """For each policy what was expected of its last publication that clearly changed it, or of its first one."""

    @torch.no_grad()
    def expected(self, weights: Mapping[str, Tensor]) -> Tensor:
        """The logits of the allowed ids after each prompt, by a plain pass with the weights."""
        placed = {name: tensor.detach().to(self._device) for name, tensor in weights.items()}
        ids_BT = torch.tensor(self.prompts, device=self._device)
        read = torch.func.functional_call(self._model, placed, (ids_BT,), {"use_cache": False}, tie_weights=False)
        logits_BK: Tensor = read.logits[:, -1, list(self.allowed)].double().cpu()
        return logits_BK

    def gap(self, expected_BK: Tensor, found: Mapping[int, float]) -> float:
        """The largest difference of log-probabilities after the first prompt, for some of the ids."""
        some = slice(0, None, max(1, len(self.allowed) // _COMPARED))
        answered = normalised(of_ids(self.allowed, found)[some])
        pairs = zip(normalised(expected_BK[0, some].tolist()), answered, strict=True)
        return max(abs(one - other) for one, other in pairs)

    def share(self, policy: str, expected_BK: Tensor, found: Sequence[Mapping[int, float]]) -> float | None:
        """How much of a policy's change since its reference vLLM's answers show; None where rounding may hide it.

        The answers are those to the first prompts. The share is about 1 with the published weights and about 0 with
        those of the reference. What they differ across the change tells how much rounding there is, with old weights
        too.
        """
        if policy not in self._references:
            return None
        reference_BK = _centred(self._references[policy][: len(found)])
        change_BK = _centred(expected_BK[: len(found)]) - reference_BK
        answered_BK = torch.tensor([of_ids(self.allowed, each) for each in found], dtype=torch.float64)
        moved_BK = _centred(answered_BK) - reference_BK
        if (size := _rms(change_BK)) == 0:
            return None
        share = float((moved_BK * change_BK).mean()) / size**2
        is_clear = size >= max(_LEAST_CHANGE * self.tolerance, _CLEAR * _rms(moved_BK - share * change_BK))
        return share if is_clear else None

    def accept(self, policy: str, expected_BK: Tensor, shares: Iterable[float | None]) -> None:
        """Make a publication the reference, if it is the first or all servers clearly follow it.

        Else the reference stays, so that many small changes add up to a clear one.
        """
        if policy not in self._references or None not in shares:
            self._references[policy] = expected_BK


def _centred(logits_BK: Tensor) -> Tensor:
    """Logits or log-probabilities without what those after a prompt have in common, which normalising rounds."""
    return logits_BK - logits_BK.mean(-1, keepdim=True)


def _rms(values_BK: Tensor) -> float:
    return float(values_BK.square().mean().sqrt())
