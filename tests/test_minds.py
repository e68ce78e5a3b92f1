"""Several learners in one body learn what each would learn alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mage.errors import RecordError
from mage.learn.learner import Learner
from mage.learn.minds import Minds, load_mind, save_mind
from mage.learn.parts import Parts, learner_settings
from mage.types import Sample
from tests.tiny import judged, play, tiny_config, tiny_parts

FULL: tuple[str, ...] = ("learner.lr=0.01", "learner.entropy_start=0.1")
LORA = (*FULL, "learner.lora_rank=2")


def batches(parts: Parts) -> list[list[Sample]]:
    return [judged(parts, play(parts, step)) for step in range(3)]


def weights(body: Learner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in body.trained().items()}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


@pytest.mark.parametrize("how", [FULL, LORA], ids=["full", "lora"])
def test_minds_that_take_turns_are_learners_of_their_own(how: tuple[str, ...]) -> None:
    first, second, third = batches(tiny_parts(*how))
    slow = learner_settings(tiny_config(*how, "learner.lr=0.001", "agent.temperature=0.7"))
    minds = Minds(tiny_parts(*how).learner, {"a": learner_settings(tiny_config(*how)), "b": slow})
    alone, other = tiny_parts(*how).learner, tiny_parts(*how).learner
    other.adjust(slow)
    for batch, name, twin in ((first, "a", alone), (second, "b", other), (third, "a", alone), (first, "b", other)):
        assert minds.wake(name).update(batch) == twin.update(batch)
    assert_same(weights(minds.wake("a")), weights(alone))
    assert_same(weights(minds.wake("b")), weights(other))
    assert minds.num_tokens == alone.num_tokens + other.num_tokens
    assert not torch.equal(*(next(iter(minds[name].weights.values())) for name in "ab"))


def test_a_copy_goes_on_with_weights_optimizer_and_counters_of_the_other() -> None:
    first, second, _ = batches(tiny_parts(*FULL))
    settings = learner_settings(tiny_config(*FULL))
    minds = Minds(tiny_parts(*FULL).learner, dict.fromkeys("ab", settings))
    minds.wake("a").update(first)
    minds.replace("b", minds["a"])
    minds.wake("a").update(second)
    alone = weights(minds.wake("a"))
    minds.wake("b").update(second)
    assert_same(weights(minds.wake("b")), alone)
    assert minds["b"].numbers == minds["a"].numbers


def test_an_adapter_can_be_published_while_its_mind_sleeps() -> None:
    first, second, _ = batches(tiny_parts(*LORA))
    minds = Minds(tiny_parts(*LORA).learner, dict.fromkeys("ab", learner_settings(tiny_config(*LORA))))
    minds.wake("a").update(first)
    minds.wake("b").update(second)
    asleep = {name: minds.body.adapter(minds[name].weights) for name in "ab"}
    for name in "ab":
        awake = minds.wake(name).adapter()
        assert asleep[name].keys() == awake.keys()
        for module, (a, b, scaling) in awake.items():
            assert torch.equal(asleep[name][module].a_RI, a)
            assert torch.equal(asleep[name][module].b_OR, b)
            assert asleep[name][module].scaling == scaling
    assert any(not torch.equal(asleep["a"][module].b_OR, asleep["b"][module].b_OR) for module in asleep["a"])


@pytest.mark.parametrize("how", [FULL, LORA], ids=["full", "lora"])
def test_a_mind_on_disk_goes_on_as_it_was(how: tuple[str, ...], tmp_path: Path) -> None:
    first, second, third = batches(tiny_parts(*how))
    minds = Minds(tiny_parts(*how).learner, dict.fromkeys("ab", learner_settings(tiny_config(*how))))
    minds.wake("a").update(first)
    save_mind(tmp_path / "a", minds.wake("a"), "nano")
    minds.wake("a").update(second)
    wanted = weights(minds.wake("a"))
    minds.replace("b", load_mind(tmp_path / "a", minds.body))
    minds.wake("b").update(second)
    assert_same(weights(minds.wake("b")), wanted)
    with pytest.raises(RecordError, match="holds no learner"):
        load_mind(tmp_path / "nowhere", minds.body)
    assert third
