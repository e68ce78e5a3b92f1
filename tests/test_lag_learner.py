"""Learning from older samples: importance weights, and ratios to the probabilities before the update."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import pytest
import torch

from mage.errors import MageError
from mage.learners.local import LocalLearner
from mage.learners.losses import importance_weights
from mage.learners.samples import refuse_mixed
from mage.learners.settings import learner_settings
from mage.training.parts import Parts
from mage.types import Sample
from tests.learner_made import copied, fresh, played_notes
from tests.tiny import tiny_config

LAG = "rollout.lag=1"
SEVERAL = ("learner.epochs=2", "learner.minibatches=2")


@pytest.fixture(scope="module")
def played() -> tuple[Parts, list[Sample]]:
    return played_notes()


def older(samples: Sequence[Sample]) -> list[Sample]:
    """As if sampled with other weights: of four tokens one is three times as likely now, one half as likely."""
    shifts = (-math.log(3.0), math.log(2.0), -0.1, 0.0)
    found = []
    for sample in samples:
        logprobs = [logprob + shifts[number % 4] for number, logprob in enumerate(sample.logprobs)]
        found.append(msgspec.structs.replace(sample, logprobs=tuple(logprobs)))
    return found


def by_hand(parts: Parts, samples: Sequence[Sample]) -> list[Sample]:
    """What the decoupled objective makes of samples: ratios to the learner's own probabilities, weighted advantages."""
    own = fresh(parts).evaluate_tokens(samples)
    found = []
    for sample, read in zip(samples, own, strict=True):
        proximal = [logprob for logprob, _ in read]
        weights = [min(2.0, math.exp(p - q)) for p, q in zip(proximal, sample.logprobs, strict=True)]
        advantages = tuple(w * a for w, a in zip(weights, sample.advantages, strict=True))
        found.append(msgspec.structs.replace(sample, logprobs=tuple(proximal), advantages=advantages))
    return found


def test_weights_are_truncated_at_two() -> None:
    before = torch.tensor([0.1, 0.2, 0.8, 0.9]).log()
    weights, truncated = importance_weights(before, torch.tensor([0.2, 0.2, 0.4, 0.3]).log())
    assert weights.tolist() == pytest.approx([0.5, 1.0, 2.0, 2.0], abs=1e-5)
    assert truncated.tolist() == [False, False, False, True]


@pytest.mark.parametrize("steps", [(), SEVERAL], ids=["one optimizer step", "several"])
def test_an_update_is_the_one_worked_by_hand(played: tuple[Parts, list[Sample]], steps: tuple[str, ...]) -> None:
    parts, samples = played
    lagged, plain = fresh(parts, LAG, *steps), fresh(parts, *steps)
    metrics = lagged.update(older(samples))
    plain.update(by_hand(parts, older(samples)))
    found, wanted = copied(lagged.model.state_dict()), copied(plain.model.state_dict())
    before = copied(fresh(parts).model.state_dict())
    moved = max(float((found[name] - before[name]).abs().max()) for name in found)
    apart = max(float((found[name] - wanted[name]).abs().max()) for name in found)
    assert apart < 1e-3 * moved
    num = sum(len(sample.positions) for sample in samples)
    share = sum(-(-len(sample.positions) // 4) for sample in samples) / num
    assert metrics["lag/truncated_share"] == pytest.approx(share, abs=1e-6)
    assert metrics["gap/mean_difference"] > 0.1


def test_without_a_lag_the_ratio_is_to_the_engine(played: tuple[Parts, list[Sample]]) -> None:
    parts, samples = played
    metrics = fresh(parts).update(older(samples))
    assert metrics["learner/clip_share"] > 0.0
    assert not [name for name in metrics if name.startswith("lag/")]
    assert fresh(parts, LAG).update(older(samples))["learner/clip_share"] == 0.0


def test_a_teacher_has_no_importance_weights(played: tuple[Parts, list[Sample]]) -> None:
    parts, samples = played
    model = fresh(parts).model
    learner = LocalLearner(model, learner_settings(tiny_config(LAG, *SEVERAL)), imitates=True)
    assert not [name for name in learner.update(samples) if name.startswith(("lag/", "gap/"))]


def test_streams_of_several_versions_are_refused_without_a_lag(played: tuple[Parts, list[Sample]]) -> None:
    _, samples = played
    refuse_mixed(samples)
    mixed = msgspec.structs.replace(samples[0], version=3, num_versions=2)
    with pytest.raises(MageError, match=r"^a stream was sampled by 2 versions .* rollout\.lag = 0 allows one$"):
        refuse_mixed([*samples, mixed])
