"""The pages as a visitor finds them: each opens, leads on, fits a narrow window and can be read in both themes."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING

import pytest

from benchmarks.view_speed import Server
from tests.browser.opened import Opened
from tests.browser.scenes import alarmed, met, mixed, unreadable

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, learned_run: Path, played_run: Path) -> Path:
    root = tmp_path_factory.mktemp("runs")
    copytree(learned_run, root / "learned")
    copytree(played_run, root / "played")
    met(root / "met")
    unreadable(root / "unreadable")
    alarmed(root / "alarmed")
    mixed(root / "learned", root / "mixed")
    return root


def run_id(server: Server, name: str) -> str:
    return str(next(run["id"] for run in server.json("/api/runs") if run["name"] == name))


def pages(server: Server) -> list[str]:
    train, trials, meeting = (f"/#/runs/{run_id(server, name)}" for name in ("learned", "played", "met"))
    of_train = [train, f"{train}/trials", f"{train}/trials/1", f"{train}/pairs", f"{train}/evaluations"]
    of_trials = [f"{trials}/trials/{n}?at=1.end" for n in range(6)] + [f"{trials}/trials/0?layout=columns"]
    return [
        f"/#/runs?compare={train.split('/')[-1]}",
        *of_train,
        *of_trials,
        f"{meeting}/evaluations",
        "/#/play",
        "/#/help",
        "/#/help/method",
    ]


def test_one_finds_the_way_from_the_list_to_a_trial_and_back(opened: Opened) -> None:
    opened.go("/")
    assert opened.hash() == "#/runs"
    assert opened.find("tbody tr").count() == 6
    opened.find("input[type=search]").fill("train learn")
    assert opened.find("tbody tr").count() == 1
    opened.find("tbody a").first.click()
    opened.wait("main h1:has-text('learned')")
    assert "✓ finished" in opened.text()
    opened.find(".tabs a:has-text('Trials')").click()
    opened.find("td a:has-text('trial 1')").first.click()
    opened.wait(".stage h2")
    assert re.fullmatch(r"#/runs/\w+/trials/1", opened.hash())
    opened.page.go_back()
    opened.wait("main h1:text-is('Trials')")
    opened.find("nav a:has-text('Help')").click()
    opened.wait("article h1")
    opened.find("nav a:text-is('Method')").click()
    opened.wait("article math")


def test_a_training_run_shows_its_curves_and_the_exact_bounds(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{run_id(server, 'learned')}")
    opened.wait(".chart .curve")
    bounds = opened.find(".chart text.bound").all_text_contents()
    assert bounds == ["best memoryless 0.667", "limit 1"]
    assert opened.find(".chart .key").all_text_contents()[:3] == ["episode 1", "episode 2", "episode 3"]
    opened.find(".chart .plot").first.focus()
    opened.press("ArrowLeft", "ArrowLeft")
    assert opened.find(".readout").first.inner_text().startswith("step 3")
    opened.find(".key:has-text('episode 2')").click()
    opened.find(".chart .plot").first.focus()
    opened.press("ArrowLeft")
    assert "episode 2" not in opened.find(".readout").first.inner_text()


def test_a_training_run_says_in_short_how_it_was_judged(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{run_id(server, 'learned')}")
    card = opened.find(".card:has(h2:text-is('In short'))")
    assert "rps-constants" in card.inner_text()
    card.locator("a:has-text('The whole evaluation')").click()
    opened.wait("main h1:text-is('Evaluation')")


def test_alarms_that_sound_again_and_again_are_told_once_and_in_words(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{run_id(server, 'alarmed')}")
    assert opened.find("h1 .chip").all_inner_texts() == ["▲ alarmed", "▲ 3 alarms"]
    assert "alarm at step 3: share of dead groups over 0.9" in opened.text()
    assert opened.find(".card:has(h2:text-is('What happened')) li").all_inner_texts() == [
        "▲ steps 1 to 3, 2 times share of dead groups over 0.9 (at last 0.95): "
        "all trials of a task went alike, so there is nothing to learn from them",
        "▲ step 2 score on mine fell from 0.500 to 0.100",
        "step 2 went back to the weights of step 1",
    ]
    opened.go("/#/runs")
    assert opened.find("tr:has-text('alarmed') .why").inner_text().endswith("share of dead groups over 0.9")


def test_the_values_of_a_split_are_no_bounds_where_others_are_drawn_besides(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{run_id(server, 'learned')}")
    assert opened.find(".chart text.bound").count() == 2
    opened.go(f"/#/runs/{run_id(server, 'mixed')}")
    assert opened.find(".chart .curve").count() > 0
    assert opened.find(".chart text.bound").count() == 0
    assert "best memoryless" not in opened.find(".chart").first.inner_text()


def test_ticked_runs_are_compared_and_the_address_remembers_them(opened: Opened, server: Server) -> None:
    opened.go("/#/runs")
    opened.find("tr:has-text('learned') input").check()
    opened.wait(".compare .curve")
    opened.find(".compare button:text-is('recipe')").click()
    assert "1 run" in opened.find(".compare .key").first.inner_text()
    assert f"compare={run_id(server, 'learned')}" in opened.hash()
    opened.go(f"/{opened.hash()}")
    opened.wait(".compare .curve")
    assert opened.find("tr:has-text('learned') input").is_checked()


def test_an_evaluation_says_what_it_found(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{run_id(server, 'learned')}/evaluations")
    text = opened.text()
    for said in ("rps-constants", "memory off", "best memoryless", "Against 3 opponents", "always(paper)", "+0.667"):
        assert said in text, said
    assert opened.find(".chart .band").count() == 2
    opened.go(f"/#/runs/{run_id(server, 'met')}/evaluations")
    assert opened.find(".matrix td.heat").count() == 6
    assert "Elo" in opened.text()


def test_the_same_task_before_and_after(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{run_id(server, 'learned')}/pairs")
    opened.wait(".side .stage h2")
    heads = opened.find(".side-head h2").all_text_contents()
    assert heads == ["Before training", "After step 4"]
    assert opened.find(".filmstrip figure").count() == 6
    opened.press("ArrowRight", "ArrowRight")
    assert opened.find(".stage h2").all_text_contents() == ["Episode 1 of 3, move 3 of 6"] * 2
    opened.page.select_option("label:has-text('After') select", "2")
    opened.wait(".side-head h2:has-text('After step 2')")
    assert "after=2" in opened.hash()


def test_a_run_that_cannot_be_read_says_why(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{run_id(server, 'unreadable')}")
    assert "This run cannot be read" in opened.text()
    assert "99" in opened.text()


def test_what_is_not_there_says_so(opened: Opened) -> None:
    opened.go("/#/runs/000000000000")
    assert "This cannot be shown" in opened.text()
    opened.go("/#/nowhere")
    assert "there is no page called nowhere" in opened.text()
    opened.troubles.clear()  # the browser itself complains about a 404


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_can_be_read_in_both_themes_and_fits_a_narrow_window(
    browser: Browser, server: Server, theme: str
) -> None:
    opened = Opened(browser, server.link, theme=theme)
    opened.go("/#/help/quickstart")
    for where in pages(server):
        opened.move(where)
        assert opened.too_faint() == [], where
        opened.resize(360, 800)
        assert opened.overhang() <= 0, where
        opened.resize(1280, 900)
    opened.close()
    assert opened.troubles == []


def test_a_faint_text_would_be_noticed(opened: Opened) -> None:
    opened.go("/#/play")
    opened.page.evaluate("document.querySelector('main h1').style.color = '#b0b0b0'")
    assert [text.partition(" ")[0] for text in opened.too_faint()] == ["H1."]


def test_the_theme_can_be_chosen_and_is_remembered(opened: Opened) -> None:
    opened.go("/#/runs")
    light = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.find("button:has-text('Theme')").click()
    opened.find("button:has-text('Theme: light')").click()
    dark = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    opened.go("/#/runs")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == dark


def test_the_keyboard_is_enough(opened: Opened) -> None:
    opened.go("/#/runs")
    opened.press("Tab", "Enter")
    assert opened.page.evaluate("document.activeElement.id") == "main", "the first stop skips the header"
    opened.press("?")
    assert "filter the runs" in opened.find("dialog").inner_text()
    opened.press("Escape")
    opened.find("dialog").wait_for(state="detached")
    opened.press("/")
    opened.page.keyboard.type("played")
    assert opened.find("tbody tr").count() == 1


def test_nothing_is_loaded_from_elsewhere(opened: Opened, server: Server) -> None:
    opened.go("/#/play")
    for where in pages(server)[:6]:
        opened.move(where)
    assert {url for url in opened.requests if not url.startswith((server.url, "data:", "about:"))} == set()
