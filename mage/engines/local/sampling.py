"""Drawing tokens: one uniform per token, by inverse distribution function, so that batching changes no draw."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
import torch
from torch import Tensor

from mage.engines.local.jobs import DrawnToken, TokenRequest
from mage.engines.local.ops import ops_for
from mage.engines.local.transfer import Fetched, upload
from mage.errors import EngineError

_BLOCK = 128
"""Columns that are summed together before one of them is looked for."""


class Draws:
    """One token for each row, drawn on the device; `read` waits for them.

    Log-probabilities are of the distribution that was drawn from.

    >>> logits = torch.tensor([[0.0, 9.0, 0.0], [0.0, 9.0, 0.0]])
    >>> free, constrained = Draws(logits, [TokenRequest(None, 1.0, 0.5), TokenRequest((0, 2), 1.0, 0.75)]).read()
    >>> free.token, constrained.token, round(constrained.logprob, 3)
    (1, 2, -0.693)
    """

    def __init__(self, logits_RV: Tensor, asks: Sequence[TokenRequest]) -> None:
        self._asks = asks
        self._found: list[tuple[Sequence[int], Fetched]] = []
        for is_free in (True, False):
            rows = [row for row, ask in enumerate(asks) if (ask.allowed is None) is is_free]
            if rows:
                of_these = logits_RV if len(rows) == len(asks) else logits_RV[torch.tensor(rows)]
                pick = _picked_freely if is_free else _picked
                self._found.append((rows, Fetched(pick(of_these, [asks[row] for row in rows]))))

    def read(self) -> list[DrawnToken]:
        """The tokens, in the order of the asks."""
        draws: dict[int, DrawnToken] = {}
        for rows, found in self._found:
            for row, (index, logprob, total, *logprobs) in zip(rows, found.read().tolist(), strict=True):
                if not isfinite(total):
                    raise EngineError("the model's logits are not finite; its weights may have diverged")
                allowed = self._asks[row].allowed
                token = int(index) if allowed is None else allowed[int(index)]
                draws[row] = DrawnToken(token, logprob, () if allowed is None else tuple(logprobs[: len(allowed)]))
        return [draws[row] for row in range(len(self._asks))]


def pick_free(logits_RV: Tensor, temperature_R: Tensor, uniforms_R: Tensor) -> tuple[Tensor, Tensor]:
    """A token of the whole vocabulary for each row, and its log-probability, without asking the host for anything.

    The distribution function is summed by blocks first, so that a wide vocabulary is read few times. A row whose
    logits are not finite gets a log-probability that is not finite either.
    """
    is_greedy_R1 = temperature_R[:, None] == 0
    temperature_R1 = torch.where(is_greedy_R1, 1.0, temperature_R[:, None])
    top_R1, likeliest_R1 = logits_RV.max(dim=1, keepdim=True)
    upto_RB = ops_for(logits_RV.device).block_sums(logits_RV, temperature_R1, top_R1, _BLOCK).cumsum(dim=1)
    total_R1 = upto_RB[:, -1:].contiguous()
    target_R1 = uniforms_R[:, None] * total_R1
    block_R1 = _first_above(upto_RB, target_R1)
    columns_RW = block_R1 * _BLOCK + torch.arange(_BLOCK, device=logits_RV.device)
    last = logits_RV.shape[1] - 1
    near_RW = logits_RV.gather(1, columns_RW.clamp(max=last)).masked_fill_(columns_RW > last, -torch.inf)
    inside_RW = ((near_RW - top_R1) / temperature_R1).exp_().cumsum(dim=1, dtype=torch.float64)
    before_R1 = torch.where(block_R1 > 0, upto_RB.gather(1, (block_R1 - 1).clamp(min=0)), 0.0)
    index_R1 = _first_above(inside_RW + before_R1, target_R1)
    token_R1 = torch.where(is_greedy_R1, likeliest_R1, (block_R1 * _BLOCK + index_R1).clamp_(max=last))
    logprob_R1 = (logits_RV.gather(1, token_R1) - top_R1) / temperature_R1 - total_R1.log().float()
    return token_R1[:, 0], torch.where(is_greedy_R1 & logprob_R1.isfinite(), 0.0, logprob_R1)[:, 0]


def _first_above(cumulated_RA: Tensor, target_R1: Tensor) -> Tensor:
    """The first column above the target; the last one that adds anything, where rounding leaves none."""
    index_R1 = torch.searchsorted(cumulated_RA, target_R1, right=True)
    last_R1 = torch.searchsorted(cumulated_RA, cumulated_RA[:, -1:].contiguous())
    # What is not finite compares with nothing; the index must stay inside all the same.
    return torch.minimum(index_R1, last_R1).clamp_(max=cumulated_RA.shape[1] - 1)


def _picked_freely(logits_RV: Tensor, asks: Sequence[TokenRequest]) -> Tensor:
    """Which token each row draws, its log-probability, and the same again, finite where the logits are."""
    temperature_R = upload(np.array([ask.temperature for ask in asks], dtype=np.float32), logits_RV.device)
    uniforms_R = upload(np.array([ask.point for ask in asks]), logits_RV.device)
    tokens_R, logprobs_R = pick_free(logits_RV, temperature_R, uniforms_R)
    return torch.stack((tokens_R.double(), logprobs_R.double(), logprobs_R.double()), dim=1)


def _picked(logits_RV: Tensor, asks: Sequence[TokenRequest]) -> Tensor:
    """Which of its columns each row draws, its log-probability, the sum of the distribution, and the
    log-probabilities of all its columns: (R, 3 + A) in float64."""
    width = max(len(ask.allowed or ()) for ask in asks)
    table = np.zeros((len(asks), 4 + width))
    for row, ask in enumerate(asks):
        ids = ask.allowed or ()
        table[row, : 4 + len(ids)] = (ask.point, ask.temperature or 1.0, ask.temperature == 0, len(ids), *ids)
    table_RN = upload(table, logits_RV.device)
    point_R1, temperature_R1, is_greedy_R1 = table_RN[:, :1], table_RN[:, 1:2].float(), table_RN[:, 2:3] > 0
    logits_RA = _only(logits_RV, table_RN[:, 4:].long(), table_RN[:, 3:4])
    logprobs_RA = torch.log_softmax(logits_RA / temperature_R1, dim=1)
    cumulated_RA = logprobs_RA.exp().cumsum(dim=1, dtype=torch.float64)
    total_R1 = cumulated_RA[:, -1:].contiguous()
    index_R1 = _first_above(cumulated_RA, point_R1 * total_R1)
    index_R1 = torch.where(is_greedy_R1, logits_RA.argmax(dim=1, keepdim=True), index_R1)
    chosen_R1 = logprobs_RA.gather(1, index_R1).masked_fill_(is_greedy_R1, 0.0)
    return torch.cat([part.double() for part in (index_R1, chosen_R1, total_R1, logprobs_RA)], dim=1)


def _only(logits_RV: Tensor, ids_RA: Tensor, sizes_R1: Tensor) -> Tensor:
    """Logits of the allowed ids alone, in their order; shorter rows end in minus infinity."""
    is_padding_RA = torch.arange(ids_RA.shape[1], device=ids_RA.device) >= sizes_R1
    return logits_RV.gather(1, ids_RA).masked_fill_(is_padding_RA, -torch.inf)
