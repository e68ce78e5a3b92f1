"""Which files the viewer reaches: those of its runs, by whatever name, and none through paths, links or pipes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from mage.errors import RecordError
from mage.view.read.folder import Folder
from tests.recorded import failure
from tests.viewed import Viewer, some_trials, write_checkpoint, write_run, write_train_run

SECRET = "a-secret-that-is-nobodys-business"


@pytest.fixture
def viewer(tmp_path: Path) -> Viewer:
    write_run(tmp_path / "run", some_trials())
    return Viewer(tmp_path)


@pytest.mark.parametrize(
    "path",
    [
        "/api/runs/..",
        "/api/runs/%2e%2e%2f%2e%2e/trials",
        "/api/runs/..%2foutside",
        "/api/runs//etc/passwd",
        "/api/runs/{run}/evaluations/..%2frun",
        "/api/runs/{run}/evaluations/%2e%2e%2f%2e%2e%2foutside%2fsecret",
        "/api/runs/{run}/evaluations/secret.json",
        "/api/runs/{run}/trials/..%2f..%2frun.json",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static//etc/passwd",
        "/help/..%2f..%2fREADME",
        "/help/..%2fpyproject.toml",
        "/help/%2fetc%2fpasswd",
        "/api/play/..%2f..%2fruns",
    ],
)
def test_paths_lead_nowhere(tmp_path: Path, viewer: Viewer, path: str) -> None:
    (tmp_path.parent / f"{tmp_path.name}-outside").mkdir()
    answer = viewer.client.get(path.format(run=viewer.id("run")))
    assert answer.status_code == 404
    assert "root:" not in answer.text
    assert "import" not in answer.text


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = write_train_run(tmp_path / "outside" / "run")
    (outside / "evaluations").mkdir()
    (outside / "evaluations" / "final.json").write_text(f'{{"reports": [], "command": "{SECRET}"}}')
    write_checkpoint(outside, 4)
    (tmp_path / "secret.json").write_text(f'{{"{SECRET}": 1}}')
    root = tmp_path / "root"
    root.mkdir()
    (root / "linked").symlink_to(outside, target_is_directory=True)
    for name in ("run.json", "trials.jsonl", "index.jsonl", "metrics.jsonl", "events.jsonl", "credit.jsonl"):
        run = write_train_run(root / f"with-{name}")
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(tmp_path / "secret.json")
    inner = write_train_run(root / "inner")
    (inner / "evaluations").symlink_to(outside / "evaluations", target_is_directory=True)
    (inner / "checkpoints").symlink_to(outside / "checkpoints", target_is_directory=True)
    evaluated = write_run(root / "judged", some_trials(), "evaluate")
    (evaluated / "report.json").symlink_to(outside / "evaluations" / "final.json")
    viewer = Viewer(root)
    found = {run["name"]: run for run in viewer.get("/api/runs")}
    assert "linked" not in found
    assert {run["status"] for name, run in found.items() if name.startswith("with-")} == {"broken"}
    assert (viewer.run("inner")["evaluations"], viewer.run("inner")["checkpoints"]) == ([], [])
    assert viewer.run("judged")["evaluations"] == []
    assert viewer.get("/api/choices")["checkpoints"] == []
    for run in found.values():
        for rest in ("", "/metrics", "/trials", "/trials/0", "/pairs", "/evaluations/final", "/evaluations/report"):
            assert SECRET not in viewer.client.get(f"/api/runs/{run['id']}{rest}").text


def test_no_file_is_read_through_a_linked_directory(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "tokenizer.json").write_text(SECRET)
    run = write_train_run(tmp_path / "root" / "run")
    (run / "tokenizer").symlink_to(outside, target_is_directory=True)
    (place,) = Folder(tmp_path / "root").places()
    with pytest.raises(RecordError, match="not followed"):
        place.file("tokenizer", "tokenizer.json")


def test_a_run_that_becomes_a_link_is_gone(tmp_path: Path) -> None:
    outside = write_run(tmp_path / "outside", [failure(SECRET)])
    inside = write_run(tmp_path / "root" / "run", some_trials())
    viewer = Viewer(tmp_path / "root")
    identity = viewer.id("run")
    inside.rename(tmp_path / "away")
    inside.symlink_to(outside, target_is_directory=True)
    assert viewer.error(f"/api/runs/{identity}/trials", 404)


@pytest.mark.parametrize("name", ["run.json", "trials.jsonl", "index.jsonl", "metrics.jsonl", "events.jsonl"])
def test_a_pipe_in_place_of_a_file_stops_nobody(tmp_path: Path, name: str) -> None:
    run = write_train_run(tmp_path / "run")
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    (only,) = Viewer(tmp_path).get("/api/runs")
    assert only["status"] == "broken"
    assert "no regular file" in only["why"]


@pytest.mark.parametrize(
    "name", ["a b", "<img src=x>", "q\"uote'", "new\nline", "per%2fcent", "ünï", "-dash", "a;b&c#d?e"]
)
def test_odd_names_are_shown_and_found(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / name, some_trials())
    viewer = Viewer(tmp_path)
    (only,) = viewer.get("/api/runs")
    assert only["name"] == name
    assert re.fullmatch(r"[0-9a-f]{12}", only["id"])
    assert viewer.run(name, "/trials")["total"] == 4


def test_a_name_that_is_no_text_is_shown_as_bytes(tmp_path: Path) -> None:
    try:
        write_run(tmp_path / os.fsdecode(b"b\xff"), some_trials())
    except OSError:
        pytest.skip("this file system takes text only")
    (only,) = Viewer(tmp_path).get("/api/runs")
    assert only["name"] == "b\\xff"
    assert Viewer(tmp_path).get(f"/api/runs/{only['id']}/trials")["total"] == 4
