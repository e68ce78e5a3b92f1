"""Judging: players whose answer is known, fixed tasks, paired intervals, keys by which trials are paired."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice

import msgspec
import pytest

from mage.config.load import load_config
from mage.errors import PlayError
from mage.evaluation.exact import BayesAgentFactory, PlanObjective
from mage.evaluation.splits import load_split, make_split
from mage.evaluation.suite.averaging import members_of
from mage.evaluation.suite.evaluate import evaluate_split, paired_trials
from mage.evaluation.suite.evaluate import play_all as play_everything
from mage.grouped import Units, grouped_mean
from mage.protocols import Agent, AgentFactory, World
from mage.rollout.group import Job
from mage.stats import mean
from mage.training.build import draw_tasks
from mage.types import Failure, Memory, ReplyMode, Task, Trial
from tests.evaluated import KUHN, SEVEN, evaluated, policy_agent, scripted, tasks_of
from tests.seated import WORLD, agent_calls, make_task, play_all


def test_an_agent_that_equals_its_control_has_adapted_by_nothing() -> None:
    report = evaluated(policy_agent("uniform"), policy_agent("uniform"), SEVEN, 10)
    assert report.agent == report.control
    assert report.over_control == mean([0.0] * 70, (-4.0, 4.0)), "the same draws on both sides"
    assert report.agent.adaptation.holds(0.0)
    for score in report.agent.scores:
        assert score.holds(0.0)
    assert (report.num_trials, report.failures, report.seats, report.episodes) == (70, 0, (0,), 3)


def test_bayes_optimal_play_reaches_the_limit() -> None:
    pool = [(member, 1.0) for member in SEVEN.members]
    report = evaluated(BayesAgentFactory(pool, PlanObjective.LAST), policy_agent("uniform"), SEVEN, 12)
    ((seat, found),) = report.references
    assert seat == 0
    assert found.bayes_last == pytest.approx(1.0)
    always, in_each = mean([1.0] * 84, (-1.0, 1.0)), mean([1.0] * 12, (-1.0, 1.0))
    assert report.agent.scores[2] == always
    assert report.over_control.is_over(0.0)
    assert dict(report.by_member)["copy"][2] == in_each
    assert report.regret is not None
    assert report.regret.value == pytest.approx(0.0)
    assert report.exploitation is not None
    assert msgspec.structs.astuple(report.exploitation) == pytest.approx(msgspec.structs.astuple(always))
    assert dict(report.exploitation_by_member) == dict.fromkeys(SEVEN.members, in_each)
    assert [member for member, _ in report.by_member] == list(SEVEN.members)


@pytest.mark.parametrize("memory", [Memory.HISTORY, Memory.REFLECTIONS, Memory.BOTH])
def test_memory_shows_as_adaptation_over_control(memory: Memory) -> None:
    report = evaluated(scripted(memory), scripted(Memory.NONE), SEVEN, 6)
    assert report.control.adaptation == mean([0.0] * 42, (-2.0, 2.0))
    assert report.over_control.is_over(0.0)
    assert report.over_control == report.agent.adaptation
    assert report.agent.scores[0] == report.control.scores[0]
    ((_, found),) = report.references
    assert found.memoryless is not None
    assert not report.control.scores[2].is_over(found.memoryless)
    assert found.memoryless < report.agent.scores[2].value


def test_adaptation_is_paired_by_trial() -> None:
    tasks = tasks_of(SEVEN, 6)
    agent, control = scripted(Memory.BOTH), policy_agent("uniform")
    report = asyncio.run(evaluate_split(WORLD, agent, control, SEVEN, tasks))
    trials, controls = paired_trials(*(play_all([(t, 0) for t in tasks], who) for who in (agent, control)))
    gains = [(t.scores[2] - t.scores[0]) - (c.scores[2] - c.scores[0]) for t, c in zip(trials, controls, strict=True)]
    members = members_of(trials)
    assert report.over_control == grouped_mean(gains, members, Units.TRIALS)
    risen = [t.scores[2] - t.scores[0] for t in trials]
    assert report.agent.adaptation == grouped_mean(risen, members, Units.TRIALS)


def test_what_fails_on_one_side_is_left_out_on_both() -> None:
    def failing(make_agent: AgentFactory, *members: str) -> AgentFactory:
        def seat(task: Task, sibling: int) -> Agent:
            if task.opponents[0] in members:
                raise PlayError("the model is gone")
            return make_agent(task, sibling)

        return seat

    agent = failing(scripted(Memory.BOTH), "copy")
    control = failing(scripted(Memory.NONE), "always(rock)", "copy")
    report = evaluated(agent, control, SEVEN, 4)
    assert (report.num_trials, report.failures) == (20, 8)
    assert [member for member, _ in report.by_member] == [m for m in SEVEN.members if m not in ("always(rock)", "copy")]
    others = [t for t in tasks_of(SEVEN, 4) if t.opponents[0] not in ("always(rock)", "copy")]
    alone = asyncio.run(evaluate_split(WORLD, scripted(Memory.BOTH), scripted(Memory.NONE), SEVEN, others))
    assert (report.agent, report.control, report.over_control) == (alone.agent, alone.control, alone.over_control)


def test_trials_go_by_keys_that_two_agents_share() -> None:
    def failing(task: Task, sibling: int) -> Agent:
        if task == tasks[3]:
            raise PlayError("the model is gone")
        return policy_agent("uniform")(task, sibling)

    tasks = tasks_of(KUHN, 2, (0, 1))
    whole = evaluated(policy_agent("cfr"), policy_agent("cfr"), KUHN, 2, (0, 1))
    assert whole.members == KUHN.members
    assert whole.tasks[:5] == ((0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0))
    part = asyncio.run(evaluate_split(WORLD, failing, policy_agent("uniform"), KUHN, tasks))
    assert part.tasks == tuple(key for key in whole.tasks if key != (0, 1, 1))
    trials = play_all([(task, 0) for task in tasks], policy_agent("cfr"))
    by_key = dict(zip(whole.tasks, whole.agent.scores_by_trial, strict=True))
    for key, trial in zip(whole.tasks, paired_trials(trials)[0], strict=True):
        assert trial.task.opponents == (whole.members[key[0]],)
        assert (trial.task.seat, trial.scores) == (key[1], by_key[key])


def test_games_for_one_have_keys_and_figures_too() -> None:
    alone = make_split("alone", "", "catch(rows=3,columns=3)", (), held_out=False)
    report = evaluated(policy_agent("uniform"), policy_agent("uniform"), alone, 3)
    assert report.tasks == ((0, 0, 0), (0, 0, 1), (0, 0, 2))
    assert (report.by_member, report.exploitation, report.regret) == ((), None, None)
    assert {rate.draw.value for rate in report.agent.rates} == {0.0}


def test_exploitation_and_regret_are_measured_from_the_exact_values() -> None:
    report = evaluated(policy_agent("always:bet"), policy_agent("always:bet"), KUHN, 30, (0, 1))
    (_, first), (_, second) = report.references
    assert first.equilibrium is not None
    assert second.equilibrium is not None
    for member, scores in report.by_member:
        best = (first.best_response[member] + second.best_response[member]) / 2
        found = dict(report.exploitation_by_member)[member]
        assert found is not None
        assert found.value == pytest.approx(scores[2].value / best), "the equilibrium values of the seats add up to 0"
    assert report.regret is not None
    assert report.regret.value == pytest.approx(157 / 648 - report.agent.scores[2].value)
    assert report.exploitation is not None
    assert report.exploitation.value == pytest.approx(report.agent.scores[2].value / (5 / 18))


def test_a_play_of_ones_own_hears_of_both_arms() -> None:
    heard: list[str] = []

    async def listening(arm: str, world: World, jobs: Sequence[Job], make_agent: AgentFactory) -> list[Trial | Failure]:
        heard.append(arm)
        return await play_everything(arm, world, jobs, make_agent)

    agent, control = scripted(Memory.BOTH), scripted(Memory.NONE)
    report = asyncio.run(evaluate_split(WORLD, agent, control, SEVEN, tasks_of(SEVEN, 1), play=listening))
    assert heard == ["agent", "control"]
    assert report == evaluated(agent, control, SEVEN, 1)


def test_nothing_but_failures_is_one_line_that_says_why() -> None:
    failure = Failure(make_task(), 0, "EngineError", "the model is gone")
    with pytest.raises(PlayError, match=r"none of 2 tasks could be played.*EngineError: the model is gone"):
        paired_trials([failure, failure], [failure, failure])


def test_health_and_cost_are_counted() -> None:
    report = evaluated(scripted(Memory.BOTH, ReplyMode.TEXT), scripted(Memory.NONE), SEVEN, 2)
    # `counter` answers free text without a tag: two tries a turn, then a forfeit, in each of 3 episodes.
    assert report.agent.forfeits == 14 * 3
    assert report.agent.invalid == 14 * 3 * 2
    assert report.agent.replies == 14 * (3 * 2 + 2), "two reflections are replies too"
    assert (report.control.invalid, report.control.forfeits, report.control.truncated) == (0, 0, 0)
    (controls,) = paired_trials(play_all([(t, 0) for t in tasks_of(SEVEN, 2)], scripted(Memory.NONE)))
    assert report.control.tokens_read == sum(len(stream) for trial in controls for stream in trial.streams)
    assert report.control.tokens_sampled == sum(len(c.completion.tokens) for t in controls for c in agent_calls(t))


def test_tasks_are_the_same_whenever_the_arguments_are() -> None:
    tasks = tasks_of(SEVEN, 3, (0, 1))
    assert tasks == tasks_of(SEVEN, 3, (0, 1))
    assert len(tasks) == 7 * 2 * 3
    assert len({task.seed for task in tasks}) == len(tasks), "trials are independent, across seats too"
    assert set(tasks) < set(tasks_of(SEVEN, 5, (0, 1))), "more trials are the same ones and others"
    assert set(tasks_of(SEVEN, 3, (1,))) < set(tasks)
    for other in (tasks_of(SEVEN, 3, (0, 1), seed=8), tasks_of(load_split("rps-trained"), 3, (0, 1))):
        assert not {task.seed for task in tasks} & {task.seed for task in other}
    assert not any(task.early_stop or task.replay_deal for task in tasks)


def test_tasks_are_none_of_those_trained_on_whatever_the_seeds() -> None:
    config = load_config("rps")
    config = config.model_copy(update={"seed": config.evaluation.seed})
    trained = {
        task.seed
        for step in range(3)
        for path in (("tasks", step), ("replacements", step, 0), ("showcase",))
        for task in islice(draw_tasks(config, *path), 200)
    }
    for name in config.evaluation.splits:
        seeds = {task.seed for task in tasks_of(load_split(name), 20, (0, 1), seed=config.evaluation.seed)}
        assert not seeds & trained


def test_one_trial_a_member_is_enough_where_there_are_several() -> None:
    report = evaluated(scripted(Memory.BOTH), scripted(Memory.NONE), SEVEN, 1)
    assert report.num_trials == 7
    assert report.over_control.low is not None, "seven trials have an interval"
    assert [member for member, _ in report.by_member] == list(SEVEN.members)
    assert {(e.low, e.high) for _, scores in report.by_member for e in scores} == {(None, None)}
