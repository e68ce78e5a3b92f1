"""When memory runs out a step begins again with smaller micro-batches; and layers that keep less."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaForCausalLM, LlamaModel

from mage.errors import ConfigError
from mage.learners.batch import iter_micro_batches, micro_batches, partition
from mage.learners.local import LearnError, LocalLearner
from mage.learners.metric_sums import MetricSums
from mage.types import Weight
from tests.made import made_model, made_samples, made_settings
from tests.tree import ROOT


class TightInner(LlamaModel):  # type: ignore[no-untyped-call]
    """Has room for some positions only, as a small card would; it says so as PyTorch does."""

    room = 10**9
    after = 0
    """How many passes have room for everything."""

    def forward(self, input_ids: Any = None, **kwargs: Any) -> Any:
        TightInner.after -= 1
        if TightInner.after < 0 and input_ids.numel() > TightInner.room:
            raise torch.OutOfMemoryError(f"no room for {input_ids.numel()} positions")
        return super().forward(input_ids, **kwargs)


class Tight(LlamaForCausalLM):
    """A model around it."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)  # type: ignore[no-untyped-call]
        self.model = TightInner(config)
        self.post_init()  # type: ignore[no-untyped-call]


@pytest.fixture(autouse=True)
def _roomy() -> Any:
    yield
    TightInner.room, TightInner.after = 10**9, 0


def tight(*overrides: str, dtype: torch.dtype = torch.float32) -> LocalLearner:
    return LocalLearner(made_model(dtype, Tight), made_settings("learner.lr=0.01", *overrides))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_step_that_ran_out_of_memory_is_the_step_with_half_the_budget(dtype: torch.dtype) -> None:
    samples = made_samples(8)  # 26 to 40 tokens each
    learner, other = tight("learner.token_budget=200", dtype=dtype), tight("learner.token_budget=100", dtype=dtype)
    TightInner.room = 130
    with pytest.warns(UserWarning, match=r"out of memory with learner\.token_budget = 200; .* begins again with 100"):
        report = learner.update(samples)
    expected = other.update(samples)
    assert report.pop("learner/out_of_memory") == 1.0
    assert report.pop("learner/token_budget") == 100
    assert report == expected, "figures of what was given up do not count"
    for name, tensor in other.weights().merged().items():
        assert torch.equal(learner.weights().merged()[name], tensor), name
    later = learner.update(samples)
    assert "learner/out_of_memory" not in later
    assert later["learner/token_budget"] == 100, "the budget stays"


def test_the_half_is_of_what_was_tried_not_of_a_budget_that_was_never_used_up() -> None:
    samples = made_samples(4)  # 26 to 32 tokens each
    learner = tight("learner.token_budget=100000")
    TightInner.room = 70
    with pytest.warns(UserWarning, match="begins again with 64"):
        assert learner.update(samples)["learner/token_budget"] == 64


def test_minibatches_that_went_well_are_not_done_again() -> None:
    samples = made_samples(8)
    how = ("learner.token_budget=200", "learner.minibatches=2", "learner.epochs=2")
    learner, other = tight(*how), tight(*how)
    expected = other.update(samples)
    TightInner.room, TightInner.after = 90, 2  # the third of four optimizer steps fails in its first pass
    with pytest.warns(UserWarning, match="begins again"):
        report = learner.update(samples)
    assert report["learner/out_of_memory"] == 1.0
    assert report["learner/tokens"] == expected["learner/tokens"] == 2 * sum(len(s.tokens) for s in samples)
    assert report["learner/loss"] == pytest.approx(expected["learner/loss"], abs=1e-5)
    for name, tensor in other.weights().merged().items():
        torch.testing.assert_close(learner.weights().merged()[name], tensor, atol=1e-4, rtol=1e-4)


def test_a_second_failure_is_an_error_and_the_weights_are_as_they_were() -> None:
    learner = tight("learner.token_budget=200")
    before = {name: tensor.clone() for name, tensor in learner.weights().merged().items()}
    TightInner.room = 10
    with (
        pytest.warns(UserWarning, match="out of memory"),
        pytest.raises(LearnError, match=r"out of memory again with learner\.token_budget = 100, half of"),
    ):
        learner.update(made_samples(8))
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.weights().merged().items())


def test_an_optimizer_that_does_not_fit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: object) -> None:
        raise torch.OutOfMemoryError("no room for moments")

    learner = tight()
    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    with pytest.raises(LearnError, match=r"moments do not fit together; train an adapter \(learner\.lora_rank\)"):
        learner.update(made_samples(2))


def test_the_smaller_budget_is_part_of_the_state() -> None:
    samples = made_samples(8)
    learner, other = tight("learner.token_budget=200"), tight("learner.token_budget=200")
    assert "token_budget" not in learner.state().numbers
    TightInner.room = 130
    with pytest.warns(UserWarning, match="out of memory"):
        learner.update(samples)
    other.restore(learner.state())
    assert other.state().numbers["token_budget"] == 100
    assert other.update(samples) == learner.update(samples)


def test_the_figures_are_documented() -> None:
    keys = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"learner/out_of_memory", "learner/token_budget"} <= set(keys)


def kept_bytes(learner: LocalLearner) -> int:
    """What the forward pass of an update keeps for the gradient."""
    total = 0

    def keep(tensor: Tensor) -> Tensor:
        nonlocal total
        total += tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        learner.update(made_samples(8, 60, reply=0))
    return total


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_checkpointed_layers_keep_less_and_learn_the_same(dtype: torch.dtype) -> None:
    plain, sparing = (
        LocalLearner(made_model(dtype), made_settings("learner.lr=0.01", f"learner.gradient_checkpointing={flag}"))
        for flag in ("false", "true")
    )
    assert kept_bytes(sparing) < 0.5 * kept_bytes(plain)
    for name, tensor in plain.weights().merged().items():
        torch.testing.assert_close(sparing.weights().merged()[name], tensor, atol=1e-5, rtol=1e-5)


class Stubborn(LlamaForCausalLM):  # type: ignore[no-untyped-call]
    """Cannot be checkpointed."""

    supports_gradient_checkpointing = False


def test_a_model_that_cannot_be_checkpointed_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"learner\.gradient_checkpointing = true: Stubborn does not support"):
        LocalLearner(made_model(kind=Stubborn), made_settings("learner.gradient_checkpointing=true"))


def test_values_of_many_sequences_are_those_of_each() -> None:
    samples = made_samples(8)[::-1]
    learner = LocalLearner(made_model(), made_settings("learner.lr=0.01", "learner.token_budget=90"), with_values=True)
    learner.update(samples)
    together = learner.values(samples)
    assert [len(row) for row in together] == [len(s.positions) for s in samples]
    for sample, row in zip(samples, together, strict=True):
        (alone,) = learner.values([sample])
        assert row == pytest.approx(alone, abs=1e-5)
    assert len({value for row in together for value in row}) > len(samples)
    assert learner.values([]) == []


def test_lengths_are_padded_to_multiples_within_the_budget() -> None:
    samples = made_samples(8)
    partitions = partition(samples, 100, multiple=16)
    assert [len(chosen) for chosen in partitions] == [2, 2, 3, 1]
    for chosen, batch in zip(
        partitions, iter_micro_batches(samples, Weight.TURN, partitions, multiple=16), strict=True
    ):
        longest = max(len(samples[i].tokens) for i in chosen)
        assert batch.tokens_BT.shape[1] in range(longest, longest + 16)
        assert batch.tokens_BT.shape[1] % 16 == 0
        assert batch.tokens_BT.numel() <= 100
    plain = micro_batches(samples, Weight.TURN, 100)
    assert sum(b.num_tokens for b in plain) == sum(len(s.tokens) for s in samples)


def test_sums_merge() -> None:
    sums, other = MetricSums(), MetricSums()
    for each, number in ((sums, 1.0), (other, 4.0)):
        each.add("count", number)
        each.mean("mean", number, 1)
        each.tensor("rows", torch.tensor([number, number + 1.0]))
        each.tensor("none", torch.tensor([]))
    sums.merge(other)
    assert sums.report() == {"count": 5.0, "mean": 2.5, "rows": 3.0}
