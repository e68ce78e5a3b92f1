"""Searches and solvers that would take for ever: they hold up no other request and can be left."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from mage.opponents.agent_seat import seat_agent
from mage.rollout.trial import play_trial
from mage.types import Task
from mage.view.play import seat_process
from mage.view.play.seats import Models
from mage.view.read.bounds import Bounds
from mage.view.read.folder import Folder
from mage.worlds.registry import load_world
from tests.viewed import Viewer, some_trials, write_run

ENDLESS = "mcts:99999999"
"""Hours of search for each move, where the game cannot be solved: tic-tac-toe is, in seconds."""
PATIENCE_S = 120.0
State = dict[str, Any]


@pytest.fixture
def viewer(tmp_path: Path) -> Iterator[Viewer]:
    viewer = Viewer(tmp_path / "runs")
    with viewer.client:
        yield viewer


def until(is_so: Callable[[], Any]) -> Any:
    """What a question answers once that is true."""
    end = time.monotonic() + PATIENCE_S
    while not (found := is_so()) and time.monotonic() < end:
        time.sleep(0.02)
    assert found
    return found


def state_of(viewer: Viewer, state: State) -> State:
    found: State = viewer.get(f"/api/play/{state['session']}")
    return found


def has_phase(viewer: Viewer, state: State, *phases: str) -> State:
    """The session once it is in one of these phases."""
    found: State = until(lambda: (now := state_of(viewer, state))["phase"] in phases and now)
    return found


def searches() -> list[int]:
    """The processes of players that this process has started, as Linux tells it."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command, stat = (path / "cmdline").read_text(), (path / "stat").read_text()
        except OSError:
            continue
        if seat_process.__name__ in command and int(stat.rpartition(")")[2].split()[1]) == os.getpid():
            found.append(int(path.name))
    return found


def test_a_search_without_end_holds_up_no_other_session_and_can_be_left(viewer: Viewer) -> None:
    endless = viewer.post("/api/play", world="connect_four", opponent=ENDLESS, episodes=2)
    endless = has_phase(viewer, endless, "move")
    assert len(searches()) == 1
    has_phase(viewer, viewer.post(f"/api/play/{endless['session']}/move", action="x3"), "thinking")
    other = viewer.post("/api/play", world="rps(rounds=1)", opponent="copy", episodes=1)
    other = has_phase(viewer, other, "move")
    has_phase(viewer, viewer.post(f"/api/play/{other['session']}/move", action="rock"), "over")
    assert state_of(viewer, endless)["phase"] == "thinking"
    left = has_phase(viewer, viewer.post(f"/api/play/{endless['session']}/leave"), "over")
    assert (left["error"], left["saved"]) == (None, None)
    until(lambda: searches() == [])


def test_finished_episodes_are_kept_where_a_search_is_left(viewer: Viewer) -> None:
    asked: dict[str, Any] = {
        "world": "connect_four",
        "player": f"switch(uniform,{ENDLESS},at=1)",
        "opponent": "uniform",
    }
    watched = viewer.post("/api/play", **asked, pace_s=0, seed=1)
    until(lambda: state_of(viewer, watched)["episode"] == 1)
    left = has_phase(viewer, viewer.post(f"/api/play/{watched['session']}/leave"), "over")
    assert (left["error"], len(left["results"])) == (None, 1)
    assert left["saved"]["trials"] == {"0": 0}


def test_a_solver_that_takes_long_is_made_while_the_session_loads_and_can_be_left(viewer: Viewer) -> None:
    state = viewer.post("/api/play", world="leduc_poker", opponent="cfr(iterations=3000)")  # minutes
    assert state["phase"] == "loading"
    until(searches)
    assert state_of(viewer, state)["phase"] == "loading"
    left = has_phase(viewer, viewer.post(f"/api/play/{state['session']}/leave"), "over")
    assert left["saved"] is None
    until(lambda: searches() == [])


def test_what_a_solver_refuses_is_one_line_and_ends_its_process(viewer: Viewer) -> None:
    assert "missing 'opponent'" in viewer.refusal("/api/play", world="rps", opponent="best-response")
    asked = viewer.post("/api/play", world="leduc_poker", opponent="cfr(iterations=9999)")
    state = has_phase(viewer, asked, "failed")
    assert state["error"].startswith("leduc_poker is too large for cfr(9999)")
    assert "\n" not in state["error"]
    until(lambda: searches() == [])


def test_a_player_in_a_process_plays_as_it_does_in_ours(viewer: Viewer) -> None:
    asked: dict[str, Any] = {"player": "minimax", "opponent": "mcts:20", "pace_s": 0, "seed": 4, "episodes": 2}
    state = has_phase(viewer, viewer.post("/api/play", world="tic_tac_toe", **asked), "over", "failed")
    world, task = load_world("tic_tac_toe"), Task("tic_tac_toe", ("mcts(20)",), 0, 4, 2, False, False, 1000)
    ours = asyncio.run(play_trial(world, task, 0, lambda task, _: seat_agent(world, "minimax", task)))
    turns = [turn for episode in ours.episodes for turn in episode.turns]
    assert state["error"] is None
    assert [turn["action"] for turn in state["turns"]] == [turn.action for turn in turns]


def test_a_player_of_a_world_with_one_seat_is_watched_from_a_process(viewer: Viewer) -> None:
    asked: dict[str, Any] = {"world": "sokoban", "player": "learns-from-failure", "pace_s": 0, "seed": 2}
    state = has_phase(viewer, viewer.post("/api/play", **asked), "over", "failed")
    assert (state["error"], len(state["results"])) == (None, 3)


def test_a_model_that_loads_for_ever_can_be_cancelled(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Event()
    monkeypatch.setattr(Models, "_load", lambda *_: loaded.wait(PATIENCE_S))
    state = viewer.post("/api/play", world="rps", opponent="scripted:counter")
    assert state_of(viewer, state)["phase"] == "loading"
    other = viewer.post("/api/play", world="rps(rounds=1)", opponent="copy", episodes=1)
    has_phase(viewer, other, "move")
    left = has_phase(viewer, viewer.post(f"/api/play/{state['session']}/leave"), "over")
    assert (left["error"], left["saved"]) == (None, None)
    loaded.set()


def test_exact_values_that_take_too_long_are_given_up_and_others_follow(tmp_path: Path) -> None:
    write_run(tmp_path / "run", some_trials())
    (place,) = Folder(tmp_path).places()
    bounds = Bounds(limit_s=8)

    def asked(split: str, episodes: int) -> Mapping[str, Any]:
        return bounds.of(place, {"population": {"split": split}, "trial": {"seats": [0], "episodes": episodes}})

    assert asked("rps-trained", 400) == {}
    found = until(lambda: asked("rps-constants", 3))
    assert found["rps-constants"]["memoryless"] == pytest.approx(2 / 3)
    assert asked("rps-trained", 400) == {}, "it is not asked again"
    assert bounds._process is None
