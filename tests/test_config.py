"""Recipes, overrides and what they refuse."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from mage.config.compose import Shipped, label_of, parts_of, resolved, shipped_recipes
from mage.config.load import load_config, recorded, to_toml, validated
from mage.errors import ConfigError
from mage.evaluation.config_splits import members_of
from mage.training.build import agent_settings, check, draw_tasks
from mage.types import Memory, Thoughts
from tests.tree import ROOT


def write(folder: Path, name: str, text: str) -> str:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("shipped", shipped_recipes(), ids=lambda shipped: shipped.name)
def test_every_shipped_recipe_can_be_run_alone_or_after_a_world(shipped: Shipped) -> None:
    config = load_config(shipped.name if shipped.kind.is_whole else f"rps+{shipped.name}")
    check(config)
    assert shipped.description, "a recipe says what it is"
    assert config.description.endswith(shipped.description)
    assert validated(tomllib.loads(to_toml(config)), "printed") == config, "--dry-run prints what can be run"
    assert (shipped.device == "GPU") == (shipped.device != "" and config.device == "auto")


def test_shipped_names_are_unique_and_found_in_the_folder_of_their_kind() -> None:
    files = list((ROOT / "mage" / "recipes").rglob("*.toml"))
    assert sorted((r.kind.value, r.name) for r in shipped_recipes()) == sorted((f.parent.name, f.stem) for f in files)
    assert len({file.stem for file in files}) == len(files)


WORLDS = ("rps", "rps-wide", "kuhn", "tictactoe")
OBJECTIVES = ("single", "discounted", "cumulative", "differential", "final")
METHODS = ("mage", "lamer", "grpo", "gigpo", "rloo", "ppo", *OBJECTIVES)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("first", [*WORLDS, *(f"{world}+smollm2" for world in WORLDS), "rps-llm", "kuhn-league"])
def test_methods_compose_with_worlds_and_models(first: str, method: str) -> None:
    config = load_config(f"{first}+{method}")
    check(config)
    assert config.credit.estimator == load_config(f"rps+{method}").credit.estimator
    assert config.agent.model == ("smollm2" if "smollm2" in first or "llm" in first else "nano")


PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md")), ROOT / "README.md"]


def named_in(page: Path) -> set[str]:
    """Recipes that commands of a page train, sweep or play by, and compositions that stand in its text."""
    text = page.read_text(encoding="utf-8")
    shipped = "|".join(sorted((r.name for r in shipped_recipes() if r.kind.is_whole), key=len, reverse=True))
    words = [word for line in re.findall(r"mage (?:train|sweep|trials) ([^\n`#]*)", text) for word in line.split()[:2]]
    letter = r"(?:[a-z0-9-]|(?<=\d)\.(?=\d))"  # a dot in a number, as in qwen2.5-1.5b
    composed = re.findall(rf"`((?:{shipped})(?:\+{letter}+)+)", text)
    return {*(word for word in words if re.fullmatch(rf"[a-z](?:{letter}|\+)*", word)), *composed}


def test_every_recipe_named_in_the_documentation_resolves_and_builds() -> None:
    names = set().union(*map(named_in, PAGES))
    assert {"rps-llm+hard", "rps-base+mage", "kuhn-llm", "rps+smollm2+grpo", "rps+qwen2.5-1.5b"} <= names
    for name in names:
        check(load_config(name))


def test_every_new_spelling_of_an_earlier_recipe_resolves_and_builds() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    moved = dict(re.findall(r"^  \| `(\S+)` \| `([^`]+)` \|$", text, re.MULTILINE))
    assert len(moved) == 41
    for before, now in moved.items():
        recipe, *overrides = now.split()
        check(load_config(recipe, overrides))
        with pytest.raises(ConfigError, match=rf"unknown recipe '{before}'|'{before}' is no whole recipe"):
            load_config(before)


def test_a_recipe_extends_another_and_overrides_come_last(tmp_path: Path) -> None:
    base = write(tmp_path, "base", 'description = "b"\nworld = "pd"\n[trial]\nepisodes = 4\nmax_turns = 9\n')
    top = write(tmp_path, "top", f'extends = "{base}"\n[trial]\nepisodes = 5\n[population]\nmembers = ["uniform"]\n')
    config = load_config(top, ["agent.memory=none", "population.members=[\"copy\", 'uniform']", "seed=7"])
    assert (config.world, config.trial.episodes, config.trial.max_turns) == ("pd", 5, 9)
    assert (config.agent.memory, config.population.members, config.seed) == (Memory.NONE, ("copy", "uniform"), 7)
    assert config.description == "", "a description is not inherited"


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("agent.memry=none", r"unknown key 'agent.memry'; did you mean agent.memory\? known: .*memory"),
        ("nope=1", r"unknown key 'nope'; known: .*agent"),
        ("agent.memory=all", r"agent.memory = 'all': .*'none', 'history', 'reflections' or 'both'"),
        ("trial.episodes=0", r"trial.episodes = 0: .*greater than or equal to 1"),
        ("trial.episodes=three", r"trial.episodes = 'three'"),
        ("learner.lr", r"cannot read the override 'learner.lr'; write key=value"),
        ("=3", r"cannot read the override '=3'"),
        ("world.name=3", r"'world.name': 'world' is a value, not a section"),
        ("population.members=uniform", r"population.members = 'uniform'"),
        ("alarms.drop=inf", r"alarms.drop = inf: input should be a finite number"),
        ("credit.invalid_penalty=inf", r"credit.invalid_penalty = inf: input should be a finite number"),
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
    for odd in ("3", "[]", '["rps", 3]', "{ rps = 1 }"):
        with pytest.raises(ConfigError, match=r"odd.toml: extends takes the name of a recipe or a list of names, not"):
            load_config(write(tmp_path, "odd", f"extends = {odd}"))
    with pytest.raises(ConfigError, match=r"twice.toml: extends names 'rps' twice"):
        load_config(write(tmp_path, "twice", 'extends = ["rps", "grpo", "rps"]'))
    with pytest.raises(ConfigError, match=r"minutes takes text, as in \"3 to 4\", not 3"):
        load_config(write(tmp_path, "hurried", "minutes = 3"))
    with pytest.raises(ConfigError, match=r"unknown key 'kind'"):
        load_config(write(tmp_path, "kind", 'kind = "world"'))
    first, second = str(tmp_path / "first.toml"), str(tmp_path / "second.toml")
    write(tmp_path, "first", f'extends = "{second}"')
    write(tmp_path, "second", f'extends = "{first}"')
    with pytest.raises(ConfigError, match=r"in a circle: .*first.toml -> .*second.toml -> .*first.toml"):
        load_config(first)


def test_later_ones_win_and_the_file_itself_wins_over_all(tmp_path: Path) -> None:
    low = write(
        tmp_path, "low", 'world = "pd"\nsteps = 1\nseed = 1\ntokens = 1\n[trial]\nepisodes = 1\nmax_turns = 7\n'
    )
    high = write(tmp_path, "high", "steps = 2\nseed = 2\n[trial]\nepisodes = 2\n")
    top = write(tmp_path, "top", f'extends = ["{low}", "{high}"]\nseed = 3\ndescription = "top"\nminutes = "1"\n')
    config = load_config(top)
    assert (config.world, config.tokens, config.steps, config.seed) == ("pd", 1, 2, 3)
    assert (config.trial.episodes, config.trial.max_turns, config.description) == (2, 7, "top")
    assert load_config(f"{low}+{high}", ["seed=3", "description=top"]) == config
    assert load_config(f"{high}+{low}").steps == 1
    whole = write(tmp_path, "whole", f'extends = "{low}+{high}"\nseed = 3\ndescription = "top"\n')
    assert load_config(whole) == config


def test_what_is_reached_twice_is_applied_once_and_before_all_that_extend_it(tmp_path: Path) -> None:
    base = write(tmp_path, "base", 'world = "pd"\nsteps = 1\nseed = 1\n')
    left = write(tmp_path, "left", f'extends = "{base}"\nsteps = 2\n')
    right = write(tmp_path, "right", f'extends = "{base}"\nseed = 2\n')
    for name in (f"{left}+{right}", f"{right}+{left}", write(tmp_path, "both", f'extends = ["{left}", "{right}"]')):
        config = load_config(name)
        assert (config.world, config.steps, config.seed) == ("pd", 2, 2)
    assert load_config("rps-llm+tictactoe-llm").agent.model == "smollm2", "the model comes after both worlds"


def test_descriptions_of_what_is_composed_stand_side_by_side() -> None:
    rps, grpo = (next(r for r in shipped_recipes() if r.name == name) for name in ("rps", "grpo"))
    assert load_config("rps+grpo").description == f"{rps.description} + {grpo.description}"
    assert "minutes" not in resolved("rps"), "what is only listed is no setting"


@pytest.mark.parametrize(
    ("recipe", "says"),
    [
        ("", r"cannot read the recipe ''; write names with \+ between them"),
        ("rps+", r"cannot read the recipe 'rps\+'"),
        ("+grpo", r"cannot read the recipe '\+grpo'"),
        ("rps++grpo", r"cannot read the recipe 'rps\+\+grpo'"),
        ("rps+rps", r"the recipe 'rps\+rps' names 'rps' twice"),
        ("rps+nope", r"unknown recipe 'nope'; known: .*grpo"),
        ("rps-mage", r"unknown recipe 'rps-mage'; .*composes them, as in rps\+grpo"),
        ("rps+nope.toml", r"unknown recipe 'nope.toml'; give the path"),
        ("grpo", r"'grpo' is no whole recipe; .*as in rps\+grpo"),
        ("grpo+text", r"'grpo\+text' is no whole recipe"),
        ("grpo+rps", r"'grpo\+rps' has 'rps' after 'grpo', and later ones win; put it first"),
        ("rps+sokoban", r"'rps\+sokoban' names two worlds, 'rps' and 'sokoban'; leave one out"),
        ("rps+qwen3-4b+smollm2+grpo", r"names two models, 'qwen3-4b' and 'smollm2'; leave one out"),
        ("rps-llm+rps", r"rps-llm\+rps: no order of rps, rps-llm suits all; leave out"),
        ("rps-llm+smollm2", r"no order of rps-llm, smollm2 suits all"),
    ],
)
def test_what_does_not_compose_is_refused_in_one_line(recipe: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        load_config(recipe)
    assert "\n" not in str(caught.value)


def test_paths_compose_and_a_file_may_have_a_plus_in_its_path(tmp_path: Path) -> None:
    (tmp_path / "a+b").mkdir()
    own = write(tmp_path / "a+b", "own", 'extends = "rps"\nsteps = 7\n')
    assert (parts_of(own), label_of(own), load_config(own).steps) == ((own,), "own", 7)
    more = write(tmp_path, "more", "steps = 8\n")
    assert load_config(f"rps+grpo+{more}").steps == 8
    assert label_of(f"rps+grpo+{more}") == "rps+grpo+more"


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["world=nope"], r"unknown world 'nope'"),
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
    assert agent_settings(config.agent).thoughts is Thoughts.STRIP


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


def test_a_key_that_is_gone_is_left_out_of_a_record_where_it_changed_nothing() -> None:
    plain = load_config("demo").model_dump(mode="json")
    older = {**plain, "credit": {**plain["credit"], "thought_weight": 1.0}}
    assert recorded(older, "run.json") == load_config("demo")
    older["credit"]["thought_weight"] = 0.1
    with pytest.raises(ConfigError, match=r"^run\.json: .*credit\.thought_weight"):
        recorded(older, "run.json")


@pytest.mark.parametrize("key", ["steps", "learner.ranks", "learner.lr", "rollout.gpus", "learner.token_budget"])
def test_a_truth_value_is_no_number(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} = True: allowed is a number"):
        load_config("rps", {key: True})


def test_a_truth_value_stays_one_where_it_is_allowed() -> None:
    config = load_config("rps", {"learner.decay": True, "learner.compile": True, "credit.options.own": True})
    assert (config.learner.decay, config.learner.compile, config.credit.options["own"]) == (True, True, True)
