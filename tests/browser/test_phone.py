"""A window of 420 pixels: the board in sight, words in one piece, and arrows where tables go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING

import pytest

from benchmarks.view_speed import Server
from tests.browser.opened import Opened
from tests.browser.test_pages import run_id

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow
FOLD = 800
FAMILY = "memory-one(map=[paper,scissors,rock],first=rock)"
BROKEN = """() => {
  const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const found = [];
  const range = document.createRange();
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (!node.parentElement.checkVisibility() || node.parentElement.closest("pre, code, select")) continue;
    for (const word of node.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((each) => Math.round(each.top))).size > 1) found.push(word[0]);
    }
  }
  return found;
}"""
"""Words that stand in two lines."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, learned_run: Path, played_run: Path) -> Path:
    root = tmp_path_factory.mktemp("runs")
    copytree(learned_run, root / "learned")
    copytree(played_run, root / "played")
    return root


@pytest.fixture
def phone(browser: Browser, server: Server) -> Iterator[Opened]:
    opened = Opened(browser, server.link, width=420)
    opened.resize(420, FOLD)
    yield opened
    opened.close()
    assert opened.troubles == []


def bottom(opened: Opened, selector: str) -> float:
    """Where something ends, from the top of the page."""
    box = opened.find(selector).first.bounding_box()
    assert box is not None
    return box["y"] + box["height"]


def sit_down(opened: Opened, world: str, rival: str | None, settings: str = "") -> None:
    opened.go("/#/play")
    opened.page.select_option("label:has-text('World') select", world)
    if rival is not None:
        opened.page.select_option("label:has-text('Opponent') select", rival)
    if settings:
        opened.find("input[aria-label='opponent in full']").fill(settings)
    assert opened.page.evaluate(BROKEN) == []
    opened.find("button:text-is('Start')").click()
    opened.wait(".table[data-phase=move]")


def test_the_board_of_a_trial_is_in_sight(phone: Opened, server: Server) -> None:
    for n in (0, 1, 2, 5, 6):
        phone.go(f"/#/runs/{run_id(server, 'played')}/trials/{n}")
        assert bottom(phone, ".stage .drawing") < FOLD, n
    phone.go(f"/#/runs/{run_id(server, 'learned')}/trials/1")
    assert bottom(phone, ".stage .drawing") < FOLD
    assert not phone.find("button:has-text('side by side')").is_visible()
    phone.find("button:text-is('How it is shown')").click()
    phone.find("button:has-text('side by side')").click()
    assert "layout=columns" in phone.hash()


@pytest.mark.parametrize(
    ("world", "rival", "settings"),
    [
        ("rps", "memory-one", FAMILY),
        ("rps", "scripted:counter", ""),
        ("tic_tac_toe", "uniform", ""),
        ("kuhn_poker", "uniform", ""),
        ("sokoban", None, ""),
        ("webshop", None, ""),
    ],
)
def test_one_can_play(phone: Opened, world: str, rival: str | None, settings: str) -> None:
    sit_down(phone, world, rival, settings)
    assert bottom(phone, ".table .drawing") < FOLD
    assert bottom(phone, ".moves button") < FOLD
    assert phone.overhang() <= 0
    assert phone.page.evaluate(BROKEN) == []
    assert "…" not in (phone.find(".drawing").first.text_content() or ""), "names are in one piece"


def test_the_end_says_in_words_against_which_opponent_one_played(phone: Opened) -> None:
    sit_down(phone, "rps", "memory-one", FAMILY)
    phone.find("button:has-text('Leave')").click()
    phone.wait(".table[data-phase=over]")
    assert "Begins with rock; then it follows the other's last move" in phone.text()


def test_a_table_that_goes_on_beside_the_window_says_so(phone: Opened, opened: Opened) -> None:
    phone.go("/#/runs")
    frame = phone.find(".scroller")
    assert frame.get_attribute("class") == "scroller more-right"
    arrow = "each => getComputedStyle(each, '::after').content"
    assert "→" in str(frame.evaluate(arrow))
    inner = phone.find(".scroller > .scroll")
    assert inner.get_attribute("tabindex") == "0"
    inner.evaluate("each => { each.scrollLeft = 9999; }")
    phone.wait(".scroller.more-left:not(.more-right)")
    opened.go("/#/runs")
    assert opened.find(".scroller").get_attribute("class") == "scroller"
