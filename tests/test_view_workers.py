"""What the viewer answers about workers: those of a run that has some, live, after a resume, and one line if broken."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mage.files import read_lines
from mage.training.workers.health import WORKERS, WorkerHealth, WorkerProcess
from mage.view.export import export_page
from mage.view.read.worker_report import WorkerReport
from tests.test_docs import DOCS
from tests.viewed import Viewer, some_trials, write_lines, write_run, write_train_run

TWO: dict[str, Any] = {"rollout": {"workers": 2}}
HERE = {"host": "a", "pid": 11}


@pytest.fixture
def viewer(tmp_path: Path) -> Viewer:
    return Viewer(tmp_path)


def step(number: int, **workers: tuple[int, float, float]) -> dict[str, object]:
    """A line of timings: of each worker its trials, busy share and seconds of a trial."""
    line: dict[str, object] = {"step": number, "step_s": 1.0, "trials_per_s": 8.0}
    for name, (trials, busy, seconds) in workers.items():
        line |= {f"{name}/trials": trials, f"{name}/busy_share": busy, f"{name}/host_gib": 1.5, f"{name}/deaths": 0}
        line |= {f"{name}/trial_s": seconds} if trials else {}
    return line


def happened(worker: int, what: str, second: int = 0, **more: object) -> dict[str, object]:
    """A line of workers.jsonl."""
    time = f"2026-01-01T00:00:{second:02d}+00:00"
    return {"time": time, "step": second, "worker": worker, "what": what, **HERE, **more}


def standing(report: dict[str, Any], key: str) -> list[Any]:
    return [worker[key] for worker in report["workers"]]


def test_a_run_with_workers_has_their_health(tmp_path: Path, viewer: Viewer) -> None:
    path = write_train_run(tmp_path / "run", **TWO)
    assert viewer.run("run")["workers"] is True
    assert viewer.run("run", "/workers")["workers"] == [], "nothing has been built yet"
    write_lines(path / "workers.jsonl", [happened(2, "built", seconds=3.0), happened(1, "built", seconds=3.0)])
    write_lines(path / "timings.jsonl", [step(1, worker_1=(4, 0.5, 0.1), worker_2=(0, 0.0, 0.0))])
    write_lines(path / "timings.jsonl", [step(2, worker_1=(4, 1.0, 0.3), worker_2=(2, 0.5, 0.6))])
    report = viewer.run("run", "/workers")
    assert (report["planned"], report["alive"], report["deaths"], report["replayed"]) == (2, 2, 0, 0)
    assert report["trials_per_s"] == 8.0
    assert standing(report, "worker") == [1, 2]
    assert standing(report, "trials") == [8, 2]
    assert standing(report, "busy_share") == pytest.approx([0.75, 0.25])
    assert standing(report, "trial_s") == pytest.approx([0.2, 0.6])
    assert standing(report, "spark") == [[0.1, 0.3], [None, 0.6]]
    assert standing(report, "host_gib") == [1.5, 1.5]
    assert standing(report, "pid") == [11, 11]


def test_a_worker_that_dies_is_seen_before_the_step_ends(tmp_path: Path, viewer: Viewer) -> None:
    path = write_train_run(tmp_path / "run", **TWO)
    write_lines(path / "workers.jsonl", [happened(1, "built"), happened(2, "built")])
    assert viewer.run("run", "/workers")["alive"] == 2
    write_lines(path / "workers.jsonl", [happened(2, "died", 3, error="out of memory", trials=16)])
    report = viewer.run("run", "/workers")
    assert (report["alive"], report["deaths"], report["replayed"]) == (1, 1, 16)
    assert standing(report, "state") == ["alive", "building"]
    assert standing(report, "deaths") == [0, 1]
    (incident,) = report["incidents"]
    assert (incident["worker"], incident["error"], incident["step"]) == (2, "out of memory", 3)
    write_lines(path / "workers.jsonl", [happened(2, "built", 9), happened(1, "slow", 11, seconds=60.0)])
    report = viewer.run("run", "/workers")
    assert standing(report, "state") == ["slow", "alive"]
    assert [incident["what"] for incident in report["incidents"]] == ["slow", "died"], "newest first"
    write_lines(path / "workers.jsonl", [happened(1, "answered", 12, seconds=61.0)])
    assert standing(viewer.run("run", "/workers"), "state") == ["alive", "alive"]
    assert viewer.run("run", "/workers")["workers"][1]["since"].endswith("00:09+00:00")


def test_a_broken_worker_is_counted_and_named_apart_from_the_dead(tmp_path: Path, viewer: Viewer) -> None:
    path = write_train_run(tmp_path / "run", **TWO)
    dead = happened(2, "died", 3, error="no memory", trials=16)
    write_lines(path / "workers.jsonl", [happened(1, "built"), dead, happened(1, "broken", 4, error="CUDA", trials=4)])
    report = viewer.run("run", "/workers")
    assert (report["alive"], report["deaths"], report["broken"], report["replayed"]) == (0, 1, 1, 20)
    assert standing(report, "state") == ["broken", "building"]
    assert standing(report, "deaths") == [0, 1]
    assert standing(report, "broken") == [1, 0]
    assert [(each["what"], each["error"]) for each in report["incidents"]] == [
        ("broken", "CUDA"),
        ("died", "no memory"),
    ]
    write_lines(path / "workers.jsonl", [happened(1, "died", 5, error="no place", trials=0), happened(1, "built", 6)])
    report = viewer.run("run", "/workers")
    assert standing(report, "state") == ["alive", "building"]
    assert (report["deaths"], report["broken"]) == (2, 1)


def test_what_a_run_records_is_what_the_viewer_reads(tmp_path: Path, viewer: Viewer) -> None:
    path = write_train_run(tmp_path / "run", **TWO)
    health = WorkerHealth(path)
    health.note_built(1, WorkerProcess("a", 11), 3.0)
    health.note_slow(1, 60.0)
    health.note_death(2, "no memory", "the run ends")
    health.note_broken(1, "CUDA", 8)
    health.close()
    built, slow, died, broken = read_lines(path / WORKERS)
    assert {key: built[key] for key in list(built)[1:]} == {
        "step": 0,
        "worker": 1,
        "what": "built",
        **HERE,
        "seconds": 3,
    }
    assert {key: died[key] for key in list(died)[4:]} == {"error": "no memory", "trials": 0}
    assert {key: broken[key] for key in list(broken)[3:]} == {"what": "broken", **HERE, "error": "CUDA", "trials": 8}
    nothing = {"error": None, "host": None, "pid": None, "seconds": None, "trials": None}
    assert viewer.run("run", "/workers")["incidents"] == [nothing | line for line in (broken, died, slow)]


def test_a_change_of_workers_alone_makes_the_run_change(tmp_path: Path, viewer: Viewer) -> None:
    path = write_train_run(tmp_path / "run", **TWO)
    times = [viewer.run("run")["updated"]]
    second = int((path / "run.json").stat().st_mtime) + 5
    for part, what in ((0.2, "built"), (0.7, "died")):  # within one second
        write_lines(path / "workers.jsonl", [happened(1, what)])
        os.utime(path / "workers.jsonl", (second + part, second + part))
        times.append(viewer.run("run")["updated"])
    assert times[0] < times[1] < times[2], "pages that are open follow it"


def test_a_resumed_run_keeps_what_was_before(tmp_path: Path, viewer: Viewer) -> None:
    for name, planned in (("fewer", 1), ("none", 0)):
        path = write_train_run(tmp_path / name, rollout={"workers": planned})
        died = happened(2, "died", 5, error="lost", trials=4)
        write_lines(path / "workers.jsonl", [happened(1, "built"), happened(2, "built"), died, happened(1, "built", 8)])
        both = step(1, worker_1=(4, 0.5, 0.1), worker_2=(4, 0.5, 0.1))
        write_lines(path / "timings.jsonl", [both, both, step(2, worker_1=(8, 1.0, 0.1))])
        report = viewer.run(name, "/workers")
        assert standing(report, "state") == ["alive" if planned else "unused", "unused"]
        assert standing(report, "trials") == [16, 8]
        assert standing(report, "host_gib") == [1.5 if planned else None, None]
        assert (report["alive"], report["deaths"], report["replayed"]) == (planned, 1, 4)
        assert viewer.run(name)["workers"] is True


def test_a_run_without_workers_has_none(tmp_path: Path, viewer: Viewer) -> None:
    write_train_run(tmp_path / "train")
    write_run(tmp_path / "trials", some_trials())
    for name in ("train", "trials"):
        assert viewer.run(name)["workers"] is False
        assert viewer.error(f"/api/runs/{viewer.id(name)}/workers", 404) == f"{name} has no workers"


@pytest.mark.parametrize("name", ["workers.jsonl", "timings.jsonl"])
def test_a_broken_file_is_one_line_and_leaves_the_run_alone(tmp_path: Path, viewer: Viewer, name: str) -> None:
    path = write_train_run(tmp_path / "run", **TWO)
    for content in (b"what?\n", b'{"step": "many", "worker": [1]}\n[]\n', b"\xff\n"):
        (path / name).write_bytes(content)
        for _ in range(2):
            assert f"{name} of run cannot be read" in viewer.error(f"/api/runs/{viewer.id('run')}/workers", 422)
        assert viewer.run("run")["status"] != "broken"
    (path / name).write_bytes(b'{"step": 1, "wor')
    assert viewer.run("run", "/workers")["workers"] == [], "a line that is being written is left for later"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    path = write_train_run(tmp_path / "shown" / "run", **TWO)
    write_lines(tmp_path / "outside.jsonl", [happened(1, "built")])
    (path / "workers.jsonl").symlink_to(tmp_path / "outside.jsonl")
    viewer = Viewer(tmp_path / "shown")
    assert "is not followed" in viewer.error(f"/api/runs/{viewer.id('run')}/workers", 422)


def test_every_key_is_documented_and_an_exported_page_has_them(tmp_path: Path, viewer: Viewer) -> None:
    path = write_train_run(tmp_path / "run", **TWO)
    write_lines(path / "workers.jsonl", [happened(1, "built"), happened(1, "died", 1, error="an odd end")])
    report = viewer.run("run", "/workers")
    msgspec.convert(report, WorkerReport, strict=True)
    known = set(re.findall(r"`(\w+)`", (DOCS / "viewer.md").read_text(encoding="utf-8")))
    keys = set(report) | {key for name in ("workers", "incidents") for entry in report[name] for key in entry}
    assert sorted(keys - known) == []
    page = export_page(path).content.decode()
    assert "/workers" in page
    assert "an odd end" in page
