"""The arithmetic of the update, on numbers worked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from mage.learners.losses import divergence, evenness, floor_factor, policy_loss, read_logits
from mage.types import Divergence

CLIP = {"clip_low": 0.2, "clip_high": 0.3, "dual_clip": 3.0}


def test_logprobs_and_entropy_are_over_the_allowed_ids_alone() -> None:
    # Ids 1 and 3 are allowed, with odds 1 : 3, whatever the forbidden ids say.
    logits = torch.tensor([[50.0, 0.0, 40.0, math.log(3.0)]])
    logprobs, entropy, even = read_logits(logits, torch.tensor([3]), torch.tensor([[1, 3]]), [evenness])
    assert logprobs.item() == pytest.approx(math.log(0.75), abs=1e-5)
    nats = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert entropy.item() == pytest.approx(nats / math.log(2), abs=1e-5)
    apart = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert even.item() == pytest.approx(-apart, abs=1e-5)


def test_rows_with_and_without_constraint_mix() -> None:
    logits = torch.zeros(3, 5)
    allowed = torch.tensor([[0, 4, -1], [-1, -1, -1], [1, 2, 3]])
    logprobs, entropy, even = read_logits(logits, torch.tensor([4, 2, 3]), allowed, [evenness])
    assert logprobs.tolist() == pytest.approx([-math.log(2), -math.log(5), -math.log(3)])
    assert entropy.tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert even.tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)


def test_evenness_pulls_where_entropy_does_not() -> None:
    logits = torch.tensor([[20.0, 0.0, 0.0, 7.0]], requires_grad=True)
    allowed, target = torch.tensor([[0, 1, 2]]), torch.tensor([0])
    _, entropy, even = read_logits(logits, target, allowed, [evenness])
    (pull,) = torch.autograd.grad(entropy.sum(), logits, retain_graph=True)
    assert pull.abs().max() < 1e-6, "one move has all the probability"
    (pull,) = torch.autograd.grad(even.sum(), logits)
    assert pull[0].tolist() == pytest.approx([-2 / 3, 1 / 3, 1 / 3, 0.0], abs=1e-6)
    *_, free = read_logits(logits, target, torch.tensor([[-1, -1, -1]]), [evenness])
    assert free.item() == 0.0, "words of the whole vocabulary need not be alike"
    assert len(read_logits(logits, target, allowed)) == 2, "what is not asked for is not computed"


def test_gradients_are_finite_where_ids_are_forbidden() -> None:
    logits = torch.zeros(2, 5, requires_grad=True)
    allowed = torch.tensor([[0, -1], [2, 3]])
    logprobs, entropy, even = read_logits(logits, torch.tensor([0, 2]), allowed, [evenness])
    (logprobs.sum() + entropy.sum() + even.sum()).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0].abs().sum() == 0, "a forced token teaches nothing"
    assert logits.grad[1, [0, 1, 4]].abs().sum() == 0, "forbidden ids get no gradient"


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "held"),
    [
        (1.0, 2.0, -2.0, False),
        (1.2, 2.0, -2.4, False),
        (1.5, 2.0, -2.6, True),  # no more than 1 + 0.3
        (0.5, 2.0, -1.0, False),  # a gain that shrank may grow back
        (0.5, -2.0, 1.6, True),  # no less than 1 - 0.2
        (2.0, -2.0, 4.0, False),
        (5.0, -2.0, 6.0, True),  # the dual clip: at most 3 x |advantage|
    ],
)
def test_clipping(ratio: float, advantage: float, loss: float, held: bool) -> None:
    found, clipped = policy_loss(torch.tensor([math.log(ratio)]), torch.zeros(1), torch.tensor([advantage]), **CLIP)
    assert found.item() == pytest.approx(loss, abs=1e-5)
    assert clipped.item() is held


def test_the_gradient_raises_what_did_better() -> None:
    logprobs = torch.zeros(2, requires_grad=True)
    policy_loss(logprobs, torch.zeros(2), torch.tensor([1.0, -1.0]), **CLIP)[0].sum().backward()  # type: ignore[no-untyped-call]
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [-1.0, 1.0]


def test_divergences() -> None:
    mine, theirs = torch.tensor([0.0]), torch.tensor([-1.0])
    assert divergence(Divergence.K1, mine, theirs).item() == pytest.approx(1.0)
    assert divergence(Divergence.K2, mine, theirs).item() == pytest.approx(0.5)
    assert divergence(Divergence.K3, mine, theirs).item() == pytest.approx(math.exp(-1) - 1 + 1)
    assert divergence(Divergence.K3, theirs, mine).item() > 0
    assert divergence(Divergence.K3, mine, mine).item() == 0.0


def test_the_entropy_floor_pushes_harder_the_longer_it_is_missed_and_lets_go() -> None:
    factor = 1.0
    for _ in range(10):
        factor = floor_factor(factor, entropy=0.0, floor=0.2, rate=0.1)
    assert factor == pytest.approx(math.e)
    for _ in range(50):
        factor = floor_factor(factor, entropy=0.9, floor=0.2, rate=0.1)
    assert factor == 1.0
    assert floor_factor(7.0, entropy=0.0, floor=0.0, rate=0.1) == 1.0
