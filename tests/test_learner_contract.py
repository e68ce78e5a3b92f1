"""Learners: ours keeps the contract for every kind of training, and the check finds what is broken in others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mage.checks.learners import check_learner
from mage.errors import ConfigError
from mage.learners.local import LocalLearner
from mage.learners.registry import LEARNERS, make_learner
from mage.types import Sample
from mage.weights import LearnerState, PolicyWeights
from tests.made import made_model, made_samples, made_settings
from tests.plugins_engine import SgdLearner

FULL = ("learner.lr=0.01",)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("with_values", [False, True], ids=["", "values"])
@pytest.mark.parametrize("lora", [(), ("learner.lora_rank=4",)], ids=["full", "lora"])
def test_ours_keeps_the_contract(lora: tuple[str, ...], with_values: bool, dtype: torch.dtype, tmp_path: Path) -> None:
    def make() -> LocalLearner:
        return LocalLearner(made_model(dtype), made_settings(*FULL, *lora), with_values=with_values)

    check_learner(make, made_samples(), tmp_path)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_so_does_plain_sgd(tied: bool, tmp_path: Path) -> None:
    def make() -> SgdLearner:
        return SgdLearner(made_model(tie_word_embeddings=tied), made_settings("learner.lr=0.5"), False, False)

    check_learner(make, made_samples(), tmp_path)


class Broken(LocalLearner):
    """A learner with a fault."""

    def __init__(self) -> None:
        super().__init__(made_model(), made_settings(*FULL))


class Idle(Broken):
    """Its update changes nothing."""

    def update(self, samples: Sequence[Sample]) -> dict[str, float]:
        before = self.state().copied()
        metrics = super().update(samples)
        self.restore(replace(before, numbers=self.state().numbers))
        return metrics


class ForgetsMoments(Broken):
    """Restores the weights and not the optimizer."""

    def restore(self, state: LearnerState) -> None:
        super().restore(replace(state, tensors={}))


class ForgetsCounters(Broken):
    """Restores no counters."""

    def restore(self, state: LearnerState) -> None:
        super().restore(replace(state, numbers={**state.numbers, "num_tokens": 0}))


class SavesTheFirst(Broken):
    """Saves the weights that it began with."""

    def save(self, folder: Path, base: str) -> None:
        made_model().save_pretrained(folder)


class SavesElsewhere(Broken):
    """Says another name than that of the file it writes."""

    weights_file = "weights.safetensors"


class PublishesTheFirst(Broken):
    """Hands out the weights that it began with."""

    def weights(self, trained: Mapping[str, Any] | None = None) -> PolicyWeights:
        return PolicyWeights(made_model().state_dict())


class ForgetsTies(Broken):
    """Publishes another state with the head of its own, where the file has tied weights once."""

    def weights(self, trained: Mapping[str, Any] | None = None) -> PolicyWeights:
        return PolicyWeights(self.model.state_dict() | dict(trained or {}))


class Trains(Broken):
    """Its evaluation moves the weights."""

    def evaluate_tokens(self, samples: Sequence[Sample]) -> list[list[tuple[float, float]]]:
        with torch.no_grad():
            self.model.model.norm.weight.add_(0.01)
        return super().evaluate_tokens(samples)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (Idle, "an update changes no weights"),
        (ForgetsMoments, "from a state in memory, the next update differs .* such as the optimizer's, is lost"),
        (ForgetsCounters, "num_tokens is another"),
        (SavesTheFirst, "of a state from files"),
        (SavesElsewhere, "holds no learner|save wrote no weights"),
        (PublishesTheFirst, "the weights to publish are the same after an update"),
        (ForgetsTies, "of a state from files, where tied weights stand once"),
        (Trains, "evaluating samples changes the weights"),
    ],
)
def test_the_check_says_what_is_broken(broken: type[Broken], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_learner(broken, made_samples(), tmp_path)


def test_what_is_not_a_learner_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNERS._added, "nothing", lambda *_: object())
    monkeypatch.setitem(LEARNERS._added, "sgd", SgdLearner)
    given = (made_model(), made_settings())
    with pytest.raises(ConfigError, match="the learner 'nothing' lacks update, evaluate_tokens, "):
        make_learner("nothing", *given, with_values=False, imitates=False)
    with pytest.raises(ConfigError, match=r"learner\.kind = sgd: it has no values, which the estimator needs"):
        make_learner("sgd", *given, with_values=True, imitates=False)
    with pytest.raises(ConfigError, match="unknown learner 'adam'; known: local, nothing, sgd"):
        make_learner("adam", *given, with_values=False, imitates=False)
