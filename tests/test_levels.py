"""Worlds of one seat: levels in populations and splits, tasks drawn by seed, and training on them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from mage.errors import ConfigError
from mage.evaluation.exact import BayesAgentFactory, PlanObjective
from mage.evaluation.held_out import refuse_held_out
from mage.evaluation.plan import split_of_opponents
from mage.evaluation.splits import Split, load_split, make_split, write_split
from mage.evaluation.suite.evaluate import SplitReport, evaluate_split, evaluation_tasks
from mage.evaluation.suite.reflections import swap_partners
from mage.evaluation.suite.report_tables import evaluation_table
from mage.opponents.agent_seat import check_seat_agent, seat_agent
from mage.opponents.policy import PlayerAgent
from mage.protocols import Agent, AgentFactory
from mage.rollout.trial import play_trial
from mage.runs.console import as_text
from mage.runs.store import RunReader
from mage.stats import Verdict, result_verdict
from mage.training.build import check, check_splits, draw_tasks
from mage.training.combinations import check_combinations
from mage.training.parts import build_parts, opponent_name
from mage.training.run import create_run_directory, train_run
from mage.training.task_replay import PlayedTask, priorities
from mage.training.teacher import teacher_of
from mage.types import Ending, Observation, Reply, Result, Task, Trial
from mage.worlds.registry import load_world
from tests.hidden_number import NAME, OPEN_NAME
from tests.tiny import tiny_config

WORLD = f"world={NAME}"
NOBODY = "population.members=[]"


def levels(*names: str) -> str:
    return f"population.members={list(names)}".replace("'", '"')


def drawn(*overrides: str, num: int = 40) -> list[Task]:
    return list(islice(draw_tasks(tiny_config(WORLD, *overrides), "tasks", 0), num))


def solo_task(level: str = "", seed: int = 3) -> Task:
    return Task(NAME, (), 0, seed, 3, False, False, 1000, level)


def uniform(task: Task, sibling: int) -> Agent:
    return seat_agent(load_world(task.world), "uniform", task)


def evaluated(split: Split, agent: AgentFactory, trials: int = 4) -> SplitReport:
    tasks = evaluation_tasks(split, episodes=3, seats=(0,), trials=trials, seed=5)
    return asyncio.run(evaluate_split(load_world(split.world), agent, agent, split, tasks))


def test_members_of_a_population_are_levels_in_a_world_of_one_seat() -> None:
    tasks = drawn(levels("3", "5"), "population.weights=[1, 3]")
    assert {one.level for one in tasks} == {"3", "5"}
    assert sum(one.level == "5" for one in tasks) > 20
    assert all(one.opponents == () and one.members == (one.level,) for one in tasks)


def test_without_members_the_seed_draws_what_is_hidden() -> None:
    tasks = drawn(NOBODY)
    assert {(one.level, one.opponents, one.members) for one in tasks} == {("", (), ())}
    world = load_world(NAME)
    hidden = {asyncio.run(play_trial(world, one, 0, uniform)).episodes[0].result.facts["hidden"] for one in tasks}
    assert len(hidden) > 4


def test_tasks_with_opponents_have_no_level() -> None:
    one = next(draw_tasks(tiny_config(), "tasks", 0))
    assert one.level == ""
    assert one.members == one.opponents
    assert b"level" not in msgspec.json.encode(one)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ([WORLD, levels("3", "9")], "unknown level '9'; known: 1, 2"),
        ([WORLD, levels("copy")], "unknown level 'copy'"),
        ([NOBODY], "name at least one opponent"),
        ([WORLD, NOBODY, "population.weights=[1]"], "1 values for 0 members"),
        ([WORLD, NOBODY, "trial.seats=[1]"], "seat 1 does not exist; hidden_number has 0 to 0"),
    ],
)
def test_what_a_world_of_one_seat_cannot_train_on_is_refused(overrides: Sequence[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check(tiny_config(*overrides))


def test_a_league_needs_opponents() -> None:
    with pytest.raises(ConfigError, match=r"league\.learners = 2: hidden_number has one seat"):
        check_combinations(tiny_config(WORLD, NOBODY, "league.learners=2"))


def test_levels_and_the_absence_of_them_are_accepted() -> None:
    check(tiny_config(WORLD, levels("3", "5")))
    check(tiny_config(WORLD, NOBODY))


def test_a_split_of_levels_is_written_and_read_as_it_is(tmp_path: Path) -> None:
    written = write_split(tmp_path / "some.json", NAME, ["8", "1"], held_out=True)
    assert load_split(str(tmp_path / "some.json")) == written
    assert written.members == ("8", "1")
    drawn_by_seed = write_split(tmp_path / "drawn.json", NAME, [])
    assert load_split(str(tmp_path / "drawn.json")) == drawn_by_seed
    assert make_split("word", "", OPEN_NAME, ("dark green",), held_out=False).members == ("dark green",)


@pytest.mark.parametrize(
    ("members", "more", "reason"),
    [
        (["9"], {}, "unknown level '9'"),
        (["1", "1"], {}, "each of them once"),
        ([], {"held_out": True}, "has no members, so that it can hold out none"),
    ],
)
def test_splits_of_levels_that_make_no_sense_are_refused(
    members: list[str], more: dict[str, str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=reason):
        write_split(tmp_path / "mine.json", NAME, members, **more)  # type: ignore[arg-type]


def test_held_out_levels_are_refused_in_training(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    write_split(path, NAME, ["7", "8"], held_out=True)
    named = [load_split(str(path))]
    refuse_held_out(NAME, ("1", "2"), named)
    with pytest.raises(ConfigError, match=r"population\.members: '8' is held out by the split 'kept'"):
        refuse_held_out(NAME, ("1", "8"), named)
    with pytest.raises(ConfigError, match="every level may be drawn, and the split 'kept' holds out 7, 8"):
        refuse_held_out(NAME, (), named)
    refuse_held_out(OPEN_NAME, (), named)
    config = tiny_config(WORLD, levels("1", "7"), f'evaluation.splits=["{path}"]')
    with pytest.raises(ConfigError, match="'7' is held out"):
        check_splits(config)


def test_reports_group_trials_by_level() -> None:
    report = evaluated(split_of_opponents(NAME, ["2", "5"]), uniform, trials=3)
    assert [member for member, _ in report.by_member] == ["2", "5"]
    assert report.tasks == ((0, 0, 0), (0, 0, 1), (0, 0, 2), (1, 0, 0), (1, 0, 1), (1, 0, 2))
    assert report.num_trials == 6
    assert set(report.references[0][1].best_response) == {"2", "5"}
    assert report.exploitation is None


def test_reports_without_members_have_one_kind_of_task() -> None:
    report = evaluated(split_of_opponents(NAME, []), uniform, trials=3)
    assert (report.members, report.by_member) == ((), ())
    assert report.tasks == ((0, 0, 0), (0, 0, 1), (0, 0, 2))
    assert report.regret is not None


def test_a_report_without_exact_values_prints_dashes() -> None:
    def writes_red(task: Task, sibling: int) -> Agent:
        return PlayerAgent(SaysRed(), "says red")

    report = evaluated(split_of_opponents(OPEN_NAME, ["red", "dark green"]), writes_red, trials=2)
    printed = as_text(evaluation_table([report]))
    assert report.agent.scores[0].value == pytest.approx(0.5)
    for name in ("best memoryless", "limit", "best response", "regret"):
        (line,) = [line for line in printed.splitlines() if line.startswith(name)]
        assert line.split()[-1] == "–"


class SaysRed:
    async def act(self, observation: Observation) -> Reply:
        return Reply("red", "", ())


def test_bayes_optimal_play_reaches_the_limit_over_drawn_levels() -> None:
    report = evaluated(split_of_opponents(NAME, []), BayesAgentFactory([], PlanObjective.LAST), trials=12)
    assert report.regret is not None
    assert report.regret.value == pytest.approx(0.0)
    assert report.agent.scores[-1].value == pytest.approx(1.0)


def test_success_is_a_win_and_all_else_a_loss_where_a_world_states_it() -> None:
    missed = Result((0.0,), ("",), Ending.FINISHED, None, {}, (False,))
    assert result_verdict(missed, 0) is Verdict.LOSS
    assert result_verdict(msgspec.structs.replace(missed, successes=(True,)), 0) is Verdict.WIN
    assert result_verdict(msgspec.structs.replace(missed, successes=()), 0) is Verdict.DRAW


def test_reflections_are_swapped_between_levels_or_drawn_tasks() -> None:
    by_level = swap_partners([solo_task("1"), solo_task("1", 4), solo_task("2"), solo_task("2", 4)])
    assert sorted(by_level) == [0, 1, 2, 3]
    assert {by_level[0], by_level[1]} == {2, 3}
    by_seed = swap_partners([solo_task(seed=seed) for seed in range(5)])
    assert sorted(by_seed) == list(range(5))
    assert all(place != partner for place, partner in enumerate(by_seed))


def test_statistics_and_replay_tell_levels_apart() -> None:
    assert opponent_name(solo_task("3")) == "3"
    played = [
        PlayedTask(solo_task("1"), 0.5, 1),
        PlayedTask(solo_task("1", 4), 1.0, 1),
        PlayedTask(solo_task("2", 5), 0.0, 1),
    ]
    assert priorities(played) == [0.25, 0.0, 0.0]


@pytest.mark.parametrize(
    ("world", "spec", "reason"),
    [
        (NAME, "copy", "'copy' plays games with opponents; in a world of one seat uniform and models play"),
        (OPEN_NAME, "uniform", "in this world any text is an action"),
    ],
)
def test_players_that_cannot_take_the_only_seat_are_refused(world: str, spec: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_seat_agent(load_world(world), spec, 0)


def test_uniform_in_the_agents_seat_plays_as_the_opponent_of_that_name() -> None:
    world, game = load_world("kuhn_poker"), Task("kuhn_poker", ("uniform",), 0, 11, 6, False, False, 1000)

    def as_before(task: Task, sibling: int) -> Agent:
        return PlayerAgent(world.opponent("uniform", task, task.seat), "uniform")

    now, before = (asyncio.run(play_trial(world, game, 0, make)) for make in (uniform, as_before))
    assert [episode.result for episode in now.episodes] == [episode.result for episode in before.episodes]


@pytest.mark.parametrize("teacher", ["bayes-optimal", "uniform"])
def test_teachers_play_worlds_of_one_seat(teacher: str) -> None:
    make = teacher_of(tiny_config(WORLD, NOBODY, "trial.episodes=3"), teacher)
    trials = [asyncio.run(play_trial(load_world(NAME), solo_task(seed=seed), 0, make)) for seed in range(12)]
    found = [trial.scores[-1] for trial in trials]
    assert all(found) is (teacher == "bayes-optimal")


def test_a_run_trains_and_is_evaluated_on_levels(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    write_split(kept, NAME, ["6"], held_out=True)
    sizes = ("agent.context=1024", "agent.model=nano(hidden=16,layers=1,heads=2,context=1024)")
    more = ("steps=2", "evaluation.every=0", "evaluation.final_trials=2", f'evaluation.splits=["{kept}"]')
    config = tiny_config(WORLD, levels("2", "5"), *sizes, *more)
    parts = build_parts(config)
    folder = tmp_path / "run"
    create_run_directory(config, folder)
    train_run(folder, Console(quiet=True), parts=parts)
    summaries = RunReader(folder).summaries()
    assert {summary.level for summary in summaries} <= {"2", "5"}
    trial = RunReader(folder).trial(0)
    assert isinstance(trial, Trial)
    assert trial.episodes[0].result.facts["hidden"] == trial.task.level
    assert (folder / "evaluations" / "final.json").exists()
