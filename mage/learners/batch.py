"""Micro-batches: samples as right-padded tensors, sorted by length, of bounded size.

Axis letters: B sequences, T positions, N trained tokens of a micro-batch, K allowed ids, U distinct allowed ids,
M some of the N rows, P tokens of text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from mage.types import Phase, Sample, Weight

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The tensors of one forward and backward pass. Most have one row per trained token (axis N).

    Subsets of rows are lists of indices rather than masks: on a GPU, indexing by a mask waits for the device.
    """

    tokens_BT: Tensor
    rows_N: Tensor
    """The sequence that the token is in."""
    before_N: Tensor
    """The position before the token: where its logits are."""
    targets_N: Tensor
    logprobs_N: Tensor
    """As the engine sampled them."""
    proximal_N: Tensor
    """The learner's own before the update, where samples have them; else empty."""
    advantages_N: Tensor
    returns_N: Tensor
    weights_N: Tensor
    """Weights in the loss; they sum to one over the whole batch, so that losses of micro-batches add up."""
    play_N: Tensor
    """True for play turns, false for reflections."""
    allowed_NK: Tensor
    """Allowed ids, padded with -1; a row of -1 alone means that all ids were allowed."""
    ids_U: Tensor
    """All ids that any row allows, ascending."""
    chosen_M: Tensor
    """Rows of tokens chosen from some ids."""
    free_M: Tensor
    """Rows of tokens chosen from all ids."""
    played_M: Tensor
    """Rows of play turns."""
    reflected_M: Tensor
    """Rows of reflections."""
    text_rows_P: Tensor
    """Sequences of the tokens of the prediction loss: prompts, and constrained answers."""
    text_before_P: Tensor
    """The positions before these tokens."""
    text_share: float
    """Weight of one such token: one over their number in the whole batch."""
    num_tokens: int
    """Real tokens, padding not counted."""

    def to(self, device: torch.device) -> MicroBatch:
        """The micro-batch on another device; copies to a GPU are asynchronous."""
        moved: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, Tensor) and device.type == "cuda":
                value = value.pin_memory().to(device, non_blocking=True)
            moved[name] = value.to(device) if isinstance(value, Tensor) else value
        return MicroBatch(**moved)


def micro_batches(samples: Sequence[Sample], weight: Weight, budget: int) -> list[MicroBatch]:
    """Cut a batch into micro-batches of at most `budget` positions, padding included."""
    return list(iter_micro_batches(samples, weight, partition(samples, budget)))


def iter_micro_batches(
    samples: Sequence[Sample],
    weight: Weight,
    partitions: Sequence[Sequence[int]],
    multiple: int = 1,
    *,
    with_text: bool = False,
) -> Iterator[MicroBatch]:
    """Micro-batches one by one, so that the next is built while a GPU works on the last.

    Their lengths are multiples of `multiple`. Tokens of the prediction loss are listed only `with_text`.
    """
    weights = token_weights(samples, weight)
    num_text = sum(len(s.tokens) - 1 - s.allowed.count(None) for s in samples) if with_text else 0
    for chosen in partitions:
        yield _micro_batch([samples[i] for i in chosen], [weights[i] for i in chosen], multiple, num_text)


def partition(samples: Sequence[Sample], budget: int, multiple: int = 1) -> list[list[int]]:
    """The samples of each micro-batch by index, longest first: at most `budget` positions, padding included.

    A single sample longer than the budget goes alone.
    """
    order = sorted(range(len(samples)), key=lambda i: -len(samples[i].tokens))
    partitions: list[list[int]] = []
    for index in order:
        longest = padded(len(samples[partitions[-1][0]].tokens), multiple) if partitions else 0
        if partitions and longest * (len(partitions[-1]) + 1) <= budget:
            partitions[-1].append(index)
        else:
            partitions.append([index])
    return partitions


def largest_of(samples: Sequence[Sample], partitions: Sequence[Sequence[int]], multiple: int) -> int:
    """Positions of the largest micro-batch, padding included."""
    return max(len(chosen) * padded(len(samples[chosen[0]].tokens), multiple) for chosen in partitions)


def split_by_sample(
    samples: Sequence[Sample], partitions: Sequence[Sequence[int]], found: Sequence[T]
) -> list[list[T]]:
    """Values of trained tokens, listed micro-batch by micro-batch, regrouped by sample."""
    left = iter(found)
    by_sample = {index: [next(left) for _ in samples[index].positions] for chosen in partitions for index in chosen}
    return [by_sample[index] for index in range(len(samples))]


def padded(length: int, multiple: int) -> int:
    """The length rounded up to a multiple.

    >>> padded(430, 16), padded(430, 1)
    (432, 430)
    """
    return -(-length // multiple) * multiple


def token_weights(samples: Sequence[Sample], weight: Weight) -> list[list[float]]:
    """The weight of every trained token in the loss; all together sum to one.

    With `turn`, turns are averaged over the batch, tokens within their turn; a turn in two streams is two turns.
    """
    if weight is Weight.TOKEN:
        total = sum(len(s.positions) for s in samples)
        return [[1.0 / total] * len(s.positions) for s in samples]
    if weight is Weight.SEQUENCE:
        return [[1.0 / (len(samples) * len(s.positions))] * len(s.positions) for s in samples]
    lengths = [Counter(s.turns) for s in samples]
    num_turns = sum(map(len, lengths))
    return [[1.0 / (num_turns * mine[turn]) for turn in s.turns] for s, mine in zip(samples, lengths, strict=True)]


def _micro_batch(
    samples: Sequence[Sample], weights: Sequence[Sequence[float]], multiple: int, num_text: int
) -> MicroBatch:
    longest = padded(max(len(s.tokens) for s in samples), multiple)
    tokens_BT = torch.zeros(len(samples), longest, dtype=torch.long)
    for row, sample in enumerate(samples):
        tokens_BT[row, : len(sample.tokens)] = torch.tensor(sample.tokens)
    allowed = [ids or () for s in samples for ids in s.allowed]
    plays = [phase is Phase.PLAY for s in samples for phase in s.phases]
    width = max(1, max(map(len, allowed)))
    empty = (-1,) * width
    text_rows_P, text_P = (_text(samples, longest) if num_text else torch.zeros(0, 2, dtype=torch.long)).unbind(1)
    return MicroBatch(
        tokens_BT=tokens_BT,
        rows_N=torch.tensor([row for row, s in enumerate(samples) for _ in s.positions]),
        before_N=torch.tensor([p - 1 for s in samples for p in s.positions]),
        targets_N=torch.tensor([s.tokens[p] for s in samples for p in s.positions]),
        logprobs_N=torch.tensor([x for s in samples for x in s.logprobs], dtype=torch.float32),
        proximal_N=torch.tensor([x for s in samples for x in s.proximal], dtype=torch.float32),
        advantages_N=torch.tensor([x for s in samples for x in s.advantages], dtype=torch.float32),
        returns_N=torch.tensor([x for s in samples for x in s.returns], dtype=torch.float32),
        weights_N=torch.tensor([x for row in weights for x in row], dtype=torch.float32),
        play_N=torch.tensor(plays),
        allowed_NK=_indices([i for ids in allowed for i in (*ids, *empty[len(ids) :])]).view(-1, width),
        ids_U=_indices(sorted({number for ids in allowed for number in ids})),
        chosen_M=_indices([row for row, ids in enumerate(allowed) if ids]),
        free_M=_indices([row for row, ids in enumerate(allowed) if not ids]),
        played_M=_indices([row for row, is_play in enumerate(plays) if is_play]),
        reflected_M=_indices([row for row, is_play in enumerate(plays) if not is_play]),
        text_rows_P=text_rows_P,
        text_before_P=text_P - 1,
        text_share=1.0 / max(1, num_text),
        num_tokens=sum(len(s.tokens) for s in samples),
    )


def _text(samples: Sequence[Sample], longest: int) -> Tensor:
    """Sequence and position of every token except the first of a sequence and those trained and sampled freely."""
    is_text_BT = torch.zeros(len(samples), longest, dtype=torch.bool)
    for row, sample in enumerate(samples):
        is_text_BT[row, 1 : len(sample.tokens)] = True
        is_text_BT[row, [p for p, ids in zip(sample.positions, sample.allowed, strict=True) if ids is None]] = False
    return is_text_BT.nonzero()


def _indices(numbers: Sequence[int]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.long)
