"""Predicting the text: what counts as text, and what it adds to the loss."""

from __future__ import annotations

import pytest
import torch

from mage.learners.batch import iter_micro_batches, partition
from mage.learners.local import LocalLearner
from mage.types import Phase, Sample, Weight
from tests.made import made_model, made_samples, made_settings
from tests.tiny import samples_of, sharpen, tiny_parts, with_advantage

NOTES = ("agent.memory=both", "agent.reflection_tokens=6")


def text_of(samples: list[Sample], budget: int) -> dict[int, list[int]]:
    """Positions of text by sample."""
    partitions = partition(samples, budget)
    found: dict[int, list[int]] = {}
    for chosen, batch in zip(
        partitions, iter_micro_batches(samples, Weight.TURN, partitions, with_text=True), strict=True
    ):
        for row, before in zip(batch.text_rows_P.tolist(), batch.text_before_P.tolist(), strict=True):
            found.setdefault(chosen[row], []).append(before + 1)
    return found


def test_text_is_all_but_what_was_drawn_from_the_whole_vocabulary() -> None:
    samples = samples_of(sharpen(tiny_parts(*NOTES)))
    free = [{p for p, ids in zip(s.positions, s.allowed, strict=True) if ids is None} for s in samples]
    assert all(free), "every sample has a note"
    assert any(len(f) < len(s.positions) for s, f in zip(samples, free, strict=True)), "and moves"
    for budget in (1, 10**6):
        found = text_of(samples, budget)
        for number, sample in enumerate(samples):
            assert found[number] == [p for p in range(1, len(sample.tokens)) if p not in free[number]]


def test_notes_that_are_not_trained_are_text() -> None:
    parts = sharpen(tiny_parts(*NOTES, "credit.objective=single"))
    samples = samples_of(parts)
    assert all(phase is Phase.PLAY for sample in samples for phase in sample.phases)
    assert text_of(samples, 10**6) == {n: list(range(1, len(sample.tokens))) for n, sample in enumerate(samples)}


def test_shares_of_all_micro_batches_sum_to_one() -> None:
    samples = samples_of(sharpen(tiny_parts(*NOTES)))
    for budget in (1, 700, 10**6):
        batches = list(iter_micro_batches(samples, Weight.TURN, partition(samples, budget), with_text=True))
        assert sum(b.text_share * len(b.text_rows_P) for b in batches) == pytest.approx(1.0)
    assert len(next(iter_micro_batches(samples, Weight.TURN, partition(samples, 700))).text_rows_P) == 0, (
        "only when asked for"
    )


def test_the_loss_is_the_mean_surprise_of_a_plain_pass() -> None:
    samples = made_samples()
    model = made_model()
    learner = LocalLearner(model, made_settings("learner.prediction_weight=0.5", "learner.lr=1e-9"))
    surprises: list[torch.Tensor] = []
    with torch.no_grad():
        for sample in samples:
            logprobs = model(torch.tensor([sample.tokens])).logits[0].log_softmax(-1)
            free = {p for p, ids in zip(sample.positions, sample.allowed, strict=True) if ids is None}
            surprises += [-logprobs[p - 1, sample.tokens[p]] for p in range(1, len(sample.tokens)) if p not in free]
    expected = float(torch.stack(surprises).mean())
    without = LocalLearner(made_model(), made_settings("learner.lr=1e-9")).update(samples)
    found = learner.update(samples)
    assert found["learner/prediction_loss"] == pytest.approx(expected, rel=1e-5)
    assert found["learner/loss"] - without["learner/loss"] == pytest.approx(0.5 * expected, rel=1e-4)
    assert "learner/prediction_loss" not in without


def test_text_is_learned_without_any_advantage() -> None:
    samples = [with_advantage(sample, 0.0) for sample in made_samples()]
    learner = LocalLearner(made_model(), made_settings("learner.prediction_weight=1.0", "learner.lr=0.01"))
    losses = [learner.update(samples)["learner/prediction_loss"] for _ in range(12)]
    assert losses[-1] < 0.8 * losses[0]
