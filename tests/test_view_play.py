"""Games in the browser: a person sees what the seat may see, and everybody's trial is saved."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mage
from benchmarks.view_speed import has_torch
from mage.runs.store import RunReader
from mage.types import Memory, Trial
from mage.view.play.session import MAX_NOTE
from tests.test_docs import MODEL
from tests.viewed import Viewer, some_trials, write_run

State = dict[str, Any]
PATIENCE_S = 60.0


@pytest.fixture
def viewer(tmp_path: Path) -> Iterator[Viewer]:
    viewer = Viewer(tmp_path / "runs")
    with viewer.client:
        yield viewer


def first(actions: list[str]) -> str:
    return actions[0]


def waited(viewer: Viewer, state: State) -> State:
    """The game once it waits for the person, or has ended."""
    until = time.monotonic() + PATIENCE_S
    while state["phase"] in ("loading", "thinking") and time.monotonic() < until:
        time.sleep(0.01)
        state = viewer.get(f"/api/play/{state['session']}")
    return state


def played(
    viewer: Viewer,
    choose: Callable[[list[str]], str] = first,
    note: str = "",
    look: Callable[[State], object] = id,
    **asked: Any,
) -> State:
    """Play a whole game; `look` sees every state on the way."""
    state = waited(viewer, viewer.post("/api/play", **asked))
    while state["phase"] not in ("over", "failed"):
        look(state)
        at = f"/api/play/{state['session']}"
        if state["phase"] == "move":
            state = viewer.post(f"{at}/move", action=choose(state["observation"]["actions"]))
        else:
            state = viewer.post(f"{at}/note", text=note)
        state = waited(viewer, state)
    return state


def saved(viewer: Viewer, state: State, seat: int) -> Trial:
    """The trial of a seat as it is on file."""
    name = viewer.get(f"/api/runs/{state['saved']['run']}")["name"]
    found = RunReader(viewer.root / name).trial(state["saved"]["trials"][str(seat)])
    assert isinstance(found, Trial)
    return found


def test_a_person_plays_three_episodes_against_a_script(viewer: Viewer) -> None:
    state = played(viewer, note=" They copy me. ", world="rps", opponent="copy", seed=3)
    assert (state["phase"], state["error"], state["names"], state["seat"]) == ("over", None, ["person", "copy"], 0)
    trial = saved(viewer, state, 0)
    assert (trial.agent.name, trial.agent.memory) == ("person", Memory.BOTH)
    assert (trial.task.world, trial.task.opponents, trial.task.seed) == ("rps", ("copy",), 3)
    assert [note.action for note in trial.reflections] == ["They copy me."] * 2
    assert [list(e.result.returns) for e in trial.episodes] == [r["returns"] for r in state["results"]]
    assert len(trial.episodes) == 3
    (run,) = viewer.get("/api/runs")
    assert (run["kind"], run["status"], run["trials"]) == ("play", "finished", 1)
    assert run["id"] == state["saved"]["run"]
    assert viewer.get(f"/api/runs/{run['id']}/trials/0")["names"] == ["person", "copy"]


def test_the_same_seed_and_moves_are_the_same_game(viewer: Viewer) -> None:
    one, two = (played(viewer, world="kuhn_poker", opponent="uniform", seat=1, seed=8) for _ in range(2))
    assert one["turns"] == two["turns"]
    assert one["results"] == two["results"]


def test_a_seed_longer_than_a_browsers_numbers_can_be_given(viewer: Viewer) -> None:
    state = played(viewer, world="rps(rounds=1)", opponent="uniform", episodes=1, seed=str(2**62 + 1))
    assert saved(viewer, state, 0).task.seed == 2**62 + 1


def test_a_person_never_sees_what_the_seat_may_not_know(viewer: Viewer) -> None:
    states: list[State] = []
    played(viewer, look=states.append, world="kuhn_poker", opponent="uniform", seat=1, seed=5, episodes=4)
    assert {state["phase"] for state in states} == {"move", "note"}
    for state in states:
        assert {turn["seat"] for turn in state["turns"]} <= {1}
        assert all(result["facts"] is None for result in state["results"])
        assert state["wrote"] == []
        shown = json.dumps([state["observation"], state["turns"], state["results"], state["outcome"]])
        assert '"cards"' not in shown
    assert any("Shown" in str(state["outcome"]) for state in states), "what the rules reveal is told"


def test_all_is_shown_when_it_is_over(viewer: Viewer) -> None:
    state = played(viewer, world="kuhn_poker", opponent="scripted:first", seat=1, seed=5, note="hm")
    assert {turn["seat"] for turn in state["turns"]} == {0, 1}
    assert all("cards" in result["facts"] for result in state["results"])
    assert {note["name"] for note in state["wrote"]} == {"person", "scripted:first"}


def test_a_model_remembers_the_person_and_both_trials_are_saved(viewer: Viewer) -> None:
    seen: list[State] = []
    asked: dict[str, Any] = {"world": "rps", "opponent": "scripted:counter", "seat": 1, "seed": 2}
    state = played(viewer, look=seen.append, **asked)
    assert all(not earlier["wrote"] for earlier in seen)
    notes = [note for note in state["wrote"] if note["seat"] == 0]
    assert [note["episode"] for note in notes] == [0, 1]
    assert "round 1: rock" in notes[0]["text"]
    model, person = saved(viewer, state, 0), saved(viewer, state, 1)
    assert model.episodes == person.episodes
    assert (model.agent.name, model.task.opponents, model.task.seat) == ("scripted:counter", ("person",), 0)
    assert (person.agent.name, person.task.opponents, person.task.seat) == ("person", ("scripted:counter",), 1)
    assert [note.action for note in model.reflections] == [note["text"] for note in notes]
    assert len(model.streams) == 1
    assert person.streams == ()
    drawn = viewer.get(f"/api/runs/{state['saved']['run']}/trials/0")
    assert "They play round 1: rock" in drawn["memory"][0]["added"]


def test_agents_are_watched_move_by_move(viewer: Viewer) -> None:
    asked: dict[str, Any] = {
        "world": "tic_tac_toe",
        "player": "minimax",
        "opponent": "uniform",
        "episodes": 2,
        "pace_s": 0.05,
    }
    state = viewer.post("/api/play", **asked)
    assert state["seat"] is None
    versions, numbers = {state["version"]}, set()
    while state["phase"] != "over":
        assert state["phase"] in ("loading", "thinking")
        state = viewer.get(f"/api/play/{state['session']}")
        versions.add(state["version"])
        numbers.add(len(state["turns"]))
        time.sleep(0.01)
    assert len(numbers) > 2, "the moves came one after the other"
    assert len(versions) > 5
    assert {turn["seat"] for turn in state["turns"]} == {0, 1}
    assert all(result["facts"]["board"] for result in state["results"])
    trial = saved(viewer, state, 0)
    assert (trial.agent.name, len(trial.episodes)) == ("minimax", 2)
    assert state["saved"]["trials"] == {"0": 0}


def test_games_with_more_seats_take_one_opponent_or_one_for_each(viewer: Viewer) -> None:
    game: dict[str, Any] = {"world": "kuhn_poker(players=3)", "seat": 1, "episodes": 1}
    assert played(viewer, opponent="uniform", **game)["names"] == ["uniform", "person", "uniform"]
    state = played(viewer, opponent=["always:bet", "uniform"], **game)
    assert state["names"] == ["always(bet)", "person", "uniform"]
    assert "takes 1 opponent for all other seats or 2" in viewer.refusal("/api/play", opponent=["uniform"] * 3, **game)


def test_a_game_without_words_of_its_own_is_played_too(viewer: Viewer) -> None:
    state = played(viewer, world="connect_four", opponent="uniform", episodes=1, seed=1)
    assert state["phase"] == "over"
    assert saved(viewer, state, 0).task.world == "connect_four"


def test_whoever_leaves_keeps_what_is_finished(viewer: Viewer, tmp_path: Path) -> None:
    state = waited(viewer, viewer.post("/api/play", world="rps(rounds=1)", opponent="copy", episodes=5))
    at = f"/api/play/{state['session']}"
    assert viewer.post(f"{at}/leave")["saved"] is None, "no episode is finished"
    assert not (tmp_path / "runs").exists()
    state = waited(viewer, viewer.post("/api/play", world="rps(rounds=1)", opponent="copy", episodes=5))
    at = f"/api/play/{state['session']}"
    state = waited(viewer, viewer.post(f"{at}/move", action="rock"))
    assert state["phase"] == "note"
    state = viewer.post(f"{at}/leave")
    assert (state["phase"], state["error"]) == ("over", None)
    assert len(saved(viewer, state, 0).episodes) == 1
    assert viewer.post(f"{at}/leave") == state, "leaving twice changes nothing"


def test_whoever_watches_can_leave_as_well(viewer: Viewer) -> None:
    asked: dict[str, Any] = {"world": "tic_tac_toe", "player": "uniform", "opponent": "uniform", "pace_s": 0.2}
    state = viewer.post("/api/play", **asked)
    state = viewer.post(f"/api/play/{state['session']}/leave")
    assert (state["phase"], state["saved"]) == ("over", None)


def test_what_is_played_is_saved_when_the_server_ends(tmp_path: Path) -> None:
    viewer = Viewer(tmp_path)
    with viewer.client:
        state = waited(viewer, viewer.post("/api/play", world="rps(rounds=1)", opponent="copy", episodes=3))
        waited(viewer, viewer.post(f"/api/play/{state['session']}/move", action="paper"))
    (run,) = Viewer(tmp_path).get("/api/runs")
    assert (run["kind"], run["trials"]) == ("play", 1)


def test_a_game_beside_a_run_goes_into_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", some_trials())
    viewer = Viewer(run)
    with viewer.client:
        state = played(viewer, world="rps(rounds=1)", opponent="copy", episodes=1)
    found = {card["name"]: card for card in viewer.get("/api/runs")}
    assert f"plays/{state['saved']['name']}" in found
    assert found[f"plays/{state['saved']['name']}"]["parent"] == found["run"]["id"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "name a world"),
        ({"world": "nothing"}, "unknown world 'nothing'"),
        ({"world": "rps(rounds=0)", "opponent": "copy"}, "rounds"),
        ({"world": "rps"}, "name who plays"),
        ({"world": "rps", "opponent": "nobody"}, "unknown opponent 'nobody'; known: "),
        ({"world": "rps", "opponent": "minimax"}, "cannot play rps"),
        ({"world": "rps", "opponent": 3}, "name who plays"),
        ({"world": "rps", "opponent": "person"}, "one person can play"),
        ({"world": "rps", "opponent": "copy", "seat": 2}, "seat = '2': give a whole number from 0 to 1"),
        ({"world": "rps", "opponent": "copy", "episodes": 0}, "episodes = '0'"),
        ({"world": "rps", "opponent": "copy", "episodes": True}, "episodes = 'True'"),
        ({"world": "rps", "opponent": "copy", "seed": -1}, "seed = '-1'"),
        ({"world": "rps", "opponent": "copy", "pace_s": 1e9}, "pace_s"),
        ({"world": "rps", "opponent": "copy", "speed": 1}, "unknown speed; known: episodes, level, opponent"),
        ({"world": "rps", "opponent": "scripted:nobody"}, "unknown scripted model"),
        (
            {"world": "tic_tac_toe", "opponent": "scripted:counter"},
            "scripted:counter cannot play tic_tac_toe; it plays",
        ),
        ({"world": "rps", "opponent": "checkpoint:abc/1"}, "there is no run 'abc'"),
        ({"world": "rps", "opponent": "checkpoint:../../etc/1"}, "there is no run"),
        ({"world": "rps", "opponent": "remote(url=http://x.example/v1,model=m)"}, "remote model"),
        ({"world": "rps", "opponent": "remote:http://x.example/v1#m"}, "remote model"),
        ({"world": "rps", "opponent": "switch(copy,remote(url=http://x.example,model=m),at=1)"}, "remote model"),
        ({"world": "rps", "opponent": 'mixture(copy,"remote(url=http://x.example,model=m)")'}, "remote model"),
        ({"world": "rps", "opponent": "copy", "player": "remote(url=http://x.example,model=m)"}, "remote model"),
        ({"world": "rps", "opponent": "bayes-optimal(pool=/etc/hostname)"}, "unknown opponent"),
        ({"world": "rps", "opponent": "/etc"}, "unknown opponent"),
        ({"world": 'efg_game(filename="/etc/hostname")', "opponent": "uniform"}, "takes no parameters here"),
    ],
)
def test_what_cannot_be_played_is_refused_with_one_line(viewer: Viewer, asked: dict[str, Any], says: str) -> None:
    assert says in viewer.refusal("/api/play", **asked)


def test_moves_and_notes_must_be_asked_for(viewer: Viewer) -> None:
    state = waited(viewer, viewer.post("/api/play", world="rps(rounds=1)", opponent="copy", episodes=2))
    at = f"/api/play/{state['session']}"
    assert "'lizard' is not one of the moves: rock, paper, scissors" in viewer.refusal(f"{at}/move", action="lizard")
    assert "not one of the moves" in viewer.refusal(f"{at}/move", action=["rock"])
    assert "between two episodes" in viewer.refusal(f"{at}/note", text="x")
    waited(viewer, viewer.post(f"{at}/move", action="rock"))
    assert "not your move" in viewer.refusal(f"{at}/move", action="rock")
    assert "characters at most" in viewer.refusal(f"{at}/note", text="x" * (MAX_NOTE + 1))
    assert "characters at most" in viewer.refusal(f"{at}/note", text=None)
    assert "no such session" in viewer.refusal("/api/play/other/move", action="rock")
    assert "no such session" in viewer.error("/api/play/other", 404)
    assert "no such session" in viewer.error("/api/live?session=other", 404)


def test_only_so_many_games_are_open_at_once(viewer: Viewer) -> None:
    for _ in range(16):
        last = viewer.post("/api/play", world="rps", opponent="copy")
    assert "16 sessions are open" in viewer.refusal("/api/play", world="rps", opponent="copy")
    viewer.post(f"/api/play/{waited(viewer, last)['session']}/leave")
    viewer.post("/api/play", world="rps", opponent="copy")


def test_the_choices_are_games_opponents_and_checkpoints(viewer: Viewer) -> None:
    found = viewer.get("/api/choices")
    games = {game["spec"]: game for game in found["games"]}
    assert (games["rps"]["seats"], games["kuhn_poker"]["seats"]) == (2, 2)
    opponents = {entry["spec"]: entry for entry in found["opponents"]}
    assert "remote" not in opponents
    assert opponents["minimax"]["fits"] == ["tic_tac_toe"]
    assert set(games) <= set(opponents["uniform"]["fits"])
    assert set(games) <= set(opponents["scripted:first"]["fits"])
    assert opponents["scripted:counter"]["fits"] == opponents["copy"]["fits"], "it counts rounds"
    assert found["checkpoints"] == []
    assert "connect_four" in found["other_games"]


def test_a_checkpoint_plays_a_person_and_another_checkpoint(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    settings: dict[str, object] = {
        "steps": 2,
        "agent.model": MODEL,
        "agent.context": 512,
        "batch.groups": 2,
        "batch.size": 2,
    }
    more: dict[str, object] = {
        "checkpoint.every": 1,
        "evaluation.splits": [],
        "agent.memory": "both",
        "agent.reflection_tokens": 4,
    }
    mage.train("rps", {**settings, **more}, folder=root / "rps", quiet=True)
    assert has_torch(os.getpid()), "whoever looks for it finds it where it is"
    viewer = Viewer(root)
    with viewer.client:
        listed = viewer.get("/api/choices")["checkpoints"]
        assert [(entry["name"], entry["step"], entry["world"]) for entry in listed] == [
            ("rps", 2, "rps(rounds=3)"),
            ("rps", 1, "rps(rounds=3)"),
        ]
        state = played(viewer, world="rps(rounds=3)", opponent=listed[0]["spec"], seed=1)
        assert (state["error"], state["names"]) == (None, ["person", "rps/step-000002"])
        model = saved(viewer, state, 1)
        assert [call.completion.version for call in model.episodes[0].turns[1].calls] == [2]
        assert len(model.reflections) == 2
        drawn = viewer.get(f"/api/runs/{state['saved']['run']}/trials/1")
        written = [t["calls"][0]["tokens"][0]["text"] for t in drawn["episodes"][0]["turns"] if t["seat"] == 1]
        assert set(written) <= {"rock", "paper", "scissors"}
        assert "Episode 1 is over" in drawn["memory"][0]["added"]
        both: dict[str, Any] = {"player": listed[1]["spec"], "opponent": listed[0]["spec"], "pace_s": 0, "episodes": 2}
        state = waited(viewer, viewer.post("/api/play", world="rps(rounds=3)", **both))
        assert state["names"] == ["rps/step-000001", "rps/step-000002"]
        trials = [saved(viewer, state, seat) for seat in (0, 1)]
        assert [trial.episodes[0].turns[seat].calls[0].completion.version for seat, trial in enumerate(trials)] == [
            1,
            2,
        ]


def test_a_model_that_cannot_be_loaded_ends_the_game_with_one_line(viewer: Viewer, tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "train", some_trials(), "train")
    folder = run / "checkpoints" / "step-000001"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}")
    (listed,) = viewer.get("/api/choices")["checkpoints"]
    state = waited(viewer, viewer.post("/api/play", world="rps", opponent=listed["spec"]))
    assert (state["phase"], state["saved"]) == ("failed", None)
    assert state["error"]
    assert "\n" not in state["error"]
