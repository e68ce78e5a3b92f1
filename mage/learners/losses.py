"""The terms of the loss, one function each. Rows are trained tokens (axis N)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from mage.types import Divergence

TokenStats = tuple[Tensor, ...]
"""Log-probabilities of the targets, entropies, then one tensor for each regulariser; all aligned with tokens."""
Regulariser = Callable[[Tensor, Tensor], Tensor]
"""A value for each constrained token, from the log-probabilities of the allowed ids (0 where an id is absent) and the
number of allowed ids."""

MAX_IMPORTANCE = 2.0
"""Bound of importance weights: a token that has become much likelier since it was sampled counts at most twice."""


def read_logits(
    logits_NV: Tensor, targets_N: Tensor, allowed_NK: Tensor, regularisers: Sequence[Regulariser] = ()
) -> TokenStats:
    """The targets' log-probabilities, the entropies and the regularisers, all over the allowed ids.

    Entropy is divided by the logarithm of the number of allowed ids: 1 is uniform, 0 deterministic. A row of
    `allowed_NK` that is all -1 allows the whole vocabulary; regularisers are 0 there.
    """
    constrained_N = (allowed_NK >= 0).any(dim=1)
    found_N = [logits_NV.new_zeros(len(targets_N)) for _ in range(2 + len(regularisers))]
    read_some = partial(read_allowed, regularisers=regularisers)
    for rows_M, read in ((constrained_N, read_some), (~constrained_N, read_all)):
        index_M = rows_M.nonzero().squeeze(1)
        if len(index_M):
            read_M = read(logits_NV[index_M], targets_N[index_M], allowed_NK[index_M])
            scatter_rows(found_N, index_M, read_M)
    return tuple(found_N)


def scatter_rows(found_N: list[Tensor], index_M: Tensor, read_M: TokenStats) -> None:
    """Write the statistics of some rows into those of all; regularisers that `read_M` lacks stay as they are."""
    for place, new_M in enumerate(read_M):
        found_N[place] = found_N[place].index_copy(0, index_M, new_M)


def read_all(logits_MV: Tensor, targets_M: Tensor, allowed_MK: Tensor) -> TokenStats:
    """`read_logits` where every id is allowed, whatever `allowed_MK` has; without regularisers."""
    logprobs_MV = logits_MV.log_softmax(dim=1)
    entropy_M = -(logprobs_MV.exp() * logprobs_MV).sum(dim=1) / math.log(logits_MV.shape[1])
    return logprobs_MV.gather(1, targets_M[:, None]).squeeze(1), entropy_M


def read_targets(logits_MV: Tensor, targets_M: Tensor, allowed_MK: Tensor) -> TokenStats:
    """`read_all` without the entropies."""
    return (logits_MV.log_softmax(dim=1).gather(1, targets_M[:, None]).squeeze(1),)


def read_allowed(
    logits_MV: Tensor, targets_M: Tensor, allowed_MK: Tensor, regularisers: Sequence[Regulariser] = ()
) -> TokenStats:
    """`read_logits` where every row has some allowed ids, padded with -1."""
    absent_MK = allowed_MK < 0
    logits_MK = logits_MV.gather(1, allowed_MK.clamp(min=0)).masked_fill(absent_MK, -torch.inf)
    # 0 * -inf is nan, in the gradient too: absent entries become 0 before the product.
    logprobs_MK = logits_MK.log_softmax(dim=1).masked_fill(absent_MK, 0.0)
    num_M = (~absent_MK).sum(dim=1)
    entropy_M = -(logprobs_MK.exp() * logprobs_MK).sum(dim=1) / num_M.clamp(min=2).log()
    regularised = [regulariser(logprobs_MK, num_M) for regulariser in regularisers]
    column_M = (allowed_MK == targets_M[:, None]).int().argmax(dim=1)
    return logprobs_MK.gather(1, column_M[:, None]).squeeze(1), entropy_M, *regularised


def evenness(logprobs_MK: Tensor, num_M: Tensor) -> Tensor:
    """A regulariser: -KL(uniform || policy) over the allowed ids.

    0 is uniform; there is no lower bound. Where one id has nearly all the probability the gradient of entropy vanishes,
    and the gradient of this does not.
    """
    return logprobs_MK.sum(dim=1) / num_M + num_M.log()


def policy_loss(
    logprobs_N: Tensor, old_N: Tensor, advantages_N: Tensor, *, clip_low: float, clip_high: float, dual_clip: float
) -> tuple[Tensor, Tensor]:
    """The clipped objective's loss per token, and which tokens are clipped.

    The clip may be asymmetric, so that rare tokens can grow. The dual clip bounds the loss where the advantage is
    negative and the ratio large.
    """
    ratio_N = (logprobs_N - old_N).exp()
    plain_N = ratio_N * advantages_N
    clipped_N = ratio_N.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages_N
    gain_N = torch.minimum(plain_N, clipped_N)
    bounded_N = torch.where(advantages_N < 0, torch.maximum(gain_N, dual_clip * advantages_N), gain_N)
    return -bounded_N, (bounded_N != plain_N)


def importance_weights(proximal_N: Tensor, engine_N: Tensor) -> tuple[Tensor, Tensor]:
    """The probability before the update over that at which a token was sampled, at most `MAX_IMPORTANCE`; and which
    tokens are truncated there.
    """
    ratio_N = (proximal_N - engine_N).exp()
    return ratio_N.clamp(max=MAX_IMPORTANCE), ratio_N > MAX_IMPORTANCE


def imitation_loss(logprobs_N: Tensor, weights_N: Tensor) -> Tensor:
    """Cross-entropy on a teacher's tokens; no ratio and no clip, because the policy sampled nothing."""
    return -weights_N * logprobs_N


def divergence(kind: Divergence, logprobs_N: Tensor, reference_N: Tensor) -> Tensor:
    """An estimate of KL(policy || reference) per token.

    As numbers, k1 is unbiased and noisy, k2 half the squared log-ratio, k3 unbiased and never negative (Schulman 2020).
    As losses on tokens that the policy sampled they are others: the gradient of k1 is zero in expectation, that of k2
    is the gradient of KL(policy || reference), and that of k3 the gradient of KL(reference || policy).
    """
    difference_N = reference_N - logprobs_N
    if kind is Divergence.K1:
        return -difference_N
    if kind is Divergence.K2:
        return 0.5 * difference_N.square()
    if kind is Divergence.K3:
        return difference_N.exp() - 1.0 - difference_N
    return torch.zeros_like(logprobs_N)


def floor_factor(factor: float, entropy: float, floor: float, rate: float = 0.1) -> float:
    """The next factor of the entropy bonus: it grows while entropy is below the floor and falls back to one.

    >>> floor_factor(1.0, entropy=0.1, floor=0.2, rate=0.5) > 1.0
    True
    >>> floor_factor(1.0, entropy=0.5, floor=0.2, rate=0.5)
    1.0
    """
    if floor <= 0.0:
        return 1.0
    shortfall = max(-1.0, min(1.0, (floor - entropy) / floor))
    return max(1.0, min(1e3, factor * math.exp(rate * shortfall)))
