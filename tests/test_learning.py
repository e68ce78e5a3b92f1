"""Learning through the real loop: a small problem is solved, every estimator runs, nothing is lost on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from mage.credit.running_stats import EMPTY
from mage.credit.steps import agent_turns
from mage.training.checkpoint import checkpoints, read_state
from mage.training.loop import to_batch
from mage.training.parts import Parts
from mage.training.recorder import RunRecorder
from mage.training.run import create_run_directory, train_run
from mage.types import Group, Phase
from tests.tiny import collect, evaluated, play, tiny_config, tiny_parts

ONE_ARM = (
    "world=rps(rounds=1)",
    "trial.episodes=1",
    'population.members=["always:rock"]',
    "agent.memory=none",
    "batch.groups=1",
    "batch.size=32",
    "learner.lr=0.01",
)


def steps_of(parts: Parts, num: int) -> list[dict[str, float]]:
    """The loop without a directory: play, credit, update."""
    stats, found = EMPTY, []
    for step in range(num):
        groups, metrics = collect(parts, step, stats)
        credited = parts.credit(groups)
        advantages, stats = parts.estimator.estimate(credited, stats)
        metrics |= parts.learner.update(to_batch(groups, credited, advantages, range(len(groups))))
        found.append(metrics)
    return found


def test_the_winning_move_is_found() -> None:
    found = steps_of(tiny_parts(*ONE_ARM), 30)
    scores = [metrics["score/episode_1"] for metrics in found]
    assert scores[0] < 0.5
    assert sum(scores[-5:]) / 5 > 0.8
    assert max(metrics["gap/mean_difference"] for metrics in found) < 1e-4


RECIPES = {
    "ppo": ("credit.options={ lam = 0.9 }", "agent.reply=text", "agent.max_tokens=5", "credit.invalid_penalty=0.5"),
    "grpo": ("credit.options={}", "learner.divergence=k3", "learner.divergence_weight=0.01"),
    "gigpo": ("credit.options={}", "learner.epochs=2", "learner.minibatches=2", "credit.objective=differential"),
    "reinforce": ("credit.options={}", "agent.memory=both", "agent.reflection_tokens=4"),
    "rloo": ("credit.options={}", "learner.weight=sequence", "agent.memory=reflections", "agent.reflection_tokens=3"),
}


def run(folder: Path, *overrides: str) -> RunRecorder:
    """A whole run in a directory."""
    create_run_directory(tiny_config(*overrides), folder)
    return train_run(folder, Console(quiet=True))


def metrics(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("estimator", RECIPES)
def test_every_estimator_trains(estimator: str, tmp_path: Path) -> None:
    recorder = run(tmp_path / "run", "steps=2", f"credit.estimator={estimator}", *RECIPES[estimator])
    assert recorder.is_finished
    first, second = metrics(tmp_path / "run")
    assert first["learner/grad_norm"] > 0
    assert max(first["gap/mean_difference"], second["gap/mean_difference"]) < 1e-4
    assert first["play/failed_trials"] == second["play/failed_trials"] == 0
    assert ("learner/value_error" in first) == (estimator == "ppo")


def test_statistics_are_part_of_a_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    recorder = run(folder, "steps=2", "credit.estimator=reinforce", "credit.options={}", "checkpoint.every=1")
    assert recorder.stats != EMPTY
    assert read_state(checkpoints(folder / "checkpoints")[-1]).stats == recorder.stats


def trained_turns(groups: list[Group], advantages: list[list[list[float]]]) -> set[tuple[int, float, tuple[int, ...]]]:
    """What every turn sampled, where, and the advantage that belongs to it."""
    return {
        (call.start, found, trial.streams[call.stream][: call.start + 1])
        for group, trials in zip(groups, advantages, strict=True)
        for trial, numbers in zip(group.trials, trials, strict=True)
        for turn, found in zip(agent_turns(trial), numbers, strict=True)
        for call in turn.calls
    }


def test_every_trial_is_trained_by_its_own_advantages_on_all_its_turns() -> None:
    """Moves and reflections: each sampled token stands in the batch with what its own trial got there."""
    parts = tiny_parts("agent.memory=both", "agent.reflection_tokens=3", "credit.options={ scale = 'none' }")
    groups = play(parts)
    advantages, _ = parts.estimator.estimate(parts.credit(groups), EMPTY)
    assert len({numbers for trials in advantages for numbers in trials}) > 2
    expected = trained_turns(groups, [[list(numbers) for numbers in trials] for trials in advantages])
    samples = evaluated(parts, groups)
    found = {
        (position, sample.advantages[i], sample.tokens[: position + 1])
        for sample in samples
        for i, position in enumerate(sample.positions)
        if i == 0 or sample.turns[i] != sample.turns[i - 1]
    }
    assert found == expected
    per_trial = [phase for trial in groups[0].trials for phase in (turn.phase for turn in agent_turns(trial))]
    assert per_trial.count(Phase.REFLECT) == len(groups[0].trials)
