"""The learner on a tiny model: it reads what the engine sampled, and moves it the right way."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, Gemma2Config, GraniteConfig, PretrainedConfig

from mage.errors import ConfigError
from mage.learners.batch import micro_batches
from mage.learners.local import LearnError, LocalLearner
from mage.learners.settings import learner_settings
from mage.training.parts import Parts
from mage.types import Phase, Sample, Weight
from tests.learner_made import MODES, copied, fresh, played_notes
from tests.tiny import logprobs, model_of, read, samples_of, sharpen, tiny_config, tiny_parts, with_advantage

SHAPE: dict[str, Any] = {
    "vocab_size": 11,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


@pytest.fixture(scope="module")
def notes() -> tuple[Parts, list[Sample]]:
    return played_notes()


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
@pytest.mark.parametrize("mode", MODES)
def test_before_an_update_the_learner_agrees_with_the_engine(mode: str, temperature: float) -> None:
    parts = sharpen(tiny_parts(*MODES[mode], f"agent.temperature={temperature}", "learner.lr=0.01"))
    for step in range(2):
        samples = samples_of(parts, step)
        report = parts.learner.update([with_advantage(s, 1.0) for s in samples])
        assert report["gap/mean_difference"] < 1e-4
        assert report["gap/mean_ratio"] == pytest.approx(1.0, abs=1e-4)
        assert report["gap/outside_0.9_1.1"] == report["gap/outside_0.8_1.25"] == 0.0
        assert report["entropy/play"] < 0.99, "a uniform policy would hide a wrong temperature"
    later = parts.learner.update(samples)
    assert later["gap/mean_difference"] > 1e-3, "the weights did change"


@pytest.mark.parametrize("weight", list(Weight))
def test_the_size_of_micro_batches_changes_no_update(notes: tuple[Parts, list[Sample]], weight: Weight) -> None:
    parts, samples = notes
    found = []
    budgets = 1, 1000, 100_000
    assert [len(micro_batches(samples, weight, budget)) for budget in budgets] == [12, 4, 1]
    for budget in budgets:
        learner = fresh(
            parts, f"learner.token_budget={budget}", f"learner.weight={weight}", "learner.entropy_start=0.1"
        )
        report = learner.update(samples)
        gradients = {n: p.grad.clone() for n, p in learner.model.named_parameters()}
        found.append((gradients, copied(learner.weights().merged()), report))
    for gradients, weights, report in found[1:]:
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, found[0][0][name], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(weights[name], found[0][1][name], atol=1e-5, rtol=1e-5)
        assert report == pytest.approx(found[0][2], abs=1e-5)


def test_changing_one_sequence_leaves_the_others_bit_equal(notes: tuple[Parts, list[Sample]]) -> None:
    parts, samples = notes
    before, _ = read(parts.learner, samples)
    for changed in (0, 3, len(samples) - 1):
        other = msgspec.structs.replace(samples[changed], tokens=samples[changed].tokens[::-1])
        after, _ = read(parts.learner, [*samples[:changed], other, *samples[changed + 1 :]])
        assert after[changed] != before[changed]
        assert [row for i, row in enumerate(after) if i != changed] == [
            row for i, row in enumerate(before) if i != changed
        ]


def test_logits_where_trained_equal_a_plain_forward(notes: tuple[Parts, list[Sample]]) -> None:
    parts, samples = notes
    for sample in samples:
        with torch.no_grad():
            logits_TV = model_of(parts)(torch.tensor([sample.tokens])).logits[0]
        plain = []
        for position, allowed in zip(sample.positions, sample.allowed, strict=True):
            row = logits_TV[position - 1]
            total = torch.logsumexp(row if allowed is None else row[list(allowed)], dim=0)
            plain.append((row[sample.tokens[position]] - total).item())
        assert logprobs(parts.learner, sample)[0] == pytest.approx(plain, abs=1e-5)


@pytest.mark.parametrize(
    "config",
    [
        Gemma2Config(**SHAPE, final_logit_softcapping=0.5, head_dim=8),  # a cap on the logits
        GraniteConfig(**SHAPE, logits_scaling=4.0),  # a divisor
    ],
    ids=["cap", "scale"],
)
def test_where_logits_are_more_than_the_head_they_are_read_from_a_plain_forward(config: PretrainedConfig) -> None:
    model: Any = AutoModelForCausalLM.from_config(config).eval()  # type: ignore[no-untyped-call]
    for weight in model.parameters():
        weight.data.normal_(0.0, 0.5, generator=torch.Generator().manual_seed(weight.numel()))
    learner = LocalLearner(model, learner_settings(tiny_config()))
    with torch.no_grad():
        plain = model(torch.tensor([[1, 2, 3, 4]])).logits[0, 1].log_softmax(0)[3].item()
        bare = model.lm_head(model.model(torch.tensor([[1, 2, 3, 4]])).last_hidden_state)[0, 1].log_softmax(0)[3].item()
    one = (Phase.PLAY,), (plain,), (1.0,), (0.0,), (None,)
    sample = Sample((1, 2, 3, 4), (2,), (0,), *one, 0)
    assert logprobs(learner, sample)[0] == pytest.approx([plain], abs=1e-5)
    assert abs(plain - bare) > 0.01
    learner.update([sample])
    assert learner.model.lm_head.weight.grad.abs().sum() > 0


def test_settings_that_cannot_learn_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent\.temperature = 0: a deterministic policy has no gradient"):
        tiny_parts("agent.temperature=0")
    with pytest.raises(ConfigError, match=r"learner\.entropy_floor = 0\.2 raises the entropy bonus, so"):
        tiny_parts("learner.entropy_floor=0.2")


def test_what_did_better_becomes_likelier_and_what_did_worse_less_likely(notes: tuple[Parts, list[Sample]]) -> None:
    parts, samples = notes
    for phase in Phase:
        for sign in (1.0, -1.0):
            sample = samples[0]
            chosen = sample.phases.index(phase)
            advantages = [sign if i == chosen else 0.0 for i in range(len(sample.positions))]
            learner = fresh(parts, "learner.lr=0.001")
            before = logprobs(learner, sample)[0][chosen]
            learner.update([with_advantage(sample, *advantages)])
            assert sign * (logprobs(learner, sample)[0][chosen] - before) > 1e-3


def test_siblings_with_opposite_advantages_part_ways(notes: tuple[Parts, list[Sample]]) -> None:
    parts, samples = notes
    pair = [with_advantage(samples[0], 1.0), with_advantage(samples[-1], -1.0)]
    learner = fresh(parts, "learner.lr=0.001")
    before = logprobs(learner, *pair)
    learner.update(pair)
    after = logprobs(learner, *pair)
    assert sum(after[0]) > sum(before[0])
    assert sum(after[1]) < sum(before[1])


def gradient(parts: Parts, samples: list[Sample], weight: Weight) -> Tensor:
    learner = fresh(parts, f"learner.weight={weight}", "learner.grad_clip=1000000.0")
    learner.update(samples)
    return torch.cat([p.grad.flatten() for p in learner.model.parameters()])


def test_what_counts_equally(notes: tuple[Parts, list[Sample]]) -> None:
    """The gradient of a batch is the weighted mean of the gradients of its parts."""
    parts, samples = notes
    sample = with_advantage(samples[0], 1.0)
    move = sample.phases.index(Phase.PLAY)
    first = sample.turns[sample.phases.index(Phase.REFLECT)]
    note = [i for i, turn in enumerate(sample.turns) if turn == first]
    assert len(note) > 1
    short, long = only(sample, [move]), only(sample, note)
    g_move, g_note = (gradient(parts, [s], Weight.TOKEN) for s in (short, long))
    n = len(note)
    both = only(sample, [move, *note])
    for batch, weight, expected in [
        ([both], Weight.TURN, (g_move + g_note) / 2),
        ([both], Weight.TOKEN, (g_move + n * g_note) / (1 + n)),
        ([both], Weight.SEQUENCE, (g_move + n * g_note) / (1 + n)),
        ([short, long], Weight.TURN, (g_move + g_note) / 2),
        ([short, long], Weight.TOKEN, (g_move + n * g_note) / (1 + n)),
        ([short, long], Weight.SEQUENCE, (g_move + g_note) / 2),
        ([both, short], Weight.TURN, (2 * g_move + g_note) / 3),
        ([both, short], Weight.SEQUENCE, ((g_move + n * g_note) / (1 + n) + g_move) / 2),
    ]:
        torch.testing.assert_close(gradient(parts, batch, weight), expected, atol=1e-5, rtol=1e-4)


def only(sample: Sample, chosen: list[int]) -> Sample:
    """The sample with some of its trained tokens alone."""
    aligned = ("positions", "turns", "phases", "logprobs", "advantages", "returns", "allowed")
    kept = {name: tuple(getattr(sample, name)[i] for i in sorted(chosen)) for name in aligned}
    return msgspec.structs.replace(sample, **kept)


def test_an_update_that_is_not_finite_is_skipped_and_counted_until_it_repeats(
    notes: tuple[Parts, list[Sample]],
) -> None:
    parts, samples = notes
    learner = fresh(parts, "learner.max_skips=1")
    before = copied(learner.weights().merged())
    broken = [with_advantage(samples[0], math.nan), *samples[1:]]
    assert learner.update(broken)["learner/skipped_updates"] == 1.0
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.weights().merged().items())
    assert "learner/skipped_updates" not in learner.update(samples), "a good update ends the row"
    learner.update(broken)
    with pytest.raises(LearnError, match=r"not finite in 2 updates in a row; lower learner\.lr"):
        learner.update(broken)


def test_every_sample_is_seen_once_per_epoch(notes: tuple[Parts, list[Sample]]) -> None:
    parts, samples = notes
    report = fresh(parts, "learner.minibatches=3", "learner.epochs=2").update(samples)
    assert report["learner/tokens"] == 2 * sum(len(s.tokens) for s in samples)
    assert report["learner/trained_tokens"] == 2 * sum(len(s.positions) for s in samples)
