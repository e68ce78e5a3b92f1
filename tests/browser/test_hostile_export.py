"""An export of a hostile run, opened from disk: it shows what was chosen, loads nothing and runs nothing foreign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from mage.view.export import export_page
from tests.browser.opened import Opened
from tests.browser.scenes import EVIL
from tests.recorded import betting, failure, make_task, model_trial
from tests.viewed import write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, executable: str) -> Path:
    root = tmp_path_factory.mktemp("runs")
    trial = model_trial(make_task(), betting(note=EVIL, says=f"{EVIL} <action>bet</action>"))
    evil = msgspec.structs.replace(trial, agent=msgspec.structs.replace(trial.agent, name=EVIL))
    write_run(root / "<b>run", [evil, failure(EVIL)], kind="train", description=EVIL)
    return root


@pytest.fixture(scope="module")
def exported(runs: Path) -> Path:
    page = runs.parent / "hostile.html"
    page.write_bytes(export_page(runs / "<b>run", trials=[0, 1]).content)
    return page


def test_a_hostile_run_is_shown_and_does_nothing(copy: Opened) -> None:
    start = copy.hash()
    assert "<b>run" in copy.text()
    assert EVIL in copy.text(), "its description, letter by letter"
    for where in (f"{start}/trials", f"{start}/trials/0", f"{start}/trials/1"):
        copy.go(where)
        assert "window.owned" in copy.text(), where
        assert copy.page.evaluate("document.querySelectorAll('main script, main img, main b').length") == 0
    assert copy.page.evaluate("window.owned === undefined")


def test_a_hostile_trial_can_be_stepped_through(copy: Opened) -> None:
    copy.go(f"{copy.hash()}/trials/0")
    before = copy.text()
    copy.press("ArrowRight")
    assert copy.text() != before
    copy.press("End")
    assert copy.find(".stage h2").inner_text().startswith("Episode 3 of 3")


def test_what_was_not_chosen_says_so(copy: Opened) -> None:
    copy.go(f"{copy.hash()}/trials/7")
    assert "this page is a copy, and this part was not chosen for it" in copy.text()


def test_no_script_but_its_own_may_run(browser: Browser, exported: Path, tmp_path: Path) -> None:
    """Even if something got in: the policy of the page stops it."""
    broken = tmp_path / "broken.html"
    broken.write_bytes(exported.read_bytes().replace(b"</body>", b"<script>window.owned = 3</script></body>"))
    opened = Opened(browser, broken.as_uri())
    opened.go("")
    assert opened.page.evaluate("window.owned === undefined")
    assert any("Content Security Policy" in trouble for trouble in opened.troubles)
    opened.close()
