"""Behaviour cloning: the teacher decides, the agent reads, and what was decided becomes likely."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
from rich.console import Console

from mage.config.load import load_config
from mage.credit.running_stats import EMPTY
from mage.credit.steps import agent_turns
from mage.errors import ConfigError
from mage.evaluation.exact import BayesAgentFactory, PlanObjective
from mage.files import read_lines
from mage.rollout.group import play_groups
from mage.training.loop import to_batch
from mage.training.parts import Parts, build_parts
from mage.training.run import create_run_directory, train_run
from mage.types import Group, Sample, Trial
from tests.tiny import collect, logprobs, tiny_config, tiny_parts

TAUGHT = ("credit.estimator=cloning", "credit.options={}", "credit.objective=single", "trial.episodes=3")


def taught(parts: Parts, step: int = 0) -> list[Group]:
    return collect(parts, step)[0]


def samples(parts: Parts, groups: list[Group]) -> list[Sample]:
    credited = parts.credit(groups)
    advantages, _ = parts.estimator.estimate(credited, EMPTY)
    return to_batch(groups, credited, advantages, range(len(groups)))


def moves(trial: Trial) -> list[str | None]:
    return [turn.action for turn in agent_turns(trial)]


def test_the_teacher_plays_as_it_would_alone_and_the_agent_reads_as_it_would_alone() -> None:
    parts = tiny_parts(*TAUGHT)
    groups = taught(parts, step=7)
    pool = [(member, 1.0) for member in parts.config.population.members]
    alone = BayesAgentFactory(pool, PlanObjective.LAST)
    expected = asyncio.run(play_groups(parts.world, [group.task for group in groups], 1, alone))
    for group, reference in zip(groups, expected, strict=True):
        for trial in group.trials:
            assert moves(trial) == moves(reference.trials[0])
            assert trial.scores == reference.trials[0].scores
            assert trial.agent.name == "bayes-last"
            said = parts.loaded.chat_format.decode(trial.streams[0])
            assert said.count("Round 2 of 2") == 3
            assert len(trial.streams) == 1
            for turn in agent_turns(trial):
                (call,) = turn.calls
                completion = call.completion
                assert trial.streams[0][call.start : call.start + len(completion.tokens)] == completion.tokens
                assert parts.loaded.chat_format.decode(completion.tokens) == turn.action
                assert completion.version == 7
    last = [trial.scores[-1] for group in groups for trial in group.trials]
    assert min(last) == 1.0, "against two players that two rounds tell apart, the last episode is won"


def test_moves_of_the_teacher_become_likely() -> None:
    parts = tiny_parts(*TAUGHT, "learner.lr=0.02")
    batch = samples(parts, taught(parts))
    assert {a for sample in batch for a in sample.advantages} == {1.0}
    assert all(len(sample.positions) == 6 for sample in batch), "two rounds of three episodes, one decision each"
    assert {len(ids) for sample in batch for ids in sample.allowed if ids} == {3}
    before = [p for row in logprobs(parts.learner, *batch) for p in row]
    first = parts.learner.update(batch)
    assert first["learner/imitation_loss"] == pytest.approx(-sum(before) / len(before), rel=1e-4)
    assert first["learner/imitation_loss"] == pytest.approx(math.log(3), abs=0.1)
    for _ in range(40):
        report = parts.learner.update(batch)
    after = [p for row in logprobs(parts.learner, *batch) for p in row]
    assert sum(after) / len(after) > -0.2
    assert report["learner/imitation_loss"] < 0.25
    assert not [name for name in report if name.startswith("gap/") or name == "learner/clip_share"]


def test_random_moves_of_a_teacher_are_not_learned_and_it_plays_on_from_where_they_lead() -> None:
    parts = tiny_parts(*TAUGHT, "credit.options={noise=0.5}", "batch.groups=32")
    groups = taught(parts)
    decisions = sum(len(agent_turns(trial)) for group in groups for trial in group.trials)
    learned = sum(len(sample.positions) for sample in samples(parts, groups))
    assert 0.4 < learned / decisions < 0.6
    scores = [trial.scores for group in groups for trial in group.trials]
    assert 0 < sum(last for *_, last in scores) / len(scores) < 1, "half of the moves are drawn"
    table = "world=hidden(actions=[a,b,safe],types=[a,b],pay=[[1,0],[0,1],0.5])"
    options = ("population.members=[]", "evaluation.splits=[]", "credit.options={noise=0.3}", table)
    parts = tiny_parts(*TAUGHT, *options, "batch.groups=64")
    for group in taught(parts):
        for trial in group.trials:
            *_, last = agent_turns(trial)
            (call,) = last.calls
            is_drawn = all(len(ids) == 1 for ids in call.completion.allowed or ())
            is_known = any(turn.action != "safe" for turn in agent_turns(trial)[:-1])
            assert is_drawn or not is_known or trial.scores[-1] == 1.0, "after one door was opened, both are known"


def test_any_teacher_may_draw_moves_at_random() -> None:
    world = ("world=minesweeper(4,4,3,turns=5)", "population.members=[]", "evaluation.splits=[]", "agent.context=2048")
    model = "agent.model=nano(hidden=16,layers=1,heads=2,context=2048)"
    shares, learned = [], []
    for noise in (0.0, 0.5):
        options = f"credit.options={{ teacher = 'expert(remember=true)', noise = {noise} }}"
        parts = tiny_parts(*TAUGHT, *world, model, options, "batch.groups=24")
        groups = taught(parts)
        trials = [trial for group in groups for trial in group.trials]
        forced = [
            all(len(ids) == 1 for ids in call.completion.allowed or ())
            for trial in trials
            for turn in agent_turns(trial)
            for call in turn.calls
        ]
        shares.append(sum(forced) / len(forced))
        learned.append(sum(trial.scores[-1] for trial in trials) / len(trials))
    assert shares[0] < 0.1
    assert 0.4 < shares[1] < 0.65
    assert learned[1] < learned[0] == 1.0, "the expert that remembers clears every board by the third episode"


@pytest.mark.parametrize(("objective", "learned"), [("single", 2), ("final", 3)])
def test_a_tutors_notes_are_the_agents_own_and_learned_with_objectives_that_train_notes(
    objective: str, learned: int
) -> None:
    told = ("world=hidden(scout)", "population.members=[]", "evaluation.splits=[]", "trial.episodes=2")
    notes = ("agent.memory=reflections", "agent.reflection_tokens=1", r"agent.tutor='prize in (\w+)'")
    parts = tiny_parts(*TAUGHT[:-1], *told, *notes, "agent.tutor_steps=9", "steps=9", f"credit.objective={objective}")
    groups = taught(parts, step=8)
    for group in groups:
        assert not parts.is_tutored(group.task, 8)
        for trial in group.trials:
            look, note, chest = agent_turns(trial)
            assert (look.action, trial.scores[-1], note.text) == ("look", 1.0, chest.action)
            assert parts.loaded.chat_format.decode(trial.streams[1]).split().count(str(chest.action)) == 4, (
                "the rules, the note, the actions and the answer"
            )
    batch = samples(parts, groups)
    num_trials = sum(len(group.trials) for group in groups)
    assert [a for sample in batch for a in sample.advantages] == [1.0] * learned * num_trials
    moved = [-p for sample in batch for p in _surprises(parts, sample)]
    assert parts.learner.update(batch)["learner/imitation_loss"] == pytest.approx(sum(moved) / len(moved), rel=1e-4)


def _surprises(parts: Parts, sample: Sample) -> list[float]:
    """Log-probabilities of the tokens of a sample that were chosen from listed ids: its moves."""
    (row,) = logprobs(parts.learner, sample)
    return [p for p, allowed in zip(row, sample.allowed, strict=True) if allowed]


def test_any_player_can_teach_and_draws_anew_for_each_sibling() -> None:
    parts = tiny_parts(*TAUGHT, "credit.options={ teacher = 'uniform' }")
    groups = taught(parts)
    assert len({tuple(moves(trial)) for group in groups for trial in group.trials}) > 4
    assert {trial.agent.name for group in groups for trial in group.trials} == {"uniform"}
    again = taught(tiny_parts(*TAUGHT, "credit.options={ teacher = 'uniform' }"))
    assert [moves(t) for g in groups for t in g.trials] == [moves(t) for g in again for t in g.trials]


def test_scores_of_training_are_the_teachers_and_those_of_judging_the_agents(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    evaluated = ('evaluation.splits=["rps-seven"]', "evaluation.final_trials=1", "world=rps(rounds=3)")
    create_run_directory(tiny_config(*TAUGHT, *evaluated, "steps=2"), folder)
    assert train_run(folder, Console(quiet=True)).is_finished
    first, _, final = read_lines(folder / "metrics.jsonl")
    assert first["teacher/episode_3"] == 1.0
    assert not [key for key in first if key.startswith("score/")]
    assert "eval/rps-seven/score_3" in final


def test_the_recipe_knows_all_eighty_and_the_plan_is_made_in_seconds() -> None:
    small = ("agent.model=nano(hidden=16,layers=1,heads=2)", "evaluation.splits=[]", "batch.groups=40", "batch.size=2")
    parts = build_parts(load_config("rps-base+cloning", small))
    groups = taught(parts)
    scores = [trial.scores[-1] for group in groups for trial in group.trials]
    assert len(scores) == 80
    assert min(scores) == 1.0, "the limit of the last episode against the eighty is 1"
    assert all(moves(first) == moves(second) for first, second in (group.trials for group in groups))


@pytest.mark.parametrize(
    ("recipe", "overrides", "says"),
    [
        ("kuhn", ("credit.estimator=cloning",), "no exact plan against this population: .*behaviour"),
        ("rps", ("credit.estimator=cloning", "agent.memory=both"), "takes agent.memory = history or none, not both"),
        ("rps", ("credit.estimator=cloning", "agent.reply=text"), "takes agent.reply = choice, not text"),
        ("rps", ("credit.estimator=cloning", "trial.early_stop=true"), "no replay_deal, no early_stop"),
        ("rps", ("credit.estimator=cloning", "credit.options={ teacher = 'nobody' }"), "unknown opponent 'nobody'"),
        ("rps", ("credit.estimator=cloning", "credit.options={ teacher = 'aggressive' }"), "aggressive"),
        (
            "rps",
            ("credit.estimator=cloning", "agent.memory=reflections", "agent.tutor='(.)'", "agent.tutor_steps=3"),
            r"in all steps \(agent.tutor_steps = 125\)",
        ),
    ],
)
def test_who_cannot_teach_is_refused_in_one_line(recipe: str, overrides: tuple[str, ...], says: str) -> None:
    options = () if any("teacher" in override for override in overrides) else ("credit.options={}",)
    with pytest.raises(ConfigError, match=says) as caught:
        build_parts(load_config(recipe, (*overrides, *options)))
    assert "\n" not in str(caught.value)
