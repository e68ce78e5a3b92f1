"""The printed link lets a browser in, wherever it is followed; what takes long can be cancelled there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from benchmarks.view_speed import Server
from tests.browser.opened import Opened
from tests.viewed import some_trials, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, executable: str) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "run", some_trials())
    return root


@pytest.fixture
def elsewhere(server: Server, tmp_path: Path) -> Iterator[str]:
    """A page of another site that has the printed link, as a terminal in a browser does."""
    (tmp_path / "index.html").write_text(f'<a href="{server.link}#/help/method">open</a>', encoding="utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path))) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        yield f"http://localhost:{other.server_port}/index.html"
        other.shutdown()


def test_the_link_works_from_another_site_and_the_token_leaves_the_address(
    browser: Browser, server: Server, elsewhere: str
) -> None:
    opened = Opened(browser, server.url)
    opened.page.goto(elsewhere)
    opened.find("a").click()
    opened.wait("article h1")
    assert opened.page.url == f"{server.url}/#/help/method"
    opened.go("/#/runs")
    assert opened.find("tbody tr").count() == 1
    opened.close()


def test_without_the_token_the_browser_is_told_what_to_open(browser: Browser, server: Server) -> None:
    opened = Opened(browser, server.url)
    answer = opened.page.goto(server.url)
    assert answer is not None
    assert answer.status == 403
    assert "open the address that mage view printed" in opened.page.inner_text("body")
    opened.close()


def test_a_player_that_loads_for_long_is_shown_and_can_be_cancelled(opened: Opened) -> None:
    opened.go("/#/play")
    opened.page.select_option("label:has-text('World') select", "kuhn_poker")
    opened.page.select_option("label:has-text('Opponent') select", "cfr")
    opened.find("input[aria-label='opponent in full']").fill("cfr(iterations=500000)")
    opened.find("button:text-is('Start')").click()
    opened.wait(".table[data-phase=loading] .spinner")
    opened.find("button:text-is('Cancel')").click()
    opened.wait("button:text-is('Start')")
    assert opened.hash() == "#/play"


def test_a_search_without_end_can_be_left(opened: Opened) -> None:
    opened.go("/#/play")
    opened.page.select_option("label:has-text('World') select", "tic_tac_toe")
    opened.page.select_option("label:has-text('Opponent') select", "mcts")
    opened.find("input[aria-label='world in full']").fill("connect_four")  # tic-tac-toe is solved in seconds
    opened.find("input[aria-label='opponent in full']").fill("mcts:99999999")
    opened.find("button:text-is('Start')").click()
    opened.wait(".table[data-phase=move]")
    opened.press("4")
    opened.wait(".table[data-phase=thinking] .spinner")
    opened.find("button:has-text('Leave')").click()
    opened.wait(".table[data-phase=over]")
    assert "It is over" in opened.text()
