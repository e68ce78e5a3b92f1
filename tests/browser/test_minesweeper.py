"""MineSweeper in a browser: a board is opened by clicks on its picture, and at the end all mines are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.view_speed import Server
from tests.browser.opened import Opened
from tests.browser.scenes import swept
from tests.browser.test_live import settled
from tests.browser.test_solo import identity, start
from tests.viewed import write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, executable: str) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "swept", [swept()], world="minesweeper")
    return root


def test_a_board_is_cleared_by_clicks(opened: Opened) -> None:
    start(opened, "minesweeper", "6x6:a1:b2,e5,f6")
    assert settled(opened) == "move"
    assert opened.find(".drawing .cell.open").count() == 1
    opened.find(".drawing .free").nth(4).click()  # f1, a 0
    assert settled(opened) == "move"
    assert "Turns left: 6." in opened.text()
    for cell in ("b1", "a2", "f5", "e6"):
        assert opened.find(".drawing .cell.open").count() < 33
        opened.find(f"[data-action='{cell}']").click()
        settled(opened)
    assert "All safe cells are open: +1." in opened.text()


def test_the_end_shows_every_mine(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{identity(server, 'swept')}/trials/0?at=1.end")
    assert opened.find(".drawing text.count:text-is('✹')").count() == 3
    assert opened.find(".drawing .cell.hit").count() <= 1
