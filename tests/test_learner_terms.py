"""What else moves the weights: divergence, entropy bonus, the rate of learning, and a value head beside the model."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from mage.training.parts import Parts
from mage.types import Divergence, Phase, Sample
from tests.learner_made import MODES, fresh, played_notes
from tests.tiny import local, model_of, play, sharpen, tiny_parts, with_advantage


@pytest.fixture(scope="module")
def notes() -> tuple[Parts, list[Sample]]:
    return played_notes()


@pytest.mark.parametrize("kind", [Divergence.K1, Divergence.K2, Divergence.K3])
def test_the_divergence_is_zero_at_first(notes: tuple[Parts, list[Sample]], kind: Divergence) -> None:
    parts, samples = notes
    learner = fresh(parts, f"learner.divergence={kind}", "learner.lr=0.01")
    assert learner.update(samples)["learner/kl"] == 0.0
    assert learner.update(samples)["learner/kl"] != 0.0


def test_the_reference_reads_at_the_temperature_that_the_learner_has_now(
    notes: tuple[Parts, list[Sample]],
) -> None:
    parts, samples = notes
    learner = fresh(parts, "learner.divergence=k3", "learner.lr=0.01")
    learner.set_settings(replace(learner._settings, temperature=2.0))
    assert learner.update(samples)["learner/kl"] == 0.0


def test_the_divergence_grows_and_pulls_back(notes: tuple[Parts, list[Sample]]) -> None:
    parts, samples = notes
    pushed = [with_advantage(s, 1.0) for s in samples]
    neutral = [with_advantage(s, 0.0) for s in samples]
    learner = fresh(parts, "learner.divergence=k3", "learner.divergence_weight=1.0", "learner.lr=0.01")
    for _ in range(5):
        learner.update(pushed)
    away = learner.update(neutral)["learner/kl"]
    for _ in range(40):
        back = learner.update(neutral)["learner/kl"]
    assert away > 0.01
    assert back < away / 4
    free = fresh(parts, "learner.divergence=k3", "learner.divergence_weight=0.0", "learner.lr=0.01")
    for _ in range(5):
        free.update(pushed)
    assert free.update(neutral)["learner/kl"] > away, "the penalty held back from the start"


def test_the_entropy_bonus_raises_entropy_where_it_counts(notes: tuple[Parts, list[Sample]]) -> None:
    parts, samples = notes
    neutral = [with_advantage(s, 0.0) for s in samples]
    changes = {}
    for reflect in (0.0, 1.0):
        overrides = ("learner.entropy_start=0.5", "learner.entropy_end=0.5", f"learner.entropy_reflect={reflect}")
        learner = fresh(parts, *overrides, "learner.lr=0.003")
        first = learner.update(neutral)
        for _ in range(10):
            last = learner.update(neutral)
        changes[reflect] = {phase: last[f"entropy/{phase}"] - first[f"entropy/{phase}"] for phase in Phase}
        assert changes[reflect][Phase.PLAY] > 0.01
    assert changes[1.0][Phase.REFLECT] > changes[0.0][Phase.REFLECT] + 0.01


def test_evenness_brings_back_a_policy_that_has_become_certain(notes: tuple[Parts, list[Sample]]) -> None:
    parts, samples = notes
    neutral = [with_advantage(s, 0.0) for s in samples]
    found = {}
    for even in (0.0, 1.0):
        overrides = ("learner.entropy_start=0.1", "learner.entropy_end=0.1", f"learner.entropy_even={even}")
        learner = fresh(parts, *overrides, "learner.lr=0.003")
        with torch.no_grad():
            learner.model.model.norm.weight.mul_(300.0)
        found[even] = [learner.update(neutral)["entropy/play"] for _ in range(20)]
    assert found[0.0][0] == found[1.0][0] < 0.1
    assert found[1.0][-1] > found[0.0][-1] + 0.05


def test_the_entropy_bonus_goes_from_start_to_end(notes: tuple[Parts, list[Sample]]) -> None:
    parts, samples = notes
    learner = fresh(parts, "steps=3", "learner.entropy_start=0.4", "learner.entropy_end=0.1")
    found = [learner.update(samples)["learner/entropy_bonus"] for _ in range(4)]
    assert found == pytest.approx([0.4, 0.25, 0.1, 0.1])


def test_the_entropy_floor_raises_the_bonus_update_by_update(notes: tuple[Parts, list[Sample]]) -> None:
    parts, samples = notes
    bonus = ("learner.entropy_start=0.2", "learner.entropy_end=0.2", "learner.lr=1e-9")
    learner = fresh(parts, *bonus, "learner.entropy_floor=1.0")
    first, second, third = (learner.update(samples) for _ in range(3))
    shortfall = 1.0 - first["entropy/play"]
    assert 0.01 < shortfall < 1.0
    assert first["learner/entropy_bonus"] == pytest.approx(0.2)
    assert second["learner/entropy_bonus"] == pytest.approx(0.2 * math.exp(0.1 * shortfall), rel=1e-5)
    assert third["learner/entropy_bonus"] == pytest.approx(0.2 * math.exp(0.2 * shortfall), rel=1e-5)
    content = fresh(parts, *bonus, "learner.entropy_floor=0.01")
    assert [content.update(samples)["learner/entropy_bonus"] for _ in range(3)] == pytest.approx([0.2] * 3)


def test_the_learning_rate_rises_and_falls(notes: tuple[Parts, list[Sample]]) -> None:
    parts, samples = notes
    learner = fresh(parts, "steps=4", "learner.lr=0.008", "learner.warmup=2", "learner.decay=true")
    found = [learner.update(samples)["learner/lr"] for _ in range(4)]
    assert found == pytest.approx([0.004, 0.006, 0.004, 0.002])


def test_the_value_head_learns_the_returns_and_its_values_are_aligned(notes: tuple[Parts, list[Sample]]) -> None:
    parts, samples = notes
    learner = fresh(parts, "learner.lr=0.02", "learner.value_weight=1.0", with_values=True)
    flat = [with_advantage(s, 0.0) for s in samples]
    errors = [learner.update(flat)["learner/value_error"] for _ in range(80)]
    returns = [x for s in samples for x in s.returns]
    assert errors[0] == pytest.approx(sum(x * x for x in returns) / len(returns), rel=1e-5), "the head starts at zero"
    assert errors[-1] < 0.2 * errors[0]
    values = learner.values(samples[::-1])
    assert [len(row) for row in values] == [len(s.positions) for s in samples[::-1]]
    squares = [
        (v - r) ** 2 for row, s in zip(values, samples[::-1], strict=True) for v, r in zip(row, s.returns, strict=True)
    ]
    assert sum(squares) / len(squares) == pytest.approx(learner.update(flat)["learner/value_error"], rel=1e-3)


def test_values_of_turns_are_those_before_their_first_token() -> None:
    """Credit sees, for each turn, what the head expected when the turn was still to be made."""
    parts = sharpen(tiny_parts(*MODES["choice, notes"], "credit.estimator=ppo", "credit.options={}"))
    groups = play(parts)
    with torch.no_grad():
        local(parts)._value_head.weight.normal_(generator=torch.Generator().manual_seed(1))  # type: ignore[union-attr]
    trial, steps = groups[0].trials[0], parts.credit(groups)[0].trials[0]
    turns = [
        turn for e, episode in enumerate(trial.episodes) for turn in (*episode.turns, *trial.reflections[e : e + 1])
    ]
    mine = [turn for turn in turns if turn.calls]
    assert len(mine) == len(steps) == 5
    for turn, step in zip(mine, steps, strict=True):
        call = turn.calls[0]
        ids = torch.tensor([trial.streams[call.stream][: call.start]])
        with torch.no_grad():
            state = model_of(parts).model(ids).last_hidden_state[0, -1]
            expected = local(parts)._value_head(state).item()  # type: ignore[misc]
        assert step.value == pytest.approx(expected, abs=1e-5)
