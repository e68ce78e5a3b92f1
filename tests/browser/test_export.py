"""An export, opened from disk: the same pages, without a server and without a network."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

from tests.browser.opened import Opened
from tests.browser.scenes import run_mage


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, learned_run: Path) -> Path:
    root = tmp_path_factory.mktemp("runs")
    copytree(learned_run, root / "learned")
    return root


@pytest.fixture(scope="module")
def exported(runs: Path) -> Path:
    page = runs.parent / "page.html"
    run_mage("export", runs / "learned", "-o", page)
    return page


def test_a_copy_opens_at_its_run_and_shows_its_curves(copy: Opened) -> None:
    copy.wait(".chart .curve")
    assert copy.find(".chart text.bound").count() == 2
    assert copy.find("nav a:has-text('Play')").count() == 0
    assert "exported" in copy.page.inner_text("footer")


def test_its_trials_can_be_stepped_through_and_linked_to(copy: Opened) -> None:
    copy.find(".tabs a:has-text('Trials')").click()
    copy.find("td a").first.click()
    copy.wait(".stage h2")
    copy.press("ArrowRight", "ArrowRight")
    assert copy.find(".stage h2").inner_text() == "Episode 1 of 3, move 3 of 6"
    copy.go(copy.hash())
    assert copy.find(".stage h2").inner_text() == "Episode 1 of 3, move 3 of 6"


def test_before_and_after_and_the_evaluation_are_in_it(copy: Opened) -> None:
    copy.find(".tabs a:has-text('Before and after')").click()
    copy.wait(".side .stage h2")
    copy.find(".tabs a:has-text('Evaluation')").click()
    copy.wait(".chart .band")
    assert "rps-constants" in copy.text()
