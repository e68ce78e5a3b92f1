"""PPO's value head: it learns what is to be expected, its surprises are the advantages, and a run can be resumed."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from mage.credit.estimators import make_estimator
from mage.credit.estimators.agent_specific import AgentSpecific
from mage.credit.estimators.grpo import Grpo
from mage.credit.estimators.ppo import AdvantageScale, Ppo
from mage.credit.group_baselines import Unit
from mage.credit.running_stats import EMPTY
from mage.training.checkpoint import checkpoints
from mage.training.run import create_run_directory, train_run
from mage.types import Sample
from tests.credited import bandit, group, step
from tests.learner_made import fresh
from tests.tiny import play, samples_of, tiny_config, tiny_parts

PPO = ("credit.estimator=ppo", "credit.options={ lam = 0.5 }", "credit.objective=single")


def worth(samples: list[Sample], value: float) -> list[Sample]:
    """The same samples, none better than expected, all of which went on to earn the same."""
    num = [len(sample.positions) for sample in samples]
    return [
        msgspec.structs.replace(sample, returns=(value,) * n, advantages=(0.0,) * n)
        for sample, n in zip(samples, num, strict=True)
    ]


@pytest.mark.parametrize("value", [0.7, -3.0])
def test_the_value_head_learns_a_constant_return(value: float) -> None:
    parts = tiny_parts(*PPO)
    learner = fresh(parts, "learner.lr=0.05", with_values=True)
    samples = worth(samples_of(parts), value)
    assert {v for row in learner.values(samples) for v in row} == {0.0}, "before it has learned it expects nothing"
    for _ in range(60):
        error = learner.update(samples)["learner/value_error"]
    assert error < 0.01 * value**2
    assert [v for row in learner.values(samples) for v in row] == pytest.approx([value] * 4 * len(samples), abs=0.15)


def test_what_was_expected_is_no_advantage() -> None:
    """A head that has learned what siblings earn on average sees each of them as its surprise."""
    parts = tiny_parts(*PPO, "learner.lr=0.05", "learner.value_weight=1.0", "credit.options={ lam = 1.0 }")
    groups = play(parts)
    before, _ = parts.estimator.estimate(parts.credit(groups), EMPTY)
    constant = worth(samples_of(parts), 5.0)
    for _ in range(80):
        parts.learner.update(constant)
    credited = parts.credit(groups)
    after, _ = parts.estimator.estimate(credited, EMPTY)
    for steps, old, new in zip(credited[0].trials, before[0], after[0], strict=True):
        assert old == pytest.approx([step.return_ for step in steps])
        assert new == pytest.approx([step.return_ - step.value for step in steps])
        assert [step.value for step in steps] == pytest.approx([5.0] * len(steps), abs=0.5)


def test_a_run_with_a_value_head_goes_on_bit_for_bit(tmp_path: Path) -> None:
    config = tiny_config(*PPO, "steps=4", "checkpoint.every=4", "alarms.entropy=0.0")
    for name in ("whole", "halves"):
        create_run_directory(config, tmp_path / name)
    train_run(tmp_path / "whole", Console(quiet=True))
    train_run(tmp_path / "halves", Console(quiet=True), max_minutes=0)
    assert checkpoints(tmp_path / "halves" / "checkpoints")[-1].name == "step-000001"
    train_run(tmp_path / "halves", Console(quiet=True))
    files = (
        "metrics.jsonl",
        "checkpoints/step-000004/model.safetensors",
        "checkpoints/step-000004/optimizer.safetensors",
    )
    for file in files:
        assert (tmp_path / "halves" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
    assert b"value_head.weight" in (tmp_path / "whole" / files[-1]).read_bytes()


def test_advantages_of_a_step_in_units_of_their_spread() -> None:
    """Returns 3, 1 and 2 with nothing expected: mean 2, spread sqrt(2/3); what is not trained takes no part."""
    one, two = bandit(3.0, 1.0), group([step(2.0, reward=2.0), step(9.0, reward=9.0, trained=False)])
    rewarded = [msgspec.structs.replace(s, reward=s.return_) for trial in one.trials for s in trial]
    groups = [group([rewarded[0]], [rewarded[1]]), two]
    unit = math.sqrt(1.5)
    (first, second), stats = Ppo(scale=AdvantageScale.BATCH).estimate(groups, EMPTY)
    assert [a for trial in first for a in trial] == pytest.approx([unit, -unit], rel=1e-5)
    assert second[0] == pytest.approx((0.0, 0.0))
    assert stats == EMPTY
    assert Ppo(scale=AdvantageScale.BATCH).estimate([group()], EMPTY) == (((),), EMPTY)


def test_switches_of_estimators_can_be_set_in_a_recipe() -> None:
    config = tiny_config("credit.estimator=grpo", "credit.options={ divide = false, unit = 'turn' }")
    assert make_estimator("grpo", config.credit.options) == Grpo(divide=False, unit=Unit.TURN)
    config = tiny_config("credit.estimator=agent-specific", "credit.options={ settled = 3, s_min = 1 }")
    assert make_estimator("agent-specific", config.credit.options) == AgentSpecific(settled=3, s_min=1.0)
