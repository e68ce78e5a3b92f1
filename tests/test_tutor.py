"""A tutor's notes are what is remembered, and nothing of the agent's own notes is trained meanwhile."""

from __future__ import annotations

import pytest

from mage.agents.tutor import Tutor
from mage.config.load import load_config
from mage.credit.running_stats import EMPTY
from mage.errors import ConfigError
from mage.training.loop import to_batch
from mage.training.parts import Parts
from mage.types import Group, Phase, Trial
from tests.tiny import collect, tiny_config, tiny_parts

TUTORED = (
    "agent.memory=reflections",
    "agent.reflection_tokens=3",
    r"agent.tutor=opponent (\w+)",
    "agent.tutor_steps=2",
    'population.members=["always:paper", "always:rock"]',
    "trial.episodes=3",
)


def collected(parts: Parts, step: int) -> list[Group]:
    return collect(parts, step)[0]


def remembered(parts: Parts, trial: Trial) -> str:
    """What the last episode's stream says before the episode begins."""
    told = parts.loaded.chat_format.decode(trial.streams[-1])
    assert "Your notes" in told
    return told.split("Your notes")[1].split("Episode 3")[0]


def test_the_tutor_notes_the_opponents_move_until_it_leaves() -> None:
    parts = tiny_parts(*TUTORED)
    for step, is_tutored in ((0, True), (1, True), (2, False)):
        trials = [trial for group in collected(parts, step) for trial in group.trials]
        assert {parts.tutor.is_active(trial.task, step) for trial in trials} == {is_tutored}
        moves = [trial.task.opponents[0].removeprefix("always:") for trial in trials]
        found = [remembered(parts, trial).count(move) == 2 for trial, move in zip(trials, moves, strict=True)]
        assert all(found) == is_tutored


def test_the_tutor_leaves_task_by_task() -> None:
    parts = tiny_parts(*TUTORED, "agent.tutor_fade=3", "batch.groups=24", "batch.size=2")
    assert [parts.tutor.share(step) for step in range(7)] == [1.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    groups = collected(parts, 3)
    tutored = [parts.tutor.is_active(group.task, 3) for group in groups]
    assert 4 < sum(tutored) < 20
    for group, is_tutored in zip(groups, tutored, strict=True):
        move = group.task.opponents[0].removeprefix("always:")
        assert all(remembered(parts, trial).count(move) == 2 for trial in group.trials) or not is_tutored


def test_notes_have_no_advantage_while_the_tutor_is_there() -> None:
    parts = tiny_parts(*TUTORED, "credit.objective=cumulative")
    groups = collected(parts, 0)
    credited = parts.credit(groups)
    advantages, _ = parts.estimator.estimate(credited, EMPTY)
    live = list(range(len(groups)))
    for tutored in ([], live):
        samples = to_batch(groups, credited, advantages, live, tutored)
        by_phase = {
            phase: {a for s in samples for a, p in zip(s.advantages, s.phases, strict=True) if p is phase}
            for phase in Phase
        }
        assert by_phase[Phase.PLAY] - {0.0}
        assert bool(by_phase[Phase.REFLECT] - {0.0}) == (not tutored)


def test_without_a_tutor_nobody_is_tutored() -> None:
    assert Tutor("", steps=9, fade=0).share(0) == 0.0
    assert not load_config("rps").agent.tutor


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ((r"agent.tutor=opponent (\w+)", "agent.memory=history"), "needs agent.memory = reflections, not history"),
        (("agent.tutor=opponent (", "agent.memory=reflections"), "is not a regular expression"),
        (("agent.tutor=opponent", "agent.memory=reflections"), "must have one group, which finds the note, not 0"),
    ],
)
def test_what_cannot_be_a_tutor_is_refused(overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tiny_parts(*overrides)
    assert tiny_config().agent.tutor == ""
