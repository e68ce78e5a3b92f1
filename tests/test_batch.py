"""Samples as tensors."""

from __future__ import annotations

import pytest

from mage.learners.batch import micro_batches, token_weights
from mage.types import Phase, Sample, Weight


def sample(length: int, positions: tuple[int, ...], turns: tuple[int, ...], advantage: float = 1.0) -> Sample:
    num = len(positions)
    return Sample(
        tokens=tuple(range(100, 100 + length)),
        positions=positions,
        turns=turns,
        phases=(Phase.PLAY,) * num,
        logprobs=(-0.5,) * num,
        advantages=(advantage,) * num,
        returns=(0.0,) * num,
        allowed=((1, 2),) * num,
        version=0,
    )


MOVE, NOTE = sample(6, (5,), (0,)), sample(9, (4, 6, 7, 8), (0, 1, 1, 1))


def test_a_turn_counts_as_much_as_any_other_however_long() -> None:
    assert token_weights([MOVE, NOTE], Weight.TURN) == [[1 / 3], [1 / 3, 1 / 9, 1 / 9, 1 / 9]]


def test_a_token_counts_as_much_as_any_other() -> None:
    assert token_weights([MOVE, NOTE], Weight.TOKEN) == [[1 / 5], [1 / 5] * 4]


def test_a_sequence_counts_as_much_as_any_other() -> None:
    assert token_weights([MOVE, NOTE], Weight.SEQUENCE) == [[1 / 2], [1 / 8] * 4]


@pytest.mark.parametrize("budget", [1, 18, 27, 1000])
@pytest.mark.parametrize("weight", list(Weight))
def test_micro_batches_hold_every_token_once_and_stay_in_the_budget(budget: int, weight: Weight) -> None:
    samples = [MOVE, NOTE, sample(9, (3,), (2,)), sample(2, (1,), (0,))]
    batches = micro_batches(samples, weight, budget)
    assert sum(len(b.targets_N) for b in batches) == 7
    assert sum(b.num_tokens for b in batches) == 26
    assert sum(b.weights_N.sum().item() for b in batches) == pytest.approx(1.0)
    for batch in batches:
        assert batch.tokens_BT.numel() <= budget or len(batch.tokens_BT) == 1


def test_logits_are_read_one_position_before_the_token() -> None:
    (batch,) = micro_batches([NOTE, MOVE], Weight.TOKEN, 1000)
    assert batch.before_N.tolist() == [3, 5, 6, 7, 4]
    assert batch.rows_N.tolist() == [0, 0, 0, 0, 1]
    assert batch.targets_N.tolist() == [104, 106, 107, 108, 105]
    assert batch.tokens_BT[1].tolist() == [100, 101, 102, 103, 104, 105, 0, 0, 0]
