"""A learner restored goes on as if it had never stopped, and takes no weights that do not fit."""

from __future__ import annotations

import pytest
import torch

from mage.learners.local import LearnError, load_weights
from mage.training.parts import Parts
from mage.types import Sample
from tests.learner_made import copied, fresh, played_notes
from tests.tiny import tiny_parts


@pytest.fixture(scope="module")
def notes() -> tuple[Parts, list[Sample]]:
    return played_notes()


@pytest.mark.parametrize("with_values", [False, True])
@pytest.mark.parametrize("num_updates", [0, 2])
def test_a_restored_learner_goes_on_bit_for_bit(
    notes: tuple[Parts, list[Sample]], with_values: bool, num_updates: int
) -> None:
    parts, samples = notes
    how = (
        "learner.lr=0.01",
        "learner.warmup=5",
        "learner.entropy_start=0.1",
        "learner.entropy_end=0.1",
        "learner.entropy_floor=1.0",
        "learner.minibatches=2",
        "learner.epochs=2",
        "learner.divergence=k3",
        "learner.divergence_weight=0.1",
    )
    learner = fresh(parts, *how, with_values=with_values)
    for _ in range(num_updates):
        learner.update(samples)
    kept = learner.state().copied()
    other = fresh(parts, *how, with_values=with_values)
    other.update(samples[:2])  # what a learner did before is forgotten when it is restored
    other.restore(kept)
    assert set(other.state().tensors) == set(kept.tensors)
    assert other.update(samples) == learner.update(samples)
    for name, tensor in learner.weights().merged().items():
        assert torch.equal(tensor, other.weights().merged()[name]), name
    for name, tensor in learner.state().tensors.items():
        assert torch.equal(tensor, other.state().tensors[name]), name
    assert other.state().numbers == learner.state().numbers


def test_weights_that_do_not_fit_are_refused() -> None:
    model = tiny_parts().loaded.model
    weights = copied(model.state_dict())
    head, embeddings, norm = "lm_head.weight", "model.embed_tokens.weight", "model.norm.weight"
    with pytest.raises(LearnError, match=r"unknown \['new'\], missing \[\]"):
        load_weights(model, {**weights, "new": torch.zeros(1)})
    with pytest.raises(LearnError, match=r"missing \['model.norm.weight'\]"):
        load_weights(model, {n: t for n, t in weights.items() if n != norm})
    with pytest.raises(LearnError, match=r"model.norm.weight has shape \(3,\), not \(16,\)"):
        load_weights(model, {**weights, norm: torch.zeros(3)})
    with pytest.raises(LearnError, match="missing"):
        load_weights(model, {n: t for n, t in weights.items() if n not in (head, embeddings)})
    doubled = {n: 2 * t for n, t in weights.items() if n != head}
    load_weights(model, doubled)
    assert torch.equal(model.lm_head.weight, doubled[embeddings]), "tied weights may be given once"
