"""What the viewer answers about run directories: all of it, nothing twice, and one line where something is broken."""

from __future__ import annotations

import fcntl
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from math import inf
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from benchmarks.view_speed import Server, make_runs, measured
from mage.cli import app
from mage.errors import ConfigError
from mage.record.credit import CREDIT, CallCredit, Credit, TurnCredit
from mage.record.files import is_taken
from mage.record.store import RunReader, RunWriter
from mage.types import Memory, Phase, Trial
from mage.view.help import pages, rendered
from tests.recorded import betting, guest_trial, make_task, model_trial
from tests.test_docs import DOCS
from tests.viewed import Viewer, some_trials, write_checkpoint, write_lines, write_run, write_train_run


@pytest.fixture
def viewer(tmp_path: Path) -> Viewer:
    return Viewer(tmp_path)


def test_an_empty_directory_is_an_empty_list(viewer: Viewer) -> None:
    assert viewer.get("/api/runs") == []


def test_the_list_has_every_run_and_what_it_belongs_to(tmp_path: Path, viewer: Viewer) -> None:
    write_run(tmp_path / "20260101-000000-trials-demo", some_trials())
    train = write_train_run(tmp_path / "deep" / "sweep" / "rps-seed3")
    write_run(train / "evaluations" / "judged", some_trials(), "evaluate", agent="x")
    (tmp_path / "notes").mkdir()
    found = {run["name"]: run for run in viewer.get("/api/runs")}
    assert set(found) == {
        "20260101-000000-trials-demo",
        "deep/sweep/rps-seed3",
        "deep/sweep/rps-seed3/evaluations/judged",
    }
    trials = found["20260101-000000-trials-demo"]
    assert (trials["kind"], trials["recipe"], trials["trials"], trials["game"]) == ("trials", "demo", 4, "kuhn_poker")
    assert (trials["status"], trials["why"], trials["parent"], trials["spark"]) == ("finished", "", None, [])
    trained = found["deep/sweep/rps-seed3"]
    assert (trained["recipe"], trained["step"], trained["steps"]) == ("rps", 4, 4)
    assert trained["spark"] == [0.1, 0.2, 0.3, 0.4]
    assert found["deep/sweep/rps-seed3/evaluations/judged"]["parent"] == trained["id"]
    assert viewer.run("deep/sweep/rps-seed3")["children"] == [found["deep/sweep/rps-seed3/evaluations/judged"]["id"]]


def test_a_run_itself_can_be_shown_and_ids_outlive_the_server(tmp_path: Path) -> None:
    write_run(tmp_path / "one", some_trials())
    (only,) = Viewer(tmp_path / "one").get("/api/runs")
    assert only["name"] == "one"
    assert Viewer(tmp_path).id("one") == Viewer(tmp_path).id("one")


def test_a_train_run_is_finished_stopped_crashed_alarmed_or_running(tmp_path: Path, viewer: Viewer) -> None:
    done = write_train_run(tmp_path / "done")
    (done / "evaluations").mkdir()
    (done / "evaluations" / "final.json").write_text('{"reports": []}')
    write_checkpoint(write_train_run(tmp_path / "stopped", 2), 2)
    write_checkpoint(write_train_run(tmp_path / "crashed", 3), 2)
    alarmed = write_train_run(tmp_path / "alarmed", 3)
    write_lines(alarmed / "events.jsonl", [{"step": 3, "alarm": "entropy is low", "action": "stop"}])
    running = write_train_run(tmp_path / "running", 1)
    with (running / "trials.jsonl").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = {run["name"]: run for run in viewer.get("/api/runs")}
        assert {name: run["status"] for name, run in found.items()} == {
            "done": "finished",
            "stopped": "stopped",
            "crashed": "crashed",
            "alarmed": "alarmed",
            "running": "running",
        }
    assert found["alarmed"]["why"] == "alarm at step 3: entropy is low"
    assert found["alarmed"]["alarms"] == 1
    assert "2 of 4 steps" in found["stopped"]["why"]
    assert viewer.run("running")["status"] == "crashed", "nobody holds it any more"


def test_looking_at_a_run_never_keeps_a_writer_out(tmp_path: Path) -> None:
    path = write_train_run(tmp_path / "run")
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            is_taken(path / "trials.jsonl")

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(50):
            RunWriter.reopen(path).close()
    finally:
        stop.set()
        looking.join()


def test_runs_that_were_interrupted_say_how_far_they_came(tmp_path: Path, viewer: Viewer) -> None:
    write_run(tmp_path / "trials", some_trials(), trials=9)
    write_run(tmp_path / "duel", [guest_trial(make_task())], "duel", trials=2)
    write_run(tmp_path / "evaluate", some_trials(), "evaluate")
    found = {run["name"]: (run["status"], run["why"]) for run in viewer.get("/api/runs")}
    assert found["trials"] == ("stopped", "ended after 4 of 9 trials")
    assert found["duel"] == ("stopped", "ended after 1 of 4 trials")
    assert found["evaluate"][0] == "stopped"
    (tmp_path / "evaluate" / "report.json").write_text('{"reports": []}')
    assert viewer.run("evaluate")["status"] == "finished"


def test_a_sweep_and_a_nashconv_report_are_listed(tmp_path: Path, viewer: Viewer) -> None:
    sweep = tmp_path / "sweep"
    config = {"seed": 0, "steps": 4, "game": "rps"}
    sweep.mkdir()
    planned = [{"name": f"rps-seed{n}", "recipe": "rps", "config": config} for n in (0, 1)]
    (sweep / "sweep.json").write_text(json.dumps({"schema": 1, "runs": planned, "max_minutes": None}))
    write_lines(sweep / "ended.jsonl", [{"name": "rps-seed0", "state": "finished", "step": 4, "error": ""}])
    write_train_run(sweep / "rps-seed0")
    (tmp_path / "nash").mkdir()
    (tmp_path / "nash" / "nashconv.json").write_text('{"found": {}}')
    found = {run["name"]: run for run in viewer.get("/api/runs")}
    assert (found["sweep"]["kind"], found["sweep"]["status"], found["sweep"]["step"]) == ("sweep", "stopped", 1)
    assert found["sweep"]["why"].startswith("1 of 2 runs")
    assert found["sweep/rps-seed0"]["parent"] == found["sweep"]["id"]
    assert viewer.run("nash")["evaluations"] == ["nashconv"]
    assert viewer.run("nash", "/evaluations/nashconv") == {"found": {}}


def test_a_run_tells_its_config_events_evaluations_checkpoints_and_bounds(tmp_path: Path, viewer: Viewer) -> None:
    path = write_train_run(tmp_path / "run")
    write_checkpoint(path, 2)
    write_checkpoint(path, 4)
    write_lines(path / "events.jsonl", [{"step": 1, "warning": "slow"}])
    seats = [[0, {"memoryless": 0.1, "bayes_last": 0.5}], [1, {"memoryless": 0.3, "bayes_last": None}]]
    report = {"reports": [{"split": "kuhn-scripts", "references": seats}], "command": "x"}
    (path / "evaluations").mkdir()
    (path / "evaluations" / "final.json").write_text(json.dumps(report))
    (path / "evaluations" / "step-000002.json").write_text("{}")
    found = viewer.run("run")
    assert found["config"]["steps"] == 4
    assert found["seed"] == "7"
    assert found["events"] == [{"step": 1, "warning": "slow"}]
    assert found["evaluations"] == ["final", "step-000002"]
    assert found["checkpoints"] == [2, 4]
    assert found["bounds"] == {"kuhn-scripts": {"memoryless": pytest.approx(0.2), "limit": None, "equilibrium": None}}
    assert found["keys"] == ["score/episode_1", "score/episode_2"]
    answer = viewer.client.get(f"/api/runs/{viewer.id('run')}/evaluations/final")
    assert answer.content == (path / "evaluations" / "final.json").read_bytes()


def test_a_run_that_was_not_judged_gets_its_bounds_all_the_same(tmp_path: Path) -> None:
    evaluation = {"splits": ["kuhn-scripts", "no-such-split", "/etc/passwd.json"]}
    population, trial = {"split": "rps-constants"}, {"episodes": 3, "seats": [0]}
    write_train_run(tmp_path / "run", population=population, trial=trial, evaluation=evaluation)
    viewer = Viewer(tmp_path)
    with viewer.client:
        until = time.monotonic() + 60
        while not (found := viewer.run("run")["bounds"]) and time.monotonic() < until:
            time.sleep(0.1)
    assert set(found) == {"kuhn-scripts", "rps-constants"}
    assert found["kuhn-scripts"]["memoryless"] == pytest.approx(1 / 18)
    assert found["rps-constants"]["limit"] == pytest.approx(1.0)


def test_metrics_are_columns_that_can_be_cut_and_thinned(tmp_path: Path, viewer: Viewer) -> None:
    path = tmp_path / "run"
    write_train_run(path, step=0)
    lines = [{"step": n, "a": float(n)} for n in range(1, 5)]
    write_lines(path / "metrics.jsonl", [*lines, {"step": 4, "eval/x": 1.5}])
    every = viewer.run("run", "/metrics")
    assert every == {"steps": [1, 2, 3, 4], "series": {"a": [1, 2, 3, 4], "eval/x": [None, None, None, 1.5]}}
    assert viewer.run("run", "/metrics?keys=a,unknown&after=2") == {"steps": [3, 4], "series": {"a": [3, 4]}}
    assert viewer.run("run", "/metrics?keys=a&points=2") == {"steps": [2, 4], "series": {"a": [1.5, 3.5]}}
    with (path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 5, "a": 5.0}\n{"step": 6, "a"')
    assert viewer.run("run", "/metrics?keys=a&after=4") == {"steps": [5], "series": {"a": [5]}}
    (path / "metrics.jsonl").write_text('{"step": 1, "b": 2.0}\n')
    assert viewer.run("run", "/metrics") == {"steps": [1], "series": {"b": [2]}}


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
        sizes = [len(call.sampled.tokens) for call in turns[number].calls]
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
    early, late = (_at_version(model_trial(make_task(seed=2**63), betting()), version) for version in (0, 40))
    sibling = msgspec.structs.replace(early, sibling=1)
    write_run(tmp_path / "run", [early, guest_trial(make_task(seed=9)), sibling, late], "train")
    task = {"game": "kuhn_poker", "opponents": ["uniform"], "seat": 0, "seed": str(2**63)}
    assert viewer.run("run", "/pairs") == [{"task": task, "trials": [0, 3], "steps": [0, 40]}]
    write_run(tmp_path / "once", [early, sibling], "train")
    assert viewer.run("once", "/pairs") == [], "siblings of one step are no pair"


def test_a_broken_run_says_so_and_hides_nobody_else(tmp_path: Path, viewer: Viewer) -> None:
    write_run(tmp_path / "good", some_trials())
    for name in ("no-json", "other", "no-info", "bad-log"):
        write_train_run(tmp_path / name)
    (tmp_path / "no-json" / "run.json").write_text("{")
    other = json.loads((tmp_path / "other" / "run.json").read_text()) | {"schema": 2}
    (tmp_path / "other" / "run.json").write_text(json.dumps(other))
    (tmp_path / "no-info" / "run.json").unlink()
    (tmp_path / "bad-log" / "metrics.jsonl").write_text("what?\n")
    found = {run["name"]: run for run in viewer.get("/api/runs")}
    assert found["good"]["status"] == "finished"
    assert {found[name]["status"] for name in ("no-json", "other", "no-info", "bad-log")} == {"broken"}
    assert "has schema version 2; this version of mage reads 1" in found["other"]["why"]
    assert "cannot be read" in found["no-json"]["why"]
    assert "run.json" in found["no-info"]["why"]
    for name in ("no-json", "other", "no-info"):
        details = viewer.run(name)
        assert (details["status"], details["why"], details["config"]) == ("broken", found[name]["why"], {})
        for rest in ("trials", "trials/0", "metrics", "pairs"):
            assert viewer.error(f"/api/runs/{found[name]['id']}/{rest}", 422)
    assert viewer.run("bad-log", "/trials")["total"] == 1
    assert "metrics.jsonl" in viewer.error(f"/api/runs/{found['bad-log']['id']}/metrics", 422)


def test_a_run_with_strange_settings_is_listed(tmp_path: Path, viewer: Viewer) -> None:
    strange = {"steps": "many", "trial": {"episodes": [3]}, "game": {"a": 1}, "trials": None, "seats": 3, "splits": [1]}
    write_run(tmp_path / "run", some_trials(), "train", **strange)
    write_run(tmp_path / "other", some_trials(), "duel", trials="all", agent=["x"])
    assert {run["name"]: run["trials"] for run in viewer.get("/api/runs")} == {"run": 4, "other": 4}
    assert viewer.run("run", "/trials/2")["number"] == 2
    assert viewer.run("other", "/trials/2")["number"] == 2


def test_what_was_lost_is_said(tmp_path: Path, viewer: Viewer) -> None:
    path = write_run(tmp_path / "run", some_trials())
    with (path / "trials.jsonl").open("ab") as file:
        file.write(b'{"type": "tri')
    assert "incomplete" in viewer.run("run")["damage"][0]
    with (path / "trials.jsonl").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert viewer.run("run")["damage"] == [], "it is being written"


def test_a_report_that_is_no_json_is_refused(tmp_path: Path, viewer: Viewer) -> None:
    path = write_run(tmp_path / "run", some_trials(), "evaluate")
    (path / "report.json").write_text("{...")
    assert "cannot be read" in viewer.error(f"/api/runs/{viewer.id('run')}/evaluations/report", 422)
    assert viewer.run("run")["bounds"] == {}


@pytest.mark.parametrize(
    ("rest", "status", "says"),
    [
        ("trials?limit=0", 400, "limit = '0'"),
        ("trials?limit=501", 400, "500 at most"),
        ("trials?offset=-1", 400, "offset"),
        ("trials?seat=x", 400, "seat = 'x'"),
        ("trials?seat=٣", 400, "seat"),
        ("metrics?points=0", 400, "points"),
        ("trials/4", 404, "no readable trial 4"),
        ("trials/-1", 404, "not the number"),
        ("trials/99999999999999999999", 404, "not the number"),
        ("evaluations/final", 404, "no evaluation 'final'; it has none"),
        ("nothing", 404, "there is nothing at"),
    ],
)
def test_what_cannot_be_answered_is_one_line(tmp_path: Path, viewer: Viewer, rest: str, status: int, says: str) -> None:
    write_run(tmp_path / "run", some_trials())
    assert says in viewer.error(f"/api/runs/{viewer.id('run')}/{rest}", status)


def test_a_run_that_is_gone_is_not_found(tmp_path: Path, viewer: Viewer) -> None:
    path = write_run(tmp_path / "run", some_trials())
    identity = viewer.id("run")
    path.rename(tmp_path / ".away")
    assert "there is no run" in viewer.error(f"/api/runs/{identity}", 404)


def test_every_key_of_an_answer_is_documented(tmp_path: Path, viewer: Viewer) -> None:
    train = write_train_run(tmp_path / "train")
    early, late = (_at_version(model_trial(make_task(), betting()), version) for version in (0, 40))
    with RunWriter.reopen(train) as writer:
        for trial in (early, late):
            writer.append(trial)
    answers = [viewer.get("/api/runs"), viewer.get("/api/choices")]
    answers += [viewer.run("train", rest) for rest in ("/metrics", "/trials", "/trials/1", "/pairs")]
    details = viewer.run("train")
    answers += [dict.fromkeys(details, 0), viewer.post("/api/play", game="rps", opponent="copy")]
    text = (DOCS / "viewer.md").read_text(encoding="utf-8")
    known = set(re.findall(r"`(\w+)`", text))
    open_ended = ("facts", "series", "task", "agent")
    assert sorted({key for answer in answers for key in _keys(answer, open_ended)} - known) == []


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_help_has_every_page_with_its_equations_drawn(viewer: Viewer, name: str) -> None:
    answer = viewer.client.get(f"/help/{name}")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert viewer.client.get(f"/help/{name}.md").text == answer.text
    prose = re.sub(r"<(code|pre)\b.*?</\1>", "", answer.text, flags=re.DOTALL)
    assert "$" not in prose
    assert "<script" not in answer.text.replace('<script type="module"', "")
    for picture in re.findall(r'<img src="([^"]+)"', answer.text):
        assert viewer.client.get(picture).headers["content-type"].startswith("image/")


def test_the_help_lists_its_pages_and_knows_no_others(viewer: Viewer) -> None:
    assert 'href="/help/method"' in viewer.client.get("/help").text
    assert "there is no page 'nope'" in viewer.error("/help/nope", 404)
    equations = re.findall(r"<math.*?</math>", viewer.client.get("/help/method").text, re.DOTALL)
    assert any("<mi>γ</mi>" in equation for equation in equations)


def test_markdown_cannot_bring_markup_with_it() -> None:
    hostile = "<img src=x onerror=a()> [a](javascript:b()) $\\text{<script>c()</script>}$ `<i>`\n\n<script>d()</script>"
    page = rendered(hostile)
    assert not re.search(r"<(img|script|i)\b", page)
    assert "href" not in page
    assert "&lt;script&gt;d()&lt;/script&gt;" in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no-such-directory"], "no-such-directory is not a directory"),
        ([".", "--port", "{taken}"], "cannot listen on 127.0.0.1, port {taken}: "),
        ([".", "--host", "no.such.host.invalid"], "--host no.such.host.invalid: "),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        given = [argument.format(taken=taken) for argument in arguments]
        with pytest.raises(ConfigError, match=re.escape(says.format(taken=taken))):
            CliRunner().invoke(app, ["view", *given], catch_exceptions=False)


def test_an_interrupt_ends_the_server_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from mage.cli import main; main()", "view", str(tmp_path), "--no-browser"]
    command += ["--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        with urllib.request.urlopen(f"{found[0]}api/live", timeout=10) as stream:
            stream.readline()
            began = time.monotonic()
            server.send_signal(signal.SIGINT)
            _, complaints = server.communicate(timeout=30)
            assert time.monotonic() - began < 5
    assert (server.returncode, complaints) == (130, "")


def test_a_watcher_is_told_what_grew(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", some_trials()[:1])
    with Server(tmp_path) as server:
        identity = server.json("/api/runs")[0]["id"]
        with (
            urllib.request.urlopen(f"{server.url}/api/live?run={identity}", timeout=10) as one,
            urllib.request.urlopen(f"{server.url}/api/live", timeout=10) as every,
        ):
            assert one.headers["content-type"].startswith("text/event-stream")
            one.readline()
            every.readline()
            time.sleep(1.2)
            with RunWriter.reopen(path) as writer:
                writer.append(some_trials()[1])
            told = _event(one)
            assert (told["run"], told["trials"]) == (identity, 2)
            assert _event(every) == {"runs": [identity], "gone": []}


def test_ten_thousand_trials_stay_quick_and_torch_stays_away(tmp_path: Path) -> None:
    """The best of a few starts: a machine that does something else meanwhile is slower, never quicker."""
    make_runs(tmp_path, 10_000)
    most = {
        "start": 2,
        "list of runs, first": 0.5,
        "list of trials, first": 0.5,
        "list of trials, filtered": 0.5,
        "trial, first": 0.2,
        "trial": 0.2,
        "curves": 0.5,
        "memory_mb": 300,
    }
    best = dict.fromkeys(most, inf)
    for _ in range(4):
        found = measured(tmp_path, 10_000)
        best = {name: min(value, found[name]) for name, value in best.items()}
        if all(best[name] < most[name] for name in most):
            break
    assert [name for name in most if best[name] >= most[name]] == []


def _keys(value: object, open_ended: tuple[str, ...]) -> Iterator[str]:
    """All keys of an answer, at any depth, but for those of values whose keys are not ours."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from () if key in open_ended else _keys(inner, open_ended)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, open_ended)


def _event(stream: object) -> dict[str, object]:
    """The next event of a stream."""
    for line in stream:  # type: ignore[attr-defined]
        if line.startswith(b"data: "):
            value: dict[str, object] = json.loads(line.removeprefix(b"data: "))
            return value
    raise AssertionError("the stream has ended")


def _at_version(trial: Trial, version: int) -> Trial:
    """The same trial, as if weights of another step had played it."""
    plain = msgspec.to_builtins(trial)
    for turn in (t for e in plain["episodes"] for t in e["turns"]):
        for call in turn["calls"]:
            call["sampled"]["version"] = version
    return msgspec.convert(plain, Trial)
