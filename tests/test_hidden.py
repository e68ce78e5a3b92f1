"""Worlds of one table: drawn names, replaced words, what a table must be, and exact play of shuffled trials."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mage.aio import run_sync
from mage.errors import ConfigError
from mage.evaluation.exact import BayesAgentFactory, PlanObjective
from mage.rollout.group import play_groups
from mage.runs.render import transcript
from mage.types import Task, Trial
from mage.worlds.hidden import HiddenTable
from mage.worlds.openspiel.words.base import NEUTRAL
from mage.worlds.registry import load_world
from mage.worlds.table import make_table, read_table, shipped_tables

TABLES = shipped_tables()
GOOD: Mapping[str, Any] = {
    "actions": ["{door1}", "{door2}", "{leave}"],
    "types": ["{door1}", "{door2}"],
    "pay": [[1, 0], [0, 1], "leave"],
    "words": ["leave"],
    "names": {"door": ["red", "green", "blue"]},
    "parameters": {"leave": 0.5},
}


def task(world: str, seed: int, level: str = "", episodes: int = 3) -> Task:
    return Task(world, (), 0, seed, episodes, False, False, 10, level)


def first(world: str, seed: int, level: str = "") -> tuple[str, ...]:
    return load_world(world).new_env(task(world, seed, level), 0).observe(0).actions


def test_names_are_drawn_for_each_trial_and_stay_for_its_episodes() -> None:
    offered = {first("hidden(doors)", seed) for seed in range(40)}
    assert len(offered) > 20, "names are drawn from a larger pool, in any order"
    assert {actions[-1] for actions in offered} == {"leave"}
    world, one = load_world("hidden(doors)"), task("hidden(doors)", 7)
    assert len({world.new_env(one, episode).observe(0).actions for episode in range(3)}) == 1


def test_a_level_pays_for_its_slot_whatever_the_name() -> None:
    keys, told_as_listed = set(), set[str]()
    for seed in range(20):
        env = load_world("hidden(doors)").new_env(task("hidden(doors)", seed, "red"), 0)
        actions = env.observe(0).actions
        keys.add(env.observe(0).key)
        env.step(actions[0])
        result = env.result()
        assert (result.returns, result.outcomes) == ((1.0,), (f"{actions[0]} +1.",))
        told_as_listed.update(result.keys)
        assert ("door1", actions[0]) in result.facts["names"]  # type: ignore[operator]
    assert len(keys) == 1, "keys are in the words of the exact model"
    assert told_as_listed == {"red +1."}


@pytest.mark.parametrize("spec", ["hidden(doors)", "hidden(recipe)", "hidden(doors,reworded=7)"])
def test_what_was_hidden_is_shown_in_the_names_of_the_trial(spec: str) -> None:
    world, told_otherwise = load_world(spec), 0
    for seed in range(12):
        (group,) = run_sync(
            play_groups(world, [task(spec, seed, episodes=4)], 1, BayesAgentFactory((), PlanObjective.LAST))
        )
        (trial,) = group.trials
        result = trial.episodes[-1].result
        assert result.successes == (True,)
        best, level = trial.episodes[-1].turns[0].action, result.facts["hidden"]
        world.check_level(str(level))
        rows = shown_facts(trial)
        if "revealed" in result.facts:
            told_otherwise += 1
            assert result.facts["revealed"] == best != level
            assert f"hidden: {best} (level {level})" in rows
            assert not any(row.startswith("revealed") for row in rows)
        else:
            assert level == best
            assert f"hidden: {best}" in rows
    assert told_otherwise > 6, "most names differ from the first ones of the table"


def shown_facts(trial: Trial) -> list[str]:
    """What `mage show` reveals at the end of the last episode."""
    console = Console(file=StringIO(), width=400)
    console.print(transcript(trial, "x", None))
    assert isinstance(console.file, StringIO)
    return [line.strip().removeprefix("revealed").strip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("name", [name for name in TABLES if not read_table(name).names])
def test_without_drawn_names_what_was_hidden_is_the_level(name: str) -> None:
    env = load_world(f"hidden({name})").new_env(task(f"hidden({name})", 0), 0)
    env.step(env.observe(0).actions[0])
    assert "revealed" not in env.result().facts


@pytest.mark.parametrize(("name", "episodes", "best"), [("doors", 3, 1.0), ("recipe", 4, 1.0), ("haggling", 3, 1.75)])
def test_the_bayes_optimal_player_reads_shuffled_names(name: str, episodes: int, best: float) -> None:
    world = f"hidden({name})"
    tasks = [task(world, seed, episodes=episodes) for seed in range(200)]
    groups = run_sync(play_groups(load_world(world), tasks, 1, BayesAgentFactory((), PlanObjective.LAST)))
    scores = [trial.scores[-1] for group in groups for trial in group.trials]
    assert len(scores) == 200
    assert sum(scores) / 200 == pytest.approx(best, abs=0.0 if best == 1.0 else 0.2)


@pytest.mark.parametrize("name", TABLES)
def test_reworded_tables_have_neutral_words_for_all_that_can_be_chosen(name: str) -> None:
    table, spec = read_table(name), f"hidden({name},reworded=7)"
    plain = {*table.words, *(word for pool in table.names.values() for word in pool)}
    for seed in range(5):
        rules = load_world(spec).rules(task(spec, seed))
        for action in first(spec, seed):
            assert all(word in (*NEUTRAL, "and") or word.isdigit() for word in action.split()), action
        assert not plain & set(rules.replace(",", " ").replace(".", " ").replace(":", " ").split())


def test_parameters_are_paid_and_told() -> None:
    spec = "hidden(scout,look=-0.4)"
    world = load_world(spec)
    env = world.new_env(task(spec, 0), 0)
    assert "look pays -0.4" in world.rules(task(spec, 0))
    env.step("look")
    assert env.result().returns == (-0.4,)
    assert "prize in" in env.result().outcomes[0]
    assert (world.info.lowest, world.info.highest, world.info.turns) == (-0.4, 1.0, 1)


def test_success_is_the_best_that_the_type_allows() -> None:
    for level, price, success in (("1", "ask 1", True), ("3", "ask 1", False), ("2", "ask 2", True)):
        env = load_world("hidden(haggling)").new_env(task("hidden(haggling)", 0, level), 0)
        env.step(price)
        assert env.result().successes == (success,)


def test_a_table_is_a_file_or_inline(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(
        'actions = ["a", "b"]\ntypes = ["x", "y"]\npay = [[1, 0], [0, 1]]\ntold = ["", ["left", "right"]]\n'
    )
    inline = 'hidden(actions=[a,b],types=[x,y],pay=[[1,0],[0,1]],told=["",[left,right]])'
    for spec in (f'hidden("{path}")', inline):
        env = load_world(spec).new_env(task(spec, 0, "y"), 0)
        env.step("b")
        assert env.result().outcomes == ("b +1: right.",)
        assert "a or b" in load_world(spec).rules(task(spec, 0))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"actions": []}, "actions is empty"),
        ({"types": ["{door1}", "{door1}"]}, "types has '{door1}' twice"),
        ({"actions": ["{leave}"], "pay": ["leave"]}, "nothing to decide"),
        ({"pay": [[1, 0], [0, 1]]}, "pay has 2 rows for 3 actions"),
        ({"pay": [[1, 0, 0], [0, 1], 0]}, "pay of '{door1}' has 3 values for 2 types"),
        ({"pay": [[1, 0], [0, 1], "stay"]}, "'stay', which is no finite number and no parameter; known: leave"),
        ({"pay": [[1, 0], [0, 1], float("nan")]}, "nan"),
        ({"prior": [1]}, "prior has 1 weights for 2 types"),
        ({"prior": [1, 0]}, "prior has 0.0, which is not above 0"),
        ({"parameters": {"leave": float("inf")}}, "parameters.leave = inf is not finite"),
        ({"names": {"door": ["red"]}}, "names.door has 1 names for 2 slots"),
        ({"names": {"door": ["red", "red", "blue"]}}, "names.door has 'red' twice"),
        ({"rules": "Open {gate}."}, "{gate} in 'Open {gate}.' is no name, word or parameter; known: =leave"),
        ({"pay": [[1, 0], [0, 2], "leave"]}, "another one when {door1} and {door2} change places"),
        ({"prior": [0.7, 0.3]}, "another one when {door1} and {door2} change places"),
        ({"told": ["{door1}", "", ""]}, "another one when {door1} and {door2} change places"),
        ({"colour": "red"}, "unknown field `colour`"),
        ({"pay": "leave"}, "Expected `array`"),
    ],
)
def test_a_table_that_cannot_be_played_is_refused_in_one_line(change: Mapping[str, Any], why: str) -> None:
    make_table(GOOD, "good")
    with pytest.raises(ConfigError) as caught:
        make_table({**GOOD, **change}, "bad")
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "'bad'" in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("hidden", "name a table, as in hidden(doors)"),
        ("hidden(door)", "unknown table 'door'; did you mean doors? known: diagnosis"),
        ('hidden("none.toml")', "the table 'none.toml' cannot be read: No such file"),
        ("hidden(doors,look=1)", "unknown parameter 'look'; known: leave, reworded"),
        ("hidden(doors,leave=much)", "leave must be a number, not much"),
        ("hidden(doors,actions=[a,b])", "give the table 'doors' or actions, not both"),
        ("hidden(doors,reworded=x)", "reworded must be a whole number"),
        ("hidden(doors,scout)", "too many values"),
    ],
)
def test_specs_that_name_no_table_are_refused_in_one_line(spec: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_world(spec)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("actions = [")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_table(str(path))


def test_all_tables_are_listed() -> None:
    assert [spec for spec, _, _ in HiddenTable.listed()] == [f"hidden({name})" for name in TABLES]
    assert all(about for _, _, about in HiddenTable.listed())
