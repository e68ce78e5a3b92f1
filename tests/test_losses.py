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


def categorical(*logits: float) -> torch.Tensor:
    return torch.tensor(logits, dtype=torch.float64, requires_grad=True)


def kl(of: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
    return (of.exp() * (of - to)).sum()


def gradient(value: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    (found,) = torch.autograd.grad(value, logits)
    return found


REFERENCE = categorical(0.0, 0.9, -0.4, 0.2).detach().log_softmax(0)
SAMPLED_BY = categorical(-0.3, 0.1, 0.8, -1.0).detach().log_softmax(0)
"""An older policy that tokens were sampled by."""


def expected_gradient(kind: Divergence, *, on_policy: bool, with_ratio: bool = False) -> torch.Tensor:
    """The mean gradient of the loss term over all tokens, each with the probability that it is sampled with."""
    logits = categorical(1.0, -0.5, 0.3, -1.2)
    mine = logits.log_softmax(0)
    old = mine.detach() if on_policy else SAMPLED_BY
    ratio = (mine.detach() - old).exp() if with_ratio else 1.0
    return gradient((old.exp() * ratio * divergence(kind, mine, REFERENCE)).sum(), logits)


def exact_gradients() -> dict[Divergence, torch.Tensor]:
    """What each kind is the gradient of on-policy, as docs/method.md says."""
    logits = categorical(1.0, -0.5, 0.3, -1.2)
    mine = logits.log_softmax(0)
    return {
        Divergence.K1: torch.zeros(4, dtype=torch.float64),
        Divergence.K2: gradient(kl(mine, REFERENCE), logits),
        Divergence.K3: gradient(kl(REFERENCE, logits.log_softmax(0)), logits),
    }


@pytest.mark.parametrize("kind", [Divergence.K1, Divergence.K2, Divergence.K3])
def test_the_expected_gradient_of_a_divergence_is_that_of_the_kl_it_is_said_to_be_of(kind: Divergence) -> None:
    wanted = exact_gradients()[kind]
    assert kind is Divergence.K1 or wanted.abs().max() > 0.05
    torch.testing.assert_close(expected_gradient(kind, on_policy=True), wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(expected_gradient(kind, on_policy=False, with_ratio=True), wanted, rtol=0, atol=1e-12)
    for other, exact in exact_gradients().items():
        assert other is kind or (expected_gradient(kind, on_policy=True) - exact).abs().max() > 0.05


def test_off_policy_the_gradients_are_those_that_the_documentation_says() -> None:
    found = {kind: expected_gradient(kind, on_policy=False) for kind in exact_gradients()}
    logits = categorical(1.0, -0.5, 0.3, -1.2)
    away = -gradient(kl(SAMPLED_BY, logits.log_softmax(0)), logits)
    torch.testing.assert_close(found[Divergence.K1], away, rtol=0, atol=1e-12)
    assert found[Divergence.K1].abs().max() > 0.05
    for kind in (Divergence.K2, Divergence.K3):
        assert (found[kind] - exact_gradients()[kind]).abs().max() > 0.05
        same = REFERENCE.clone().requires_grad_()
        old = SAMPLED_BY.exp()
        at_reference = gradient((old * divergence(kind, same.log_softmax(0), REFERENCE)).sum(), same)
        torch.testing.assert_close(at_reference, torch.zeros(4, dtype=torch.float64), rtol=0, atol=1e-12)
