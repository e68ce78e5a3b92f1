"""Recipes, overrides and what they refuse."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from mage.build import check, draw_tasks, members_of, settings
from mage.config import load_config, recipe_names, to_toml, validated
from mage.errors import ConfigError
from mage.types import Memory, Thoughts


def write(folder: Path, name: str, text: str) -> str:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", [name for name, _ in recipe_names()])
def test_every_shipped_recipe_is_whole(name: str) -> None:
    config = load_config(name)
    check(config)
    assert config.description, "a recipe says what it is"
    assert validated(tomllib.loads(to_toml(config)), "printed") == config, "--dry-run prints what can be run"


def test_a_recipe_extends_another_and_overrides_come_last(tmp_path: Path) -> None:
    base = write(tmp_path, "base", 'description = "b"\ngame = "pd"\n[trial]\nepisodes = 4\nmax_turns = 9\n')
    top = write(tmp_path, "top", f'extends = "{base}"\n[trial]\nepisodes = 5\n[population]\nmembers = ["uniform"]\n')
    config = load_config(top, ["agent.memory=none", "population.members=[\"copy\", 'uniform']", "seed=7"])
    assert (config.game, config.trial.episodes, config.trial.max_turns) == ("pd", 5, 9)
    assert (config.agent.memory, config.population.members, config.seed) == (Memory.NONE, ("copy", "uniform"), 7)
    assert config.description == "", "a description is not inherited"


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("agent.memry=none", r"unknown key 'agent.memry'; known: .*memory"),
        ("nope=1", r"unknown key 'nope'; known: .*agent"),
        ("agent.memory=all", r"agent.memory = 'all': .*'none', 'history', 'reflections' or 'both'"),
        ("trial.episodes=0", r"trial.episodes = 0: .*greater than or equal to 1"),
        ("trial.episodes=three", r"trial.episodes = 'three'"),
        ("learner.lr", r"cannot read the override 'learner.lr'; write key=value"),
        ("=3", r"cannot read the override '=3'"),
        ("game.name=3", r"'game.name': 'game' is a value, not a section"),
        ("population.members=uniform", r"population.members = 'uniform'"),
        ("batch.size=1", r"batch.size = 1: .*greater than or equal to 2"),
    ],
)
def test_bad_overrides_are_one_line(override: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        load_config("demo", [override])
    assert "\n" not in str(caught.value)


def test_bad_recipes_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown recipe 'nope'; known: .*demo"):
        load_config("nope")
    with pytest.raises(ConfigError, match=r"give the path of a TOML file that exists"):
        load_config(str(tmp_path / "missing.toml"))
    with pytest.raises(ConfigError, match=r"is not valid TOML"):
        load_config(write(tmp_path, "broken", "seed = ="))
    with pytest.raises(ConfigError, match=r"extends takes the name of one recipe, not 3"):
        load_config(write(tmp_path, "odd", "extends = 3"))
    first, second = str(tmp_path / "first.toml"), str(tmp_path / "second.toml")
    write(tmp_path, "first", f'extends = "{second}"')
    write(tmp_path, "second", f'extends = "{first}"')
    with pytest.raises(ConfigError, match=r"in a circle: .*first.toml -> .*second.toml -> .*first.toml"):
        load_config(first)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["game=nope"], r"unknown game 'nope'"),
        (["population.members=[]"], r"population.members = \[\]: name at least one"),
        (["population.members=['no-such']"], r"unknown opponent 'no-such'; known: .*uniform"),
        (["population.members=['conservative']"], r"conservative"),
        (["population.weights=[1.0]"], r"population.weights has 1 values for 6 members"),
        (["trial.seats=[2]"], r"seat 2 does not exist; .* has 0 to 1"),
        (["trial.seats=[]"], r"name at least one seat"),
        (["population.split=nope"], r"unknown split 'nope'"),
        (["population.split=kuhn-scripts"], r"made for kuhn_poker, not for rps"),
        (["agent.thoughts=strip", "agent.memory=history"], r"with agent.reply = choice and agent.memory = history the"),
        (["agent.thoughts=strip", "agent.memory=reflections"], r"in text replies, and in reflections with memory both"),
    ],
)
def test_what_would_fail_later_fails_at_the_start(overrides: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check(load_config("demo", overrides))


@pytest.mark.parametrize("where", ["agent.memory=both", "agent.reply=text"])
def test_thoughts_can_be_stripped_where_the_history_holds_them(where: str) -> None:
    config = load_config("demo", ["agent.memory=none", "agent.thoughts=strip", where])
    check(config)
    assert settings(config.agent).thoughts is Thoughts.STRIP


def test_tasks_are_drawn_by_weight_and_seats_in_turn() -> None:
    config = load_config(
        "demo", ["population.members=['copy', 'uniform']", "population.weights=[3.0, 1.0]", "trial.seats=[0, 1]"]
    )
    source = draw_tasks(config, "tasks", 0)
    tasks = [next(source) for _ in range(4000)]
    assert [t.seat for t in tasks[:4]] == [0, 1, 0, 1]
    share = sum(t.opponents == ("copy",) for t in tasks) / len(tasks)
    assert share == pytest.approx(0.75, abs=0.03)
    assert len({t.seed for t in tasks}) == len(tasks)
    again = draw_tasks(config, "tasks", 0)
    assert [next(again) for _ in range(10)] == tasks[:10]
    other = draw_tasks(config, "tasks", 1)
    assert next(other) != tasks[0]


def test_a_split_names_members() -> None:
    assert len(members_of(load_config("demo", ["population.split=rps-seven"]))) == 7 + 6
