"""A learner whose model computes in bfloat16: the numbers behind it are float32, and nothing small is lost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from mage.learners.local import LocalLearner
from mage.learners.master_weights import MasterWeights
from tests.made import made_model, made_samples, made_settings

BFLOAT = torch.bfloat16


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def master_weights(learner: LocalLearner) -> dict[str, Tensor]:
    prefix = "master/"
    return {n.removeprefix(prefix): t.clone() for n, t in learner.state().tensors.items() if n.startswith(prefix)}


def test_gradients_are_summed_in_float32() -> None:
    parameter = torch.nn.Parameter(torch.ones(1, dtype=BFLOAT))
    kept = MasterWeights([("p", parameter)], lr=1.0, weight_decay=0.0)
    for gradient in (1.0, *[2.0**-9] * 256):  # in bfloat16, 1 + 2^-9 is 1
        parameter.grad = torch.tensor([gradient], dtype=BFLOAT)
        kept.accumulate()
        assert parameter.grad is None
    assert kept.clip(100.0).item() == 1.5
    kept.zero_grad()
    parameter.grad = torch.tensor([0.25], dtype=BFLOAT)
    kept.accumulate()
    assert kept.clip(100.0).item() == 0.25


def test_updates_too_small_for_bfloat16_add_up() -> None:
    samples = made_samples()
    learner = LocalLearner(made_model(BFLOAT), made_settings("learner.lr=1e-6"))
    first, before = master_weights(learner), copied(learner.weights().merged())
    learner.update(samples)
    norm = "model.norm.weight"  # ones, whose neighbours in bfloat16 are 1/256 and 1/128 away
    assert torch.equal(learner.weights().merged()[norm], before[norm])
    moved = (master_weights(learner)[norm] - first[norm]).abs()
    assert 5e-7 < moved.max() < 2e-6
    for _ in range(5):
        learner.update(samples)
    assert (master_weights(learner)[norm] - first[norm]).abs().max() > 2 * moved.max()


def test_the_model_has_the_masters_numbers_rounded_where_it_had_its_own() -> None:
    learner = LocalLearner(made_model(BFLOAT), made_settings("learner.lr=0.01"))
    places = {name: tensor.data_ptr() for name, tensor in learner.weights().merged().items()}
    before = copied(learner.weights().merged())
    for _ in range(2):
        learner.update(made_samples())
    for name, master in master_weights(learner).items():
        assert master.dtype is torch.float32
        assert torch.equal(learner.weights().merged()[name], master.to(BFLOAT))
        assert not torch.equal(learner.weights().merged()[name], before[name])
    assert {name: tensor.data_ptr() for name, tensor in learner.weights().merged().items()} == places
    assert {tensor.dtype for tensor in learner.weights().merged().values()} == {BFLOAT}
    assert all(p.grad is None for p in learner.model.parameters()), "gradients are let go of"


def test_it_learns_as_in_float32() -> None:
    samples = made_samples(10)
    rough, exact = (
        LocalLearner(made_model(dtype), made_settings("learner.lr=0.003")) for dtype in (BFLOAT, torch.float32)
    )
    start = copied(exact.weights().merged())
    for _ in range(3):
        metrics, wanted = rough.update(samples), exact.update(samples)
        assert metrics["learner/loss"] == pytest.approx(wanted["learner/loss"], abs=0.03)
        assert metrics["learner/grad_norm"] == pytest.approx(wanted["learner/grad_norm"], rel=0.1)
    found = torch.cat([(t - start[n]).flatten() for n, t in sorted(master_weights(rough).items())])
    right = torch.cat([(exact.weights().merged()[n] - start[n]).flatten() for n in sorted(master_weights(rough))])
    assert torch.cosine_similarity(found, right, dim=0) > 0.9


def test_the_size_of_micro_batches_hardly_changes_an_update() -> None:
    found = []
    for budget in (1, 100_000):
        learner = LocalLearner(
            made_model(BFLOAT), made_settings(f"learner.token_budget={budget}", "learner.grad_clip=1e9")
        )
        found.append(learner.update(made_samples(12))["learner/grad_norm"])
    assert found[0] == pytest.approx(found[1], rel=0.01)


@pytest.mark.parametrize("with_values", [False, True])
def test_a_restored_learner_goes_on_bit_for_bit(with_values: bool) -> None:
    samples = made_samples()
    settings = made_settings("learner.lr=0.001", "learner.minibatches=2", "learner.token_budget=60")
    learner, other = (LocalLearner(made_model(BFLOAT), settings, with_values=with_values) for _ in range(2))
    for _ in range(2):
        learner.update(samples)
    kept = learner.state().copied()
    other.update(samples[:2])
    other.restore(kept)
    assert set(other.state().tensors) == set(kept.tensors)
    assert other.update(samples) == learner.update(samples)
    for name, tensor in learner.state().tensors.items():
        assert torch.equal(tensor, other.state().tensors[name]), name
    for name, tensor in learner.weights().merged().items():
        assert torch.equal(tensor, other.weights().merged()[name]), name


def test_masters_cross_from_one_precision_to_the_other() -> None:
    settings = made_settings("learner.lr=0.001")
    rough, exact = (LocalLearner(made_model(dtype), settings) for dtype in (BFLOAT, torch.float32))
    rough.update(made_samples())
    exact.restore(rough.state())
    for name, master in master_weights(rough).items():
        assert torch.equal(exact.weights().merged()[name], master), name
    exact.update(made_samples())
    rough.restore(exact.state())
    for name, master in master_weights(rough).items():
        assert torch.equal(exact.weights().merged()[name], master), name


def test_values_and_divergence_work_in_bfloat16() -> None:
    settings = made_settings("learner.divergence=k3", "learner.divergence_weight=0.1", "learner.lr=0.01")
    learner = LocalLearner(made_model(BFLOAT), settings, with_values=True)
    samples = made_samples()
    first, second = learner.update(samples), learner.update(samples)
    assert first["learner/kl"] == 0.0
    assert second["learner/kl"] > 0.0
    assert second["learner/value_error"] < first["learner/value_error"]
    assert any(value != 0.0 for row in learner.values(samples) for value in row)


def test_what_is_saved_is_what_plays(tmp_path: Path) -> None:
    learner = LocalLearner(made_model(BFLOAT), made_settings("learner.lr=0.01"))
    learner.update(made_samples())
    learner.save(tmp_path, "made")
    saved = load_file(tmp_path / learner.weights_file)
    assert all(torch.equal(tensor, learner.weights().merged()[name]) for name, tensor in saved.items())
    assert {tensor.dtype for tensor in saved.values()} == {BFLOAT}
