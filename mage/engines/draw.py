"""Drawing tokens: one uniform per token, by inverse distribution function, so that batching changes no draw."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mage.engines.jobs import Ask, Draw
from mage.errors import EngineError


def draw_tokens(logits_RV: Tensor, asks: Sequence[Ask]) -> list[Draw]:
    """One token for each row of logits. Log-probabilities are of the distribution that was drawn from.

    >>> logits = torch.tensor([[0.0, 9.0, 0.0], [0.0, 9.0, 0.0]])
    >>> free, constrained = draw_tokens(logits, [Ask(None, 1.0, 0.5), Ask((0, 2), 1.0, 0.75)])
    >>> free.token, constrained.token, round(constrained.logprob, 3)
    (1, 2, -0.693)
    """
    draws: dict[int, Draw] = {}
    free = [row for row, ask in enumerate(asks) if ask.allowed is None]
    if free:
        picked, logprobs, _ = _pick(logits_RV[free], [asks[row] for row in free])
        for row, token, logprob in zip(free, picked, logprobs, strict=True):
            draws[row] = Draw(token, logprob, ())
    bound = [(row, ask, ask.allowed) for row, ask in enumerate(asks) if ask.allowed is not None]
    if bound:
        rows, those, allowed = zip(*bound, strict=True)
        picked, logprobs, all_RA = _pick(_only(logits_RV[list(rows)], allowed), those)
        for row, ids, index, logprob, values in zip(rows, allowed, picked, logprobs, all_RA.tolist(), strict=True):
            draws[row] = Draw(ids[index], logprob, tuple(values[: len(ids)]))
    return [draws[row] for row in range(len(asks))]


def _only(logits_RV: Tensor, allowed: Sequence[tuple[int, ...]]) -> Tensor:
    """Logits of the allowed ids alone, in their order; shorter rows end in minus infinity."""
    width = max(map(len, allowed))
    ids_RA = torch.tensor([[*ids, *[0] * (width - len(ids))] for ids in allowed], device=logits_RV.device)
    sizes_R1 = torch.tensor([[len(ids)] for ids in allowed], device=logits_RV.device)
    is_padding_RA = torch.arange(width, device=logits_RV.device) >= sizes_R1
    return logits_RV.gather(1, ids_RA).masked_fill_(is_padding_RA, -torch.inf)


def _pick(logits_RA: Tensor, asks: Sequence[Ask]) -> tuple[list[int], list[float], Tensor]:
    """Which column each row draws, its log-probability, and the log-probabilities of all columns."""
    heat_R1 = torch.tensor([[ask.temperature or 1.0] for ask in asks], device=logits_RA.device)
    point_R1 = torch.tensor([[ask.point] for ask in asks], dtype=torch.float64, device=logits_RA.device)
    logprobs_RA = torch.log_softmax(logits_RA / heat_R1, dim=1)
    cumulated_RA = logprobs_RA.exp().cumsum(dim=1, dtype=torch.float64)
    total_R1 = cumulated_RA[:, -1:].contiguous()
    if not torch.isfinite(total_R1).all():
        raise EngineError("the model's logits are not finite; its weights may have diverged")
    index_R1 = torch.searchsorted(cumulated_RA, point_R1 * total_R1, right=True)
    # Rounding may push a point just below 1 to the very end: the last column with a probability takes it.
    index_R1 = torch.minimum(index_R1, torch.searchsorted(cumulated_RA, total_R1))
    is_greedy_R1 = torch.tensor([[ask.temperature == 0] for ask in asks], device=logits_RA.device)
    index_R1 = torch.where(is_greedy_R1, logits_RA.argmax(dim=1, keepdim=True), index_R1)
    chosen_R1 = logprobs_RA.gather(1, index_R1).masked_fill_(is_greedy_R1, 0.0)
    return index_R1[:, 0].tolist(), chosen_R1[:, 0].tolist(), logprobs_RA
