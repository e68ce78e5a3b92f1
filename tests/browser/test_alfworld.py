"""ALFWorld in a browser: a task is done by clicks on receptacles and things, and a recorded trial is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.view_speed import Server
from tests.browser.opened import Opened
from tests.browser.scenes import housed
from tests.browser.test_live import settled
from tests.browser.test_solo import identity, start
from tests.viewed import write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, executable: str) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "housed", [housed()], world="alfworld")
    return root


def test_a_task_is_done_by_clicks(opened: Opened) -> None:
    start(opened, "alfworld", "bedroom-9:pick:3")
    assert settled(opened) == "move"
    assert "Task: put a pencil in dresser." in opened.text()
    assert opened.find(".house-place:has-text('?')").count() == 17
    for name in ("drawer 4 (closed)", "drawer 4 (closed)", "pencil 1", "dresser 1"):
        opened.find(f".drawing button:text-is('{name}')").click()
        assert settled(opened) == "move"
    opened.find(".drawing button:text-is('dresser 1')").click()
    assert settled(opened) == "note"
    assert "The task is done: +1." in opened.text()


def test_a_recorded_trial_is_drawn_as_far_as_it_was_seen(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{identity(server, 'housed')}/trials/0?at=0.1")
    places = opened.find(".house-place").count()
    assert 6 <= places <= 20
    assert opened.find(".house-place.chosen").count() >= 1
    opened.go(f"/#/runs/{identity(server, 'housed')}/trials/0?at=2.end")
    assert opened.find(".house-place:has-text('?')").count() < places
    assert opened.too_faint() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_a_room_fits_the_page(opened: Opened, server: Server, width: int) -> None:
    opened.resize(width, 900)
    opened.go(f"/#/runs/{identity(server, 'housed')}/trials/0?at=0.1")
    opened.wait(".house-place")
    assert opened.overhang() <= 0
