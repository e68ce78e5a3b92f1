"""An exported page in a real browser, opened from disk: it shows its trials, loads nothing and runs nothing foreign."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mage.record.store import RunWriter
from mage.view.export import export_page
from tests.recorded import betting, failure, make_task, model_trial

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVIL = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'><!--"

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def browser(exported: Path) -> Iterator[Any]:
    """Launched after the page was made: from then on no other event loop may run in this thread."""
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


class Opened:
    """A page from disk, and all that it asked for or complained about."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.page = browser.new_page()
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda said: self.troubles.append(said.text) if said.type == "error" else None)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self._address = path.as_uri()
        self.go("")

    def go(self, where: str) -> None:
        """Open an address within the page, and wait until it is there."""
        self.page.goto(f"{self._address}{where}")
        self.page.wait_for_function("!document.querySelector('main').innerText.includes('Loading')")

    def text(self) -> str:
        return str(self.page.inner_text("main"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    trial = model_trial(make_task(), betting(note=EVIL, says=f"{EVIL} <action>bet</action>"))
    evil = msgspec.structs.replace(trial, agent=msgspec.structs.replace(trial.agent, name=EVIL))
    with RunWriter.create(folder / "<b>run", kind="train", config={"description": EVIL}, seed=0) as writer:
        writer.append(evil)
        writer.append(failure(EVIL))
    page = folder / "page.html"
    page.write_bytes(export_page(folder / "<b>run", trials=[0, 1]).content)
    return page


def test_a_hostile_run_is_shown_and_does_nothing(browser: Any, exported: Path) -> None:
    opened = Opened(browser, exported)
    start = f"#/runs/{opened.page.url.split('#/runs/')[1].split('/')[0]}"
    assert "<b>run" in opened.text()
    assert EVIL in opened.text(), "its description, letter by letter"
    for where in (f"{start}/trials", f"{start}/trials/0", f"{start}/trials/1"):
        opened.go(where)
        assert "window.owned" in opened.text(), where
        assert opened.page.evaluate("document.querySelectorAll('main script, main img, main b').length") == 0
    assert opened.page.evaluate("window.owned === undefined")
    assert opened.troubles == []
    assert {url.partition("#")[0] for url in opened.requests} == {exported.as_uri()}, "nothing else was asked for"


def test_a_trial_can_be_stepped_through(browser: Any, exported: Path) -> None:
    opened = Opened(browser, exported)
    start = opened.page.url.split("#")[1]
    opened.go(f"#{start}/trials/0")
    before = opened.text()
    opened.page.keyboard.press("ArrowRight")
    assert opened.text() != before
    opened.page.keyboard.press("End")
    assert "episode 3" in opened.text().lower()
    assert opened.troubles == []


def test_what_was_not_chosen_says_so(browser: Any, exported: Path) -> None:
    opened = Opened(browser, exported)
    start = opened.page.url.split("#")[1]
    opened.go(f"#{start}/trials/7")
    assert "this page is a copy, and this part was not chosen for it" in opened.text()


def test_no_script_but_its_own_may_run(browser: Any, exported: Path, tmp_path: Path) -> None:
    """Even if something got in: the policy of the page stops it."""
    broken = tmp_path / "broken.html"
    broken.write_bytes(exported.read_bytes().replace(b"</body>", b"<script>window.owned = 3</script></body>"))
    opened = Opened(browser, broken)
    assert opened.page.evaluate("window.owned === undefined")
    assert any("Content Security Policy" in trouble for trouble in opened.troubles)
