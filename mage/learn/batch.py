"""Samples as tensors: right-padded, sorted by length, cut into micro-batches of bounded size.

Axis letters: B sequences, T positions, N trained tokens of a micro-batch, K allowed ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mage.types import Phase, Sample, Weight


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What fits through the model at once. Everything but `tokens_BT` has one row per trained token."""

    tokens_BT: Tensor
    rows_N: Tensor
    """Which sequence the token is in."""
    before_N: Tensor
    """The position before the token: where its logits are."""
    targets_N: Tensor
    logprobs_N: Tensor
    advantages_N: Tensor
    returns_N: Tensor
    weights_N: Tensor
    """Sum to one over the whole batch, so that losses of micro-batches add up."""
    play_N: Tensor
    """True for play turns, false for reflections."""
    allowed_NK: Tensor
    """Allowed ids, padded with -1; a row of -1 alone means that all ids were allowed."""
    num_tokens: int
    """Real tokens, padding not counted."""

    def to(self, device: torch.device) -> MicroBatch:
        """The same on another device."""
        moved: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            moved[name] = value.to(device) if isinstance(value, Tensor) else value
        return MicroBatch(**moved)


def micro_batches(samples: Sequence[Sample], weight: Weight, budget: int) -> list[MicroBatch]:
    """Cut a batch into micro-batches of at most `budget` positions, padding included.

    A single sample longer than the budget gets a micro-batch of its own.
    """
    weights = token_weights(samples, weight)
    order = sorted(range(len(samples)), key=lambda i: -len(samples[i].tokens))
    cuts: list[list[int]] = []
    for index in order:
        longest = len(samples[cuts[-1][0]].tokens) if cuts else 0
        if cuts and longest * (len(cuts[-1]) + 1) <= budget:
            cuts[-1].append(index)
        else:
            cuts.append([index])
    return [_micro_batch([samples[i] for i in cut], [weights[i] for i in cut]) for cut in cuts]


def token_weights(samples: Sequence[Sample], weight: Weight) -> list[list[float]]:
    """The share of every trained token in the loss; all together sum to one.

    Turns are averaged over the batch, tokens within their turn; a turn cut over two streams is two turns.
    """
    if weight is Weight.TOKEN:
        total = sum(len(s.positions) for s in samples)
        return [[1.0 / total] * len(s.positions) for s in samples]
    if weight is Weight.SEQUENCE:
        return [[1.0 / (len(samples) * len(s.positions))] * len(s.positions) for s in samples]
    num_turns = sum(len(set(s.turns)) for s in samples)
    return [[1.0 / (num_turns * s.turns.count(turn)) for turn in s.turns] for s in samples]


def _micro_batch(samples: Sequence[Sample], weights: Sequence[Sequence[float]]) -> MicroBatch:
    longest = max(len(s.tokens) for s in samples)
    tokens_BT = torch.zeros(len(samples), longest, dtype=torch.long)
    for row, sample in enumerate(samples):
        tokens_BT[row, : len(sample.tokens)] = torch.tensor(sample.tokens)
    allowed = [ids or () for s in samples for ids in s.allowed]
    width = max(1, max(map(len, allowed)))
    return MicroBatch(
        tokens_BT=tokens_BT,
        rows_N=torch.tensor([row for row, s in enumerate(samples) for _ in s.positions]),
        before_N=torch.tensor([p - 1 for s in samples for p in s.positions]),
        targets_N=torch.tensor([s.tokens[p] for s in samples for p in s.positions]),
        logprobs_N=torch.tensor([x for s in samples for x in s.logprobs], dtype=torch.float32),
        advantages_N=torch.tensor([x for s in samples for x in s.advantages], dtype=torch.float32),
        returns_N=torch.tensor([x for s in samples for x in s.returns], dtype=torch.float32),
        weights_N=torch.tensor([x for row in weights for x in row], dtype=torch.float32),
        play_N=torch.tensor([phase is Phase.PLAY for s in samples for phase in s.phases]),
        allowed_NK=torch.tensor([[*ids, *(-1,) * (width - len(ids))] for ids in allowed]),
        num_tokens=sum(len(s.tokens) for s in samples),
    )
