"""Worlds of one seat and worlds with open actions in the browser: played, saved and shown like all others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mage.evaluation.plan import EvaluationRequest
from mage.evaluation.resource_limits import ResourceLimits
from mage.evaluation.run import begin_evaluation
from mage.opponents.agent_seat import seat_agent
from mage.protocols import Agent
from mage.rollout.trial import play_trial
from mage.spec import parse_spec
from mage.types import Task, Trial
from mage.view.play.session import MAX_NOTE
from mage.view.read.safe_world import is_plain, rules_of
from mage.worlds.registry import load_world
from tests.hidden_number import NAME, OPEN_NAME
from tests.test_view_play import played, saved, waited
from tests.viewed import Viewer, write_run


@pytest.fixture
def viewer(tmp_path: Path) -> Iterator[Viewer]:
    viewer = Viewer(tmp_path / "runs")
    with viewer.client:
        yield viewer


def solo_trial(level: str = "", world: str = NAME) -> Trial:
    """A trial of a random player."""
    task = Task(world, (), 0, 5, 2, False, False, 1000, level)

    def uniform(task: Task, sibling: int) -> Agent:
        return seat_agent(load_world(task.world), "uniform", task)

    return asyncio.run(play_trial(load_world(world), task, 0, uniform))


def test_a_person_plays_a_world_of_one_seat_without_an_opponent(viewer: Viewer) -> None:
    states: list[dict[str, Any]] = []
    state = played(viewer, lambda actions: actions[2], look=states.append, world=NAME, level="3", note="three")
    assert (state["phase"], state["error"], state["names"], state["seat"]) == ("over", None, ["person"], 0)
    assert [result["returns"] for result in state["results"]] == [[1.0]] * 3
    assert [result["successes"] for result in state["results"]] == [[True]] * 3
    trial = saved(viewer, state, 0)
    assert (trial.task.level, trial.task.opponents, trial.scores) == ("3", (), (1.0, 1.0, 1.0))
    assert state["level"] == "3"
    assert state["results"][0]["facts"]["hidden"] == "3"
    for seen in states:
        assert seen["level"] == ""
        assert all(result["facts"] is None for result in seen["results"]), "what is hidden is told at the end"


def test_without_a_level_the_seed_draws_it(viewer: Viewer) -> None:
    hidden = {
        str(saved(viewer, played(viewer, world=NAME, seed=seed, episodes=1), 0).episodes[0].result.facts["hidden"])
        for seed in range(6)
    }
    assert len(hidden) > 1


def test_an_agent_is_watched_alone(viewer: Viewer) -> None:
    for player in ("uniform", "scripted:first"):
        state = waited(viewer, viewer.post("/api/play", world=NAME, player=player, pace_s=0, episodes=2))
        assert (state["phase"], state["error"], state["names"], state["seat"]) == ("over", None, [player], None)
        assert len(state["results"]) == 2


def test_any_text_is_a_move_where_actions_are_open(viewer: Viewer) -> None:
    state = waited(viewer, viewer.post("/api/play", world=OPEN_NAME, level="dark green", episodes=1))
    at = f"/api/play/{state['session']}"
    assert state["observation"]["actions"] == []
    for wrong in ("", "  ", None, ["red"], "x" * (MAX_NOTE + 1)):
        assert "an action is a text of 1 to" in viewer.refusal(f"{at}/move", action=wrong)
    state = waited(viewer, viewer.post(f"{at}/move", action="red"))
    assert state["observation"]["text"] == "It is not red."
    state = waited(viewer, viewer.post(f"{at}/move", action=" dark green "))
    assert state["phase"] == "over"
    assert [turn.action for turn in saved(viewer, state, 0).episodes[0].turns] == ["red", "dark green"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"world": NAME, "opponent": "copy"}, "hidden_number has one seat and no opponents"),
        ({"world": NAME, "level": "9"}, "unknown level '9'"),
        ({"world": NAME, "level": "../../etc/hostname"}, "a level is a text of 200 characters at most and no path"),
        ({"world": NAME, "level": 3}, "a level is a text"),
        ({"world": "rps", "opponent": "copy", "level": "3"}, "rps has no level '3'"),
        ({"world": NAME, "seat": 1}, "seat = '1': give a whole number from 0 to 0"),
        ({"world": NAME, "player": "copy"}, "in a world of one seat uniform and models play"),
        ({"world": NAME, "player": "scripted:counter"}, "scripted:counter cannot play hidden_number"),
        ({"world": OPEN_NAME, "player": "scripted:first"}, "scripted:first cannot play hidden_word"),
        ({"world": OPEN_NAME, "player": "uniform"}, "in this world any text is an action"),
        ({"world": f'{NAME}(highest_number="/etc/hostname")'}, "takes only numbers and short words as parameters here"),
        ({"world": f"{NAME}(lowest=1)"}, "lowest"),
    ],
)
def test_what_cannot_be_played_alone_is_refused_with_one_line(viewer: Viewer, asked: dict[str, Any], says: str) -> None:
    said = viewer.refusal("/api/play", **asked)
    assert says in said
    assert "\n" not in said


def test_plain_parameters_are_taken(viewer: Viewer) -> None:
    state = played(viewer, lambda actions: actions[-1], world=f"{NAME}(highest_number=12)", level="12", episodes=1)
    assert state["results"][0]["returns"] == [1.0]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("maze(size=4, speed=0.5, walls=true, kind=round)", True),
        ("maze(kind=round(2))", True),
        ("maze(file=/etc/hostname)", False),
        ('maze("../secret")', False),
        ("maze(kind=round(file=/etc/hostname))", False),
        ('maze(host="http://x.example")', False),
        ('maze(words="two words")', False),
        (f"maze(word={'x' * 60})", False),
        ("maze(sizes=[1,2])", False),
    ],
)
def test_only_numbers_booleans_and_short_words_are_plain(spec: str, expected: bool) -> None:
    assert is_plain(parse_spec(spec)) is expected


def test_registered_worlds_are_among_the_choices(viewer: Viewer) -> None:
    found = viewer.get("/api/choices")
    worlds = {world["spec"]: world for world in found["worlds"]}
    assert (worlds[NAME]["seats"], worlds[NAME]["parameters"]) == (1, "highest_number=8")
    opponents = {entry["spec"]: entry["fits"] for entry in found["opponents"]}
    assert {name for name, fits in opponents.items() if NAME in fits} == {"uniform", "scripted:first"}
    assert not [name for name, fits in opponents.items() if OPEN_NAME in fits]


def test_trials_are_listed_and_filtered_by_level(viewer: Viewer) -> None:
    world = f"{NAME}(highest_number=12)"
    write_run(viewer.root / "run", [solo_trial(level, world) for level in ("1", "2", "12")], world=world)
    listed = viewer.run("run", "/trials")
    assert [row["level"] for row in listed["rows"]] == ["1", "2", "12"]
    assert (listed["opponents"], listed["seats"]) == (["1", "12", "2"], [0])
    assert [row["level"] for row in viewer.run("run", "/trials?opponent=2")["rows"]] == ["2"], "a level that exists"
    write_run(viewer.root / "drawn", [solo_trial()], world=NAME)
    (row,) = viewer.run("drawn", "/trials")["rows"]
    assert (row.get("level", ""), row["opponents"]) == ("", [])


def test_a_trial_shows_its_rules_level_and_what_was_hidden(viewer: Viewer) -> None:
    write_run(viewer.root / "run", [solo_trial("4")], world=NAME)
    shown = viewer.run("run", "/trials/0")
    assert shown["rules"].startswith("A number from 1 to 8 is hidden.")
    assert shown["task"]["level"] == "4"
    result = shown["episodes"][0]["result"]
    assert (result["facts"]["hidden"], result["successes"]) == ("4", [result["returns"][0] > 0])
    assert shown["names"] == ["uniform"]


@pytest.mark.parametrize("world", ["gone_world", f'{NAME}(highest_number="/etc")', f"{NAME}(highest_number=none)"])
def test_trials_of_worlds_that_cannot_be_loaded_are_shown_without_rules(viewer: Viewer, world: str) -> None:
    trial = solo_trial("4")
    assert rules_of(Task(world, (), 0, 5, 2, False, False, 1000)) is None
    other = type(trial)(Task(world, (), 0, 5, 2, False, False, 1000, "4"), 0, trial.agent, trial.episodes, (), (), ())
    write_run(viewer.root / "run", [other], world=world)
    assert viewer.run("run", "/trials/0")["rules"] is None


def test_an_evaluation_on_levels_is_shown(viewer: Viewer) -> None:
    request = EvaluationRequest("uniform", NAME, ["2", "5"], 2)
    begin_evaluation(request, viewer.root / "evaluated", ResourceLimits()).scores()
    about = viewer.run("evaluated")
    (name,) = [each["name"] if isinstance(each, dict) else each for each in about["evaluations"]]
    (report,) = viewer.run("evaluated", f"/evaluations/{name}")["reports"]
    assert report["has_levels"] is True
    assert [member for member, _ in report["by_member"]] == ["2", "5"]
