"""Worlds of one seat in the browser: played with and without a level, watched, listed and reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.view_speed import Server
from mage.evaluation.plan import EvaluationRequest
from mage.evaluation.resource_limits import ResourceLimits
from mage.evaluation.run import begin_evaluation
from tests.browser.opened import Opened
from tests.browser.test_live import settled
from tests.hidden_number import NAME, OPEN_NAME
from tests.test_view_levels import solo_trial
from tests.viewed import write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, executable: str) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "levels", [solo_trial("1"), solo_trial("6")], world=NAME)
    write_run(root / "drawn", [solo_trial()], world=NAME)
    write_run(root / "doors", [solo_trial("red", "hidden(doors)")], world="hidden(doors)")
    for name, levels in (("on-levels", ["2", "5"]), ("on-drawn", [])):
        begin_evaluation(EvaluationRequest("uniform", NAME, levels, 2), root / name, ResourceLimits()).scores()
    return root


@pytest.fixture(scope="module")
def server(runs: Path, executable: str) -> Iterator[Server]:
    with Server(runs, "import tests.hidden_number") as started:
        yield started


def identity(server: Server, name: str) -> str:
    return next(str(run["id"]) for run in server.json("/api/runs") if run["name"] == name)


def start(opened: Opened, world: str, level: str = "", player: str = "person") -> None:
    opened.go("/#/play")
    opened.page.select_option("label:has-text('World') select", world)
    assert opened.find("label:has-text('Opponent') select").count() == 0
    assert opened.find("label:has-text('You take') select").count() == 0
    opened.find("input[aria-label='level']").fill(level)
    opened.page.select_option("label:has-text('Episodes') select", "2")
    opened.page.select_option("label:has-text('Who plays') select", player)
    opened.find("button:text-is('Start')").click()


def test_a_hidden_number_is_found_without_an_opponent(opened: Opened) -> None:
    start(opened, NAME, "3")
    assert settled(opened) == "move"
    assert "Guess the number." in opened.text()
    opened.find("[data-action='5']").click()
    assert settled(opened) == "move"
    assert "It is lower than 5." in opened.text()
    opened.press("3")
    assert settled(opened) == "note"
    assert "opponent" not in (opened.find("textarea").get_attribute("placeholder") or "")
    opened.find("button:has-text('next episode')").click()
    assert settled(opened) == "move"
    opened.press("3")
    assert settled(opened) == "over"
    text = opened.text()
    assert "you scored +1, +1" in text
    assert "you played against" not in text
    assert opened.find("dt:text-is('level') + dd").inner_text() == "3"
    assert opened.find(".verdict.win").count() > 0
    opened.find("a:has-text('Look at the trial as you lived it')").click()
    opened.wait("h1:has-text('Trial 0')")
    assert "hidden" in opened.text()


def test_moves_are_written_where_any_text_is_one(opened: Opened) -> None:
    start(opened, OPEN_NAME, "dark green")
    assert settled(opened) == "move"
    assert opened.find(".moves button").count() == 0
    opened.find("input[aria-label='your move']").fill("1")
    opened.press("Enter")
    assert settled(opened) == "move"
    assert "It is not 1." in opened.text()
    opened.find("input[aria-label='your move']").fill("dark green")
    opened.find("button:text-is('Play')").click()
    assert settled(opened) == "note"
    assert "That is it." in opened.text()


def test_what_was_hidden_is_told_in_the_names_of_the_trial(opened: Opened, server: Server) -> None:
    run = identity(server, "doors")
    (episode, *_) = server.json(f"/api/runs/{run}/trials/0")["episodes"]
    door = episode["turns"][0]["actions"][0]
    assert door != "red", "else the seed of the trial must be another"
    opened.go(f"/#/runs/{run}/trials/0?at=1.end")
    opened.wait("h2:has-text('Episode 1 of 2: the end')")
    assert opened.find(".plain-facts tr:has(th:text-is('hidden')) td").inner_text() == f"{door} (level red)"
    assert opened.find(".plain-facts th:text-is('revealed')").count() == 0


def test_a_random_player_is_watched_alone(opened: Opened) -> None:
    start(opened, NAME, player="uniform")
    opened.wait("h2:text-is('It is over')")
    assert opened.find("a:has-text('Look at the trial')").count() == 1


def test_an_unknown_level_says_why(opened: Opened) -> None:
    start(opened, NAME, "99")
    opened.wait("form .bad:has-text('unknown level')")
    opened.troubles.clear()  # the browser itself complains about a 400


def test_trials_are_listed_by_level_or_without_such_a_column(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{identity(server, 'levels')}/trials")
    heads = opened.find("th").all_inner_texts()
    assert "level" in heads
    assert "opponent" not in heads
    opened.go(f"/#/runs/{identity(server, 'drawn')}/trials")
    heads = opened.find("th").all_inner_texts()
    assert "level" not in heads
    assert "opponent" not in heads


@pytest.mark.parametrize("width", [1280, 390])
def test_evaluations_speak_of_levels(opened: Opened, server: Server, width: int) -> None:
    opened.resize(width, 900)
    for name, sentence in (("on-levels", "On 2 levels it scores"), ("on-drawn", "On levels drawn by seed it scores")):
        opened.go(f"/#/runs/{identity(server, name)}/evaluations/report")
        assert sentence in opened.text()
        assert "Against" not in opened.text()
        assert opened.overhang() <= 0
    assert opened.too_faint() == []


def test_a_shop_is_drawn_and_bought_from_by_clicks(opened: Opened) -> None:
    start(opened, "webshop", "3")
    assert settled(opened) == "move"
    assert "Find: " in opened.find(".shop .asked").inner_text()
    opened.find(".moves button").first.click()
    assert settled(opened) == "move"
    assert opened.find(".shop tr.free").count() == 5
    opened.find(".shop tr.free").first.click()
    assert settled(opened) == "move"
    value = opened.find(".shop .value.free").first
    chosen = value.inner_text()
    value.click()
    assert settled(opened) == "move"
    assert opened.find(".shop .value.chosen").inner_text() == chosen
    opened.find("[data-action='click[buy now]']").click()
    assert settled(opened) == "note"
    assert f", {chosen}, $" in opened.text()


def test_a_room_of_sokoban_is_drawn_and_solved_by_clicks(opened: Opened) -> None:
    start(opened, "sokoban", "6#|#@$-.#|6#")
    assert settled(opened) == "move"
    assert opened.find(".drawing .crate").count() == 1
    assert opened.find(".drawing .goal").count() == 1
    opened.find(".drawing .free").last.click()
    assert settled(opened) == "note"
    assert "Solved." in opened.text()
