"""What the viewer answers about runs: all of them, how each stands, its curves, and one line where one is broken."""

from __future__ import annotations

import fcntl
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mage.files import is_file_locked
from mage.runs.store import RunWriter
from tests.recorded import betting, guest_trial, make_task, model_trial, with_version
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
    assert (trials["kind"], trials["recipe"], trials["trials"], trials["world"]) == ("trials", "demo", 4, "kuhn_poker")
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
    printed = write_train_run(tmp_path / "printed", 3)
    write_lines(printed / "events.jsonl", [{"step": 3, "alarm": "entropy is low", "action": "print"}])
    ended = write_train_run(tmp_path / "ended", 2)
    write_checkpoint(ended, 2)
    write_lines(ended / "events.jsonl", [{"step": 2, "error": "all 4 trials failed"}])
    running = write_train_run(tmp_path / "running", 1)
    with (running / "trials.jsonl").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = {run["name"]: run for run in viewer.get("/api/runs")}
        assert {name: run["status"] for name, run in found.items()} == {
            "done": "finished",
            "stopped": "stopped",
            "crashed": "crashed",
            "alarmed": "alarmed",
            "printed": "crashed",
            "ended": "crashed",
            "running": "running",
        }
    assert found["alarmed"]["why"] == "alarm at step 3: entropy is low"
    assert found["alarmed"]["alarms"] == found["printed"]["alarms"] == 1
    assert "2 of 4 steps" in found["stopped"]["why"]
    assert found["ended"]["why"].endswith("by an error; mage train --resume goes on: all 4 trials failed")
    assert viewer.run("running")["status"] == "crashed", "nobody holds it any more"


def test_looking_at_a_run_never_keeps_a_writer_out(tmp_path: Path) -> None:
    path = write_train_run(tmp_path / "run")
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            is_file_locked(path / "trials.jsonl")

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
    config = {"seed": 0, "steps": 4, "world": "rps"}
    sweep.mkdir()
    planned = [{"name": f"rps-seed{n}", "recipe": "rps", "config": config} for n in (0, 1)]
    (sweep / "sweep.json").write_text(json.dumps({"schema": 2, "runs": planned, "max_minutes": None}))
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
    ties = [{"low": 0.2, "even": 0.3, "high": 0.4}, {"low": 0.3, "even": 0.3, "high": 0.3}]
    seats = [
        [0, {"memoryless": 0.1, "bayes_last": 0.5, "myopic": ties[0]}],
        [1, {"memoryless": 0.3, "bayes_last": None, "myopic": ties[1]}],
    ]
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
    bounds = {"memoryless": pytest.approx(0.2), "myopic": pytest.approx(0.35), "limit": None, "equilibrium": None}
    assert found["bounds"] == {"kuhn-scripts": bounds}
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
        while len(found := viewer.run("run")["bounds"]) < 2 and time.monotonic() < until:
            time.sleep(0.1)
    assert set(found) == {"kuhn-scripts", "rps-constants"}
    assert found["kuhn-scripts"]["memoryless"] == pytest.approx(1 / 18)
    assert found["kuhn-scripts"]["myopic"] == pytest.approx(19 / 81)
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


def test_a_broken_run_says_so_and_hides_nobody_else(tmp_path: Path, viewer: Viewer) -> None:
    write_run(tmp_path / "good", some_trials())
    for name in ("no-json", "other", "no-info", "bad-log"):
        write_train_run(tmp_path / name)
    (tmp_path / "no-json" / "run.json").write_text("{")
    other = json.loads((tmp_path / "other" / "run.json").read_text()) | {"schema": 3}
    (tmp_path / "other" / "run.json").write_text(json.dumps(other))
    (tmp_path / "no-info" / "run.json").unlink()
    (tmp_path / "bad-log" / "metrics.jsonl").write_text("what?\n")
    found = {run["name"]: run for run in viewer.get("/api/runs")}
    assert found["good"]["status"] == "finished"
    assert {found[name]["status"] for name in ("no-json", "other", "no-info", "bad-log")} == {"broken"}
    assert "has schema version 3; this version of mage reads 2" in found["other"]["why"]
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
    strange = {
        "steps": "many",
        "trial": {"episodes": [3]},
        "world": {"a": 1},
        "trials": None,
        "seats": 3,
        "splits": [1],
    }
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
    early, late = (with_version(model_trial(make_task(), betting()), version) for version in (0, 40))
    with RunWriter.reopen(train) as writer:
        for trial in (early, late):
            writer.append(trial)
    answers = [viewer.get("/api/runs"), viewer.get("/api/choices")]
    answers += [viewer.run("train", rest) for rest in ("/metrics", "/trials", "/trials/1", "/pairs")]
    details = viewer.run("train")
    answers += [dict.fromkeys(details, 0), viewer.post("/api/play", world="rps", opponent="copy")]
    text = (DOCS / "viewer.md").read_text(encoding="utf-8")
    known = set(re.findall(r"`(\w+)`", text))
    open_ended = ("facts", "series", "task", "agent")
    assert sorted({key for answer in answers for key in _keys(answer, open_ended)} - known) == []


def _keys(value: object, open_ended: tuple[str, ...]) -> Iterator[str]:
    """All keys of an answer, at any depth, but for those of values whose keys are not ours."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from () if key in open_ended else _keys(inner, open_ended)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, open_ended)
