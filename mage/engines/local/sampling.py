"""Token sampling by inverse CDF with one given uniform per token, so that results do not depend on batching."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
import torch
from torch import Tensor

from mage.engines.local.jobs import SampledToken, TokenRequest
from mage.engines.local.ops import ops_for
from mage.engines.local.transfer import AsyncCopy, upload
from mage.errors import EngineError

_BLOCK = 128
"""Vocabulary columns per block of the two-level CDF search."""


class TokenSampler:
    """Samples one token for each row on the device; `read` waits for them.

    Log-probabilities are under the distribution sampled from.

    >>> logits = torch.tensor([[0.0, 9.0, 0.0], [0.0, 9.0, 0.0]])
    >>> free, constrained = TokenSampler(logits, [TokenRequest(None, 1.0, 0.5), TokenRequest((0, 2), 1.0, 0.75)]).read()
    >>> free.token, constrained.token, round(constrained.logprob, 3)
    (1, 2, -0.693)
    """

    def __init__(self, logits_RV: Tensor, requests: Sequence[TokenRequest]) -> None:
        self._requests = requests
        self._found: list[tuple[Sequence[int], AsyncCopy]] = []
        for is_free in (True, False):
            rows = [row for row, request in enumerate(requests) if (request.allowed is None) is is_free]
            if rows:
                selected_RV = logits_RV if len(rows) == len(requests) else logits_RV[torch.tensor(rows)]
                sample = _sample_free if is_free else _sample_allowed
                self._found.append((rows, AsyncCopy(sample(selected_RV, [requests[row] for row in rows]))))

    def read(self) -> list[SampledToken]:
        """The tokens, in the order of the requests."""
        sampled: dict[int, SampledToken] = {}
        for rows, found in self._found:
            for row, (index, logprob, total, *logprobs) in zip(rows, found.read().tolist(), strict=True):
                if not isfinite(total):
                    raise EngineError("the model's logits are not finite; its weights may have diverged")
                allowed = self._requests[row].allowed
                token = int(index) if allowed is None else allowed[int(index)]
                sampled[row] = SampledToken(token, logprob, () if allowed is None else tuple(logprobs[: len(allowed)]))
        return [sampled[row] for row in range(len(self._requests))]


def sample_free(logits_RV: Tensor, temperature_R: Tensor, uniforms_R: Tensor) -> tuple[Tensor, Tensor]:
    """An unconstrained token for each row and its log-probability, without synchronising with the host.

    The CDF is summed by blocks first, so that a wide vocabulary is read few times. A row with logits that are not
    finite gets a log-probability that is not finite.
    """
    is_greedy_R1 = temperature_R[:, None] == 0
    temperature_R1 = torch.where(is_greedy_R1, 1.0, temperature_R[:, None])
    top_R1, likeliest_R1 = logits_RV.max(dim=1, keepdim=True)
    cumulated_RB = ops_for(logits_RV.device).block_sums(logits_RV, temperature_R1, top_R1, _BLOCK).cumsum(dim=1)
    total_R1 = cumulated_RB[:, -1:].contiguous()
    target_R1 = uniforms_R[:, None] * total_R1
    block_R1 = _first_above(cumulated_RB, target_R1)
    columns_RW = block_R1 * _BLOCK + torch.arange(_BLOCK, device=logits_RV.device)
    last = logits_RV.shape[1] - 1
    near_RW = logits_RV.gather(1, columns_RW.clamp(max=last)).masked_fill_(columns_RW > last, -torch.inf)
    inside_RW = ((near_RW - top_R1) / temperature_R1).exp_().cumsum(dim=1, dtype=torch.float64)
    before_R1 = torch.where(block_R1 > 0, cumulated_RB.gather(1, (block_R1 - 1).clamp(min=0)), 0.0)
    index_R1 = _first_above(inside_RW + before_R1, target_R1)
    token_R1 = torch.where(is_greedy_R1, likeliest_R1, (block_R1 * _BLOCK + index_R1).clamp_(max=last))
    logprob_R1 = (logits_RV.gather(1, token_R1) - top_R1) / temperature_R1 - total_R1.log().float()
    return token_R1[:, 0], torch.where(is_greedy_R1 & logprob_R1.isfinite(), 0.0, logprob_R1)[:, 0]


def _first_above(cumulated_RA: Tensor, target_R1: Tensor) -> Tensor:
    """The first column above the target; if rounding leaves none, the last one with probability above 0."""
    index_R1 = torch.searchsorted(cumulated_RA, target_R1, right=True)
    last_R1 = torch.searchsorted(cumulated_RA, cumulated_RA[:, -1:].contiguous())
    # Comparisons with nan are false; the index must stay in range all the same.
    return torch.minimum(index_R1, last_R1).clamp_(max=cumulated_RA.shape[1] - 1)


def _sample_free(logits_RV: Tensor, requests: Sequence[TokenRequest]) -> Tensor:
    """By row: the token, its log-probability, and that again as the check for finite logits."""
    temperature_R = upload(np.array([request.temperature for request in requests], dtype=np.float32), logits_RV.device)
    uniforms_R = upload(np.array([request.uniform for request in requests]), logits_RV.device)
    tokens_R, logprobs_R = sample_free(logits_RV, temperature_R, uniforms_R)
    return torch.stack((tokens_R.double(), logprobs_R.double(), logprobs_R.double()), dim=1)


def _sample_allowed(logits_RV: Tensor, requests: Sequence[TokenRequest]) -> Tensor:
    """By row: the index of the token among its allowed ids, its log-probability, the sum of the distribution, and the
    log-probabilities of all allowed ids: (R, 3 + A) in float64."""
    width = max(len(request.allowed or ()) for request in requests)
    table = np.zeros((len(requests), 4 + width))
    for row, request in enumerate(requests):
        ids = request.allowed or ()
        temperature = request.temperature
        table[row, : 4 + len(ids)] = (request.uniform, temperature or 1.0, temperature == 0, len(ids), *ids)
    table_RN = upload(table, logits_RV.device)
    uniform_R1, temperature_R1, is_greedy_R1 = table_RN[:, :1], table_RN[:, 1:2].float(), table_RN[:, 2:3] > 0
    logits_RA = _allowed_logits(logits_RV, table_RN[:, 4:].long(), table_RN[:, 3:4])
    logprobs_RA = torch.log_softmax(logits_RA / temperature_R1, dim=1)
    cumulated_RA = logprobs_RA.exp().cumsum(dim=1, dtype=torch.float64)
    total_R1 = cumulated_RA[:, -1:].contiguous()
    index_R1 = _first_above(cumulated_RA, uniform_R1 * total_R1)
    index_R1 = torch.where(is_greedy_R1, logits_RA.argmax(dim=1, keepdim=True), index_R1)
    chosen_R1 = logprobs_RA.gather(1, index_R1).masked_fill_(is_greedy_R1, 0.0)
    return torch.cat([part.double() for part in (index_R1, chosen_R1, total_R1, logprobs_RA)], dim=1)


def _allowed_logits(logits_RV: Tensor, ids_RA: Tensor, sizes_R1: Tensor) -> Tensor:
    """Logits of the allowed ids, in their order; shorter rows are padded with minus infinity."""
    is_padding_RA = torch.arange(ids_RA.shape[1], device=ids_RA.device) >= sizes_R1
    return logits_RV.gather(1, ids_RA).masked_fill_(is_padding_RA, -torch.inf)
