"""Several learners that share one model learn what each would learn alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mage.errors import RecordError
from mage.learners.settings import learner_settings
from mage.learners.shared import SharedLearner, load_state, save_state
from mage.protocols import Learner
from mage.training.parts import Parts
from mage.types import Sample
from tests.tiny import evaluated, play, tiny_config, tiny_parts

FULL: tuple[str, ...] = ("learner.lr=0.01", "learner.entropy_start=0.1")
LORA = (*FULL, "learner.lora_rank=2")


def batches(parts: Parts) -> list[list[Sample]]:
    return [evaluated(parts, play(parts, step)) for step in range(3)]


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.state().weights.items()}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


@pytest.mark.parametrize("how", [FULL, LORA], ids=["full", "lora"])
def test_learners_that_share_a_model_learn_what_each_learns_alone(how: tuple[str, ...]) -> None:
    first, second, third = batches(tiny_parts(*how))
    slow = learner_settings(tiny_config(*how, "learner.lr=0.001", "agent.temperature=0.7"))
    shared = SharedLearner(tiny_parts(*how).learner, {"a": learner_settings(tiny_config(*how)), "b": slow})
    alone, other = tiny_parts(*how).learner, tiny_parts(*how).learner
    other.set_settings(slow)
    for batch, name, twin in ((first, "a", alone), (second, "b", other), (third, "a", alone), (first, "b", other)):
        assert shared.activate(name).update(batch) == twin.update(batch)
    assert_same(weights(shared.activate("a")), weights(alone))
    assert_same(weights(shared.activate("b")), weights(other))
    assert shared.num_tokens == alone.num_tokens + other.num_tokens
    assert not torch.equal(*(next(iter(shared[name].weights.values())) for name in "ab"))


def test_a_copy_goes_on_with_weights_optimizer_and_counters_of_the_other() -> None:
    first, second, _ = batches(tiny_parts(*FULL))
    settings = learner_settings(tiny_config(*FULL))
    shared = SharedLearner(tiny_parts(*FULL).learner, dict.fromkeys("ab", settings))
    shared.activate("a").update(first)
    shared.replace("b", shared["a"])
    shared.activate("a").update(second)
    alone = weights(shared.activate("a"))
    shared.activate("b").update(second)
    assert_same(weights(shared.activate("b")), alone)
    assert shared["b"].numbers == shared["a"].numbers


def test_an_adapter_can_be_published_while_its_learner_is_not_active() -> None:
    first, second, _ = batches(tiny_parts(*LORA))
    shared = SharedLearner(tiny_parts(*LORA).learner, dict.fromkeys("ab", learner_settings(tiny_config(*LORA))))
    shared.activate("a").update(first)
    shared.activate("b").update(second)
    stored = {name: shared.learner.weights(shared[name].weights).adapter for name in "ab"}
    for name in "ab":
        active = shared.activate(name).weights().adapter
        assert stored[name].keys() == active.keys()
        for module, (a, b, scaling) in active.items():
            assert torch.equal(stored[name][module].a_RI, a)
            assert torch.equal(stored[name][module].b_OR, b)
            assert stored[name][module].scaling == scaling
    assert any(not torch.equal(stored["a"][module].b_OR, stored["b"][module].b_OR) for module in stored["a"])


@pytest.mark.parametrize("how", [FULL, LORA], ids=["full", "lora"])
def test_a_state_on_disk_goes_on_as_it_was(how: tuple[str, ...], tmp_path: Path) -> None:
    first, second, third = batches(tiny_parts(*how))
    shared = SharedLearner(tiny_parts(*how).learner, dict.fromkeys("ab", learner_settings(tiny_config(*how))))
    shared.activate("a").update(first)
    save_state(tmp_path / "a", shared.activate("a"), "nano")
    shared.activate("a").update(second)
    wanted = weights(shared.activate("a"))
    shared.replace("b", load_state(tmp_path / "a", shared.learner))
    shared.activate("b").update(second)
    assert_same(weights(shared.activate("b")), wanted)
    with pytest.raises(RecordError, match="holds no learner"):
        load_state(tmp_path / "nowhere", shared.learner)
    assert third
