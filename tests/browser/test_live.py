"""What changes while one looks: a run that trains, and games that are played."""

from __future__ import annotations

from pathlib import Path

import pytest

from mage.config.schema import Config
from mage.files import JsonLines
from mage.runs.store import RunWriter
from tests.browser.opened import Opened

NUM_STEPS = 9


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, executable: str) -> Path:
    return tmp_path_factory.mktemp("runs")


class Growing:
    """A training run that is being written."""

    def __init__(self, path: Path) -> None:
        config = Config(steps=NUM_STEPS).model_dump(mode="json")
        self._writer = RunWriter.create(path, kind="train", config=config, seed=0)
        self._metrics = JsonLines(path / "metrics.jsonl")
        self.step = 0
        self.grow()

    def grow(self) -> None:
        """One more step."""
        self.step += 1
        scores = {f"score/episode_{k}": self.step * k / 30 for k in (1, 2, 3)}
        self._metrics.append({"step": self.step, **scores, "entropy/play": 1 / self.step})

    def close(self) -> None:
        """Stop without a word, as a kill does."""
        self._metrics.close()
        self._writer.close()


def settled(opened: Opened) -> str:
    """Wait until the table has changed since last time and somebody has to act, or it is over; return the phase."""
    phases = "[data-phase=move], [data-phase=note], [data-phase=over], [data-phase=failed]"
    table = f".table:not([data-seen]):is({phases})"
    opened.wait(table)
    phase = opened.find(table).get_attribute("data-phase")
    opened.find(table).evaluate("table => table.setAttribute('data-seen', '')")
    assert phase is not None
    return phase


def test_a_run_appears_and_grows_on_the_page_without_a_reload(opened: Opened, runs: Path) -> None:
    opened.go("/#/runs")
    assert "There is no run here yet" in opened.text()
    opened.page.evaluate("window.marked = true")
    growing = Growing(runs / "growing")
    opened.wait("tr:has-text('growing') .chip.running")
    growing.grow()
    opened.wait("tr:has-text('growing') td:has-text('2 of 9')")
    opened.find("a:text-is('growing')").click()
    opened.wait(".facts dd:has-text('2 of 9')")
    before = opened.find(".chart .curve").last.get_attribute("points")
    for _ in range(3):
        growing.grow()
    opened.wait(".facts dd:has-text('5 of 9')")
    after = opened.find(".chart .curve").last.get_attribute("points")
    assert before is not None
    assert after is not None
    assert (len(before.split()), len(after.split())) == (2, 5), "one more point for each step"
    growing.close()
    opened.wait("h1 .chip.crashed")
    assert "mage train --resume goes on" in opened.text()
    assert opened.page.evaluate("window.marked"), "the page was never loaded again"


def test_somebody_plays_three_episodes_and_sees_what_was_remembered(opened: Opened) -> None:
    opened.go("/#/play")
    opened.page.select_option("label:has-text('Opponent') select", "scripted:counter")
    opened.find("button:text-is('Start')").click()
    for episode in (1, 2, 3):
        for round_ in (1, 2, 3):
            opened.wait(f"h2:text-is('Episode {episode} of 3: your move')")
            opened.wait(f".seen:has-text('Round {round_} of 3')")
            opened.press("1")  # always rock
        if episode < 3:
            opened.wait(f"h2:text-is('Episode {episode} is over')")
            opened.find("textarea").fill("it counts what I play")
            opened.find("button:has-text('next episode')").click()
    opened.wait("h2:has-text('It is over: you scored 0, −1, −1')")
    assert opened.find(".note").first.inner_text().endswith("They play round 1: rock, round 2: rock, round 3: rock.")
    assert opened.find("td.verdict").all_inner_texts() == ["draw", "loss", "loss"]
    opened.find("a:has-text('as scripted:counter lived it')").click()
    opened.wait(".stage h2")
    assert "person" in opened.find(".versus").inner_text()
    opened.go(f"/{opened.hash().partition('?')[0].rpartition('/')[0]}/0?at=1.notes")
    assert "it counts what I play" in opened.text()


def test_a_surprise_is_told_at_the_end(opened: Opened) -> None:
    opened.go("/#/play")
    opened.page.select_option("label:has-text('World') select", "tic_tac_toe")
    opened.page.select_option("label:has-text('Episodes') select", "1")
    opened.find("button:text-is('Start')").click()
    phase = settled(opened)
    opened.troubles.clear()  # who cannot play without settings was refused, and another one asked
    assert "your opponent" in opened.text()
    while phase == "move":
        opened.find(".drawing .free").first.click()
        phase = settled(opened)
    assert phase == "over"
    assert "you played against" in opened.text()
    assert "your opponent" not in opened.find(".facts").inner_text()


def test_agents_can_be_watched(opened: Opened) -> None:
    opened.go("/#/play")
    opened.page.select_option("label:has-text('Opponent') select", "copy")
    opened.page.select_option("label:has-text('Who plays') select", "cycle")
    opened.page.select_option("label:has-text('Episodes') select", "8")
    opened.find("button:text-is('Start')").click()
    opened.wait(".picture .drawing .hand")
    opened.wait("h2:text-is('Episode 2 of 8: they play')")
    opened.find("button:has-text('Leave; finished')").click()
    opened.wait("h2:text-is('It is over')")
    assert opened.find("a:has-text('Look at the trial')").count() == 1


def test_a_wish_that_cannot_be_met_says_why(opened: Opened) -> None:
    opened.go("/#/play")
    opened.page.select_option("label:has-text('Opponent') select", "copy")
    opened.find("input[aria-label='opponent in full']").fill("copy(first=spock)")
    opened.find("button:text-is('Start')").click()
    opened.wait("form .bad:has-text('spock')")
    opened.troubles.clear()  # the browser itself complains about a 400


def test_somebody_gets_up_and_what_is_finished_is_kept(opened: Opened) -> None:
    opened.go("/#/play")
    opened.page.select_option("label:has-text('Opponent') select", "copy")
    opened.find("button:text-is('Start')").click()
    for _ in range(3):
        assert settled(opened) == "move"
        opened.find(".moves button").first.click()
    assert settled(opened) == "note"
    opened.find("button:has-text('next episode')").click()
    assert settled(opened) == "move"
    opened.press("1")
    assert settled(opened) == "move"
    opened.find("button:has-text('Leave; finished')").click()
    assert settled(opened) == "over"
    assert opened.find(".filmstrip figure").count() == 1
