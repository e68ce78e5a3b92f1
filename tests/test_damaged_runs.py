"""Training runs whose files were copied, deleted, shortened or edited: said in one line."""

from __future__ import annotations

import shutil
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.config.load import to_toml
from mage.errors import RecordError
from mage.files import CHECKSUMS, JsonLines, read_lines
from mage.runs.store import RunReader, read_info
from mage.training.checkpoint import checkpoints
from mage.training.run import train_run
from tests.tiny import tiny_config

QUIET = Console(quiet=True)
LOGS = ("metrics.jsonl", "trials.jsonl", "index.jsonl", "events.jsonl", "credit.jsonl")


def small(folder: Path, *overrides: str) -> str:
    """A recipe of a few quick steps, with a checkpoint after every second one."""
    settings = ("checkpoint.every=2", "checkpoint.transcripts=1", *overrides)
    path = folder / "small.toml"
    path.write_text(to_toml(tiny_config(*settings)), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps that is done."""
    folder = tmp_path_factory.mktemp("runs")
    return mage.train(small(folder, "steps=4"), folder=folder / "run", quiet=True).path


@pytest.fixture
def run(done: Path, tmp_path: Path) -> Path:
    """A copy of the run that is done."""
    return Path(shutil.copytree(done, tmp_path / "run"))


@pytest.fixture
def begun(done: Path, run: Path) -> Path:
    """A copy of the run as it was after two steps, with checkpoints of steps 2 and 4 so far and not evaluated."""
    (run / "evaluations" / "final.json").unlink()
    shutil.rmtree(run / "checkpoints" / "step-000004")
    return run


def resumed(run: Path, **values: object) -> str:
    """What is said when a run goes on."""
    said = StringIO()
    train_run(run, Console(file=said, width=400), values=values)
    return said.getvalue()


def refusal(run: Path, **values: object) -> str:
    with pytest.raises(RecordError) as caught:
        train_run(run, QUIET, values=values)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_other_names_beside_checkpoints_are_ignored(begun: Path, done: Path) -> None:
    newest = begun / "checkpoints" / "step-000002"
    others = [newest.with_name(f"step-{name}") for name in ("000002.bak", "000002-backup", "000003.tmp", "3", "x")]
    for other in others:
        shutil.copytree(newest, other)
    (newest.parent / "step-000009").touch()
    assert checkpoints(begun / "checkpoints") == [newest]
    resumed(begun)
    assert all(other.is_dir() for other in others)
    for name in LOGS:
        assert (begun / name).read_bytes() == (done / name).read_bytes()


@pytest.mark.parametrize("values", [{}, {"steps": 6}])
def test_a_run_whose_checkpoints_are_gone_is_refused(run: Path, values: dict[str, object]) -> None:
    shutil.rmtree(run / "checkpoints")
    before = {name: (run / name).read_bytes() for name in LOGS}
    assert refusal(run, **values).startswith(f"{run / 'checkpoints'} has no checkpoint, and the run was saved before")
    (run / "evaluations" / "final.json").unlink()
    assert "the run was saved before" in refusal(run, **values)
    assert {name: (run / name).read_bytes() for name in LOGS} == before
    with pytest.raises(RecordError, match="the run was saved before"):
        mage.open_run(run)


@pytest.mark.parametrize("values", [{}, {"steps": 6}])
def test_a_checkpoint_without_its_state_is_refused(run: Path, values: dict[str, object]) -> None:
    (run / "checkpoints" / "step-000004" / "state.json").unlink()
    wanted = "step-000004 has no state.json, so it is not complete; put the file back, or delete it to go on from"
    assert wanted in refusal(run, **values)
    shutil.rmtree(run / "checkpoints" / "step-000002")
    assert refusal(run, **values).endswith("or begin a new run")


def test_a_run_that_was_never_saved_begins_again(begun: Path, done: Path) -> None:
    """As where it was killed before its first checkpoint."""
    shutil.rmtree(begun / "checkpoints")
    (begun / "saved.json").unlink()
    resumed(begun)
    assert (begun / "metrics.jsonl").read_bytes() == (done / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["metrics.jsonl", "trials.jsonl", "credit.jsonl"])
def test_shortened_logs_are_said_and_recorded(begun: Path, name: str) -> None:
    lines = (begun / name).read_bytes().splitlines(keepends=True)
    (begun / name).write_bytes(lines[0])
    known = msgspec.json.decode((begun / "checkpoints" / "step-000002" / "state.json").read_bytes())["lines"][name]
    text = f"{name} is shorter than at step 2: {known - 1} of {known} lines are lost"
    assert text in resumed(begun)
    assert {"step": 2, "warning": text} in list(read_lines(begun / "events.jsonl"))
    reader = RunReader(begun)
    assert reader.damage == ()
    credited = [line["trial"] for line in read_lines(begun / "credit.jsonl")]
    assert credited == sorted(set(credited)), "no credit of a trial that is lost"
    assert len(list(read_lines(begun / "metrics.jsonl"))) == (3 if name == "metrics.jsonl" else 4)


def test_a_shortened_log_of_a_finished_run_is_said(run: Path) -> None:
    (run / "metrics.jsonl").write_bytes(b"")
    assert "metrics.jsonl is shorter than at step 4: 4 of 4 lines are lost" in resumed(run)
    assert (run / "events.jsonl").read_bytes() == b""


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
def test_tensors_that_are_not_those_saved_are_refused(begun: Path, name: str) -> None:
    path = begun / "checkpoints" / "step-000002" / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # the file still loads
    path.write_bytes(bytes(content))
    assert refusal(begun).startswith(f"{path} is not the file that was saved: its SHA-256 is ")
    with pytest.raises(RecordError, match="is not the file that was saved"):
        mage.evaluate(str(begun), trials=1)
    (path.parent / CHECKSUMS).unlink()
    resumed(begun)  # as a checkpoint of an earlier version


def test_checksums_that_cannot_be_read_are_refused(begun: Path) -> None:
    path = begun / "checkpoints" / "step-000002" / CHECKSUMS
    path.write_text('{"gone.safetensors": "00"}')
    assert refusal(begun) == f"{path.with_name('gone.safetensors')} is missing, which {CHECKSUMS} names"
    path.write_text("[")
    assert refusal(begun).startswith(f"{path} cannot be read: ")


def edit(run: Path, old: str, new: str) -> None:
    text = (run / "run.json").read_text(encoding="utf-8")
    assert text.count(old) == 1
    (run / "run.json").write_text(text.replace(old, new), encoding="utf-8")


def test_a_run_json_edited_by_hand_is_said_and_recorded_once(begun: Path) -> None:
    text = "from step 2 on: run.json as it was edited by hand, not as mage wrote it"
    edit(begun, '"steps": 4', '"steps": 3')
    assert text in resumed(begun)
    assert mage.open_run(begun).step == 3
    (change,) = read_info(begun).changes
    assert (change.step, change.key) == (2, "run.json")
    assert [line["changed"] for line in read_lines(begun / "events.jsonl")] == ["run.json"]
    assert "edited" not in resumed(begun)
    assert len(read_info(begun).changes) == 1


def test_another_layout_of_run_json_is_no_edit_and_a_missing_checksum_neither(begun: Path) -> None:
    values = msgspec.json.decode((begun / "run.json").read_bytes())
    (begun / "run.json").write_bytes(msgspec.json.encode(values))
    del values["checksum"]
    assert "edited" not in resumed(begun)
    (begun / "run.json").write_bytes(msgspec.json.encode({**values, "created": "2020"}))  # of an earlier version
    assert "edited" not in resumed(begun)


def test_an_evaluation_whose_run_json_was_edited_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["evaluate", "copy", "--world", "rps(rounds=3)", "--opponents", "always:rock", "--trials", "2"]
    assert CliRunner().invoke(app, [*command, "-o", "out"]).exit_code == 0
    edit(tmp_path / "out", '"trials": 2', '"trials": 3')
    output = CliRunner().invoke(app, ["evaluate", "--resume", "out"]).output
    assert "out/run.json was edited by hand; this goes on by what it says now" in output
    assert [change.key for change in read_info(tmp_path / "out").changes] == ["run.json"]
    assert "edited" not in CliRunner().invoke(app, ["evaluate", "--resume", "out"]).output


def test_an_incomplete_last_line_does_not_spoil_the_next(tmp_path: Path) -> None:
    """Logs that no checkpoint cuts back, such as how the runs of a sweep ended."""
    path = tmp_path / "ended.jsonl"
    path.write_bytes(b'{"a":1}\n{"a"')
    log = JsonLines(path)
    log.append({"a": 2})
    log.close()
    assert list(read_lines(path)) == [{"a": 1}, {"a": 2}]
    assert (tmp_path / "ended.jsonl.broken").read_bytes() == b'{"a"'
