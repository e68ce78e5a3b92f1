"""The page of a league: found from the run's page, read by eye, pointer and keyboard, and safe with any text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.view_speed import Server
from mage.files import JsonLines
from tests.browser.opened import Opened
from tests.browser.scenes import EVIL
from tests.league_played import LEARNERS, write_league
from tests.viewed import write_train_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, executable: str) -> Path:
    root = tmp_path_factory.mktemp("runs")
    log = JsonLines(write_league(root / "league") / "events.jsonl")
    log.append({"step": 100, "league": EVIL, "member": EVIL, "parent": EVIL, "reason": EVIL, "changes": {EVIL: [0, 1]}})
    log.close()
    write_train_run(root / "alone")
    return root


@pytest.fixture
def address(server: Server) -> str:
    return f"/#/runs/{run_id(server, 'league')}"


def run_id(server: Server, name: str) -> str:
    return str(next(run["id"] for run in server.json("/api/runs") if run["name"] == name))


def test_only_a_run_with_a_league_leads_to_it(opened: Opened, server: Server, address: str) -> None:
    opened.go(f"/#/runs/{run_id(server, 'alone')}")
    opened.wait(".tabs a:has-text('Overview')")
    assert opened.find("a:has-text('League')").count() == 0
    opened.go(address)
    assert "learner-1 copied learner-3: 0.432 behind" in opened.text()
    opened.find("main a:text-is('League')").click()
    opened.wait("main h1:has-text('League at step 100')")
    assert "4 learners, 10 snapshots and 5 anchors" in opened.text()
    assert opened.find(".tabs a[aria-current=page]").inner_text() == "League"


def test_members_tree_and_curves_are_there(opened: Opened, address: str) -> None:
    opened.go(f"{address}/league")
    opened.wait(".tree .dot")
    assert opened.find(".tree .lane").count() == len(LEARNERS)
    assert (opened.find(".tree .dot").count(), opened.find(".tree .dot.gone").count()) == (20, 10)
    assert opened.find("tr:has-text('leads') th").inner_text().split() == ["learner-1", "leads"]
    assert opened.find(".members tbody tr").count() == 4 + 10 + 5
    opened.find("label:has-text('retired members')").click()
    assert opened.find(".members tbody tr").count() == 4 + 20 + 5
    charts = opened.find("figure.chart figcaption").all_text_contents()
    assert [name.partition(" ")[0].rstrip(":") for name in charts] == ["Rating", "Score", "NashConv", "Diversity"]
    assert opened.find("figure.chart .curve").count() == 4 + 4 + 4 + 1


def test_the_tree_is_read_with_pointer_and_keys(opened: Opened, address: str) -> None:
    opened.go(f"{address}/league")
    opened.wait(".tree .dot")
    opened.find(".tree .dot").first.hover()
    assert "snapshot of learner-" in opened.find(".tree .readout").inner_text()
    opened.find("main h1").hover()
    opened.find(".tree .plot").focus()
    read: list[str] = []
    for _ in range(23):
        opened.press("ArrowLeft")
        read.append(opened.find(".tree .readout").inner_text())
    assert "learner-3 went back to learner-3@60" in "\n".join(read)
    assert read[-1].startswith("learner-0@20: snapshot of learner-0, step 20"), "the oldest comes last"


def test_the_grid_is_read_with_pointer_and_keys(opened: Opened, address: str) -> None:
    opened.go(f"{address}/league")
    opened.find(".payoffs td.heat").first.hover()
    assert "95 % interval from" in opened.find(".payoffs .readout").inner_text()
    opened.find("main h1").hover()
    opened.find(".payoffs td[tabindex='0']").focus()
    opened.press("ArrowDown", "ArrowRight", "ArrowDown")
    said = opened.find(".payoffs .readout").inner_text()
    third = opened.find(".payoffs tbody tr").nth(2).locator("th").inner_text()
    assert said.startswith(f"{LEARNERS[1]} against {third}: ")
    assert "results, the newest of step" in said
    opened.press("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")
    assert opened.find(".payoffs .readout").inner_text().startswith(f"{LEARNERS[3]} against {third}"), "the edge holds"
    assert opened.find(".payoffs td[tabindex='0']").count() == 1


def test_events_can_be_chosen(opened: Opened, address: str) -> None:
    opened.go(f"{address}/league")
    rows = opened.find(".card:has-text('What happened') tbody tr")
    assert rows.count() == 1 + 5 + 10 + 2 + 1, "snapshots of one step share a row"
    opened.find("button:text-is('copies')").click()
    assert rows.count() == 2
    said = "\n".join(rows.all_inner_texts())
    assert "learner.lr 6.0e−4 → 0.00144" in said
    assert "0.432 behind over 15 opponents" in said


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_can_be_read_in_both_themes_fits_a_narrow_window_and_obeys_no_text(
    browser: Browser, server: Server, address: str, theme: str
) -> None:
    opened = Opened(browser, server.link, theme=theme)
    opened.go(f"{address}/league")
    opened.page.wait_for_timeout(100)
    assert EVIL in opened.text()
    assert opened.page.evaluate("window.owned") is None
    assert opened.too_faint() == []
    opened.page.set_viewport_size({"width": 360, "height": 800})
    opened.page.wait_for_timeout(50)
    assert opened.overhang() <= 0
    opened.close()
    assert opened.troubles == []
