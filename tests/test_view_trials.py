"""What the viewer answers about trials: thin lists first, then every turn, what was remembered and what it earned."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import mage
from mage.runs.credit import CREDIT, CallCredit, Credit, TurnCredit
from mage.runs.store import RunReader, RunWriter
from mage.types import Memory, Phase, Trial
from tests.recorded import betting, guest_trial, make_task, model_trial, with_version
from tests.tiny import MODEL
from tests.viewed import Viewer, some_trials, write_lines, write_run


@pytest.fixture
def viewer(tmp_path: Path) -> Viewer:
    return Viewer(tmp_path)


def test_trials_are_paged_and_filtered(tmp_path: Path, viewer: Viewer) -> None:
    write_run(tmp_path / "run", some_trials())
    everything = viewer.run("run", "/trials")
    assert everything["total"] == 4
    assert [row["number"] for row in everything["rows"]] == [0, 1, 2, 3]
    assert (everything["seats"], everything["opponents"]) == ([0, 1], ["uniform"])
    assert everything["rows"][3]["error"] == "PlayError: it broke"
    assert "offset" not in everything["rows"][0]
    assert isinstance(everything["rows"][0]["seed"], str)
    assert [row["number"] for row in viewer.run("run", "/trials?offset=1&limit=2")["rows"]] == [1, 2]
    assert [row["number"] for row in viewer.run("run", "/trials?seat=1")["rows"]] == [1]
    assert viewer.run("run", "/trials?opponent=UNIF")["total"] == 4
    assert viewer.run("run", "/trials?opponent=nobody") == everything | {"total": 0, "rows": []}


def test_many_different_opponents_are_offered_by_family(tmp_path: Path, viewer: Viewer) -> None:
    trial = guest_trial(make_task())
    tasks = [make_task(opponents=(f"behaviour(seed={n})",)) for n in range(300)]
    write_run(tmp_path / "run", [msgspec.structs.replace(trial, task=task) for task in tasks])
    found = viewer.run("run", "/trials?opponent=behaviour&limit=1")
    assert (found["opponents"], found["total"]) == (["behaviour"], 300)


def test_trials_of_an_evaluation_tell_split_and_arm(tmp_path: Path, viewer: Viewer) -> None:
    path = write_run(tmp_path / "run", some_trials(), "evaluate")
    arms = [("a", "agent"), ("a", "control"), ("b", "agent"), ("b", "control")]
    write_lines(path / "arms.jsonl", [{"split": s, "arm": a, "elapsed_s": 0.1} for s, a in arms])
    found = viewer.run("run", "/trials?arm=agent")
    assert [(row["number"], row["split"]) for row in found["rows"]] == [(0, "a"), (2, "b")]
    assert (found["arms"], found["splits"]) == (["agent", "control"], ["a", "b"])
    assert [row["number"] for row in viewer.run("run", "/trials?arm=control&split=b")["rows"]] == [3]
    assert viewer.run("run", "/trials/2")["split"] == "b"


def test_a_list_grows_with_its_run_and_shrinks_when_it_is_cut_back(tmp_path: Path, viewer: Viewer) -> None:
    path = write_run(tmp_path / "run", some_trials()[:1])
    assert viewer.run("run", "/trials")["total"] == 1
    with RunWriter.reopen(path) as writer:
        writer.append(some_trials()[1])
        assert viewer.run("run", "/trials")["total"] == 2
        assert viewer.run("run", "/trials/1")["task"]["seat"] == 1
        writer.append(some_trials()[2])
        writer.cut_back(1)
        writer.append(some_trials()[2])
    assert [row["agent"] for row in viewer.run("run", "/trials")["rows"]] == ["uniform", "scripted:test"]
    (path / "index.jsonl").unlink()
    with RunWriter.reopen(path) as writer:
        writer.append(some_trials()[0])
    assert viewer.run("run", "/trials")["total"] == 3


def test_a_run_without_its_index_is_read_all_the_same(tmp_path: Path, viewer: Viewer) -> None:
    path = write_run(tmp_path / "run", some_trials())
    (path / "index.jsonl").unlink()
    assert viewer.run("run")["trials"] == 4
    assert viewer.run("run", "/trials")["total"] == 4
    assert "index.jsonl is missing" in viewer.run("run")["damage"][0]
    line = (path / "trials.jsonl").read_bytes().splitlines(keepends=True)[0]
    with (path / "trials.jsonl").open("ab") as file:
        file.write(line)
    assert viewer.run("run", "/trials")["total"] == 5


def test_a_trial_shows_every_turn_of_both_seats_and_how_it_ended(tmp_path: Path, viewer: Viewer) -> None:
    path = write_run(tmp_path / "run", some_trials())
    found = viewer.run("run", "/trials/2")
    trial = RunReader(path).trial(2)
    assert isinstance(trial, Trial)
    assert found["names"] == ["scripted:test", "uniform"]
    assert found["task"]["seed"] == "5"
    assert found["scores"] == list(trial.scores)
    assert "Kuhn poker" in found["rules"]
    for drawn, episode in zip(found["episodes"], trial.episodes, strict=True):
        assert drawn["result"] == json.loads(msgspec.json.encode(episode.result))
        for turn, real in zip(drawn["turns"], episode.turns, strict=True):
            seen = real.observation
            assert (turn["seat"], turn["observation"], turn["action"]) == (seen.seat, seen.text, real.action)
            assert (turn["actions"], turn["ids"]) == (list(seen.actions), list(seen.ids))
            assert turn["facts"] == json.loads(msgspec.json.encode(seen.facts))
    own = [turn for turn in found["episodes"][0]["turns"] if turn["seat"] == 0]
    assert "".join(token["text"] for token in own[0]["calls"][0]["tokens"]) == "I bet. <action>bet</action><|end|>"
    assert own[0]["calls"][0]["tokens"][0]["forced"] is False


def test_a_trial_shows_what_the_agent_remembered(tmp_path: Path, viewer: Viewer) -> None:
    write_run(tmp_path / "run", [model_trial(make_task(), betting("They <b>fold</b>."))])
    found = viewer.run("run", "/trials/0")
    assert [note["action"] for note in found["reflections"]] == ["They <b>fold</b>."] * 2
    assert [note["episode"] for note in found["reflections"]] == [0, 1]
    first, second = found["memory"]
    assert (first["after"], second["after"]) == (0, 1)
    assert first["carries"] == "all that happened, and its notes"
    assert first["goes_on"] is True
    assert "Episode 1 is over" in first["added"]
    assert "They <b>fold</b>." in first["added"]
    assert "Episode 2 of 3" in first["added"]
    assert first["tokens_after"] > first["tokens_before"]
    (stream,) = found["streams"]
    written = [piece["text"] for piece in stream["pieces"] if piece["written"]]
    assert written.count("They <b>fold</b>.") == 2
    assert stream["pieces"][0]["text"].startswith("<|system|>\n")


def test_a_memory_that_is_rewritten_begins_a_new_stream(tmp_path: Path, viewer: Viewer) -> None:
    trial = model_trial(make_task(), betting("Bluff."), memory=Memory.REFLECTIONS)
    write_run(tmp_path / "run", [trial])
    found = viewer.run("run", "/trials/0")
    assert len(found["streams"]) == 3
    assert [boundary["goes_on"] for boundary in found["memory"]] == [False, False]
    assert found["memory"][0]["added"].startswith("<|system|>")
    assert "After episode 1: Bluff." in found["memory"][0]["added"]


def test_a_trial_shows_credit_where_there_is_some(tmp_path: Path, viewer: Viewer) -> None:
    trial = model_trial(make_task(episodes=2), betting())
    path = write_run(tmp_path / "run", [guest_trial(make_task()), trial])
    own = [[t for t in e.turns if t.observation.seat == 0] for e in trial.episodes]
    turns = [*own[0], *trial.reflections, *own[1]]

    def calls(number: int) -> tuple[CallCredit, ...]:
        sizes = [len(call.completion.tokens) for call in turns[number].calls]
        return tuple(CallCredit((-0.5,) * size, (0.25,) * size) for size in sizes)

    credit = Credit(1, 40, True, tuple(TurnCredit(n / 2, n + 0.5, calls(n)) for n in range(len(turns))))
    write_lines(path / CREDIT, [msgspec.to_builtins(credit)])
    found = viewer.run("run", "/trials/1")
    assert (found["step"], found["trained"]) == (40, True)
    drawn = [[t for t in e["turns"] if t["seat"] == 0] for e in found["episodes"]]
    credits = [t["credit"] for t in (*drawn[0], *found["reflections"], *drawn[1])]
    assert credits == [{"advantage": n / 2, "return": n + 0.5} for n in range(len(turns))]
    token = found["reflections"][0]["calls"][0]["tokens"][0]
    number = len(own[0])
    assert turns[number].phase is Phase.REFLECT
    assert (token["advantage"], token["entropy"], token["learner_logprob"]) == (number / 2, 0.25, -0.5)
    opponents = [turn["credit"] for e in found["episodes"] for turn in e["turns"] if turn["seat"] == 1]
    assert set(map(str, opponents)) == {"None"}
    assert viewer.run("run", "/trials/0")["trained"] is None


def test_a_failure_has_its_error_and_nothing_else(tmp_path: Path, viewer: Viewer) -> None:
    write_run(tmp_path / "run", some_trials())
    found = viewer.run("run", "/trials/3")
    assert found["error"] == "PlayError: it broke"
    assert (found["episodes"], found["agent"]) == ([], None)


def test_the_same_task_at_several_steps_is_a_pair(tmp_path: Path, viewer: Viewer) -> None:
    early, late = (with_version(model_trial(make_task(seed=2**63), betting()), version) for version in (0, 40))
    sibling = msgspec.structs.replace(early, sibling=1)
    write_run(tmp_path / "run", [early, guest_trial(make_task(seed=9)), sibling, late], "train")
    task = {"world": "kuhn_poker", "opponents": ["uniform"], "seat": 0, "seed": str(2**63)}
    assert viewer.run("run", "/pairs") == [{"task": task, "trials": [0, 3], "steps": [0, 40]}]
    write_run(tmp_path / "once", [early, sibling], "train")
    assert viewer.run("once", "/pairs") == [], "siblings of one step are no pair"


def test_the_tokens_of_a_model_from_elsewhere_are_read_where_it_was_judged(tmp_path: Path, viewer: Viewer) -> None:
    mage.evaluate(MODEL, world="rps", opponents=["copy"], trials=1, folder=tmp_path / "judged")
    turns = viewer.run("judged", "/trials/0")["episodes"][0]["turns"]
    written = [turn["calls"][0]["tokens"][0]["text"] for turn in turns if turn["seat"] == 0]
    assert set(written) <= {"rock", "paper", "scissors"}
    assert written


def test_the_list_of_a_training_run_tells_the_weights_and_the_opponent(tmp_path: Path, viewer: Viewer) -> None:
    trial = model_trial(make_task(opponents=("aggressive",)), betting())
    write_run(tmp_path / "train", [trial, with_version(trial, 7), guest_trial(make_task())], "train")
    rows = viewer.run("train", "/trials")["rows"]
    assert [row["step"] for row in rows] == [0, 7, None]
    assert rows[0]["about"] == [viewer.run("train", "/trials/0")["about"][1]]
    assert rows[0]["about"][0].startswith("Always bets")
    write_run(tmp_path / "trials", [trial])
    assert viewer.run("trials", "/trials")["rows"][0]["step"] is None
