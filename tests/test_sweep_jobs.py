"""Sweeps whose runs are made side by side: the same runs, failures that cost no other, interrupts, a parent's death."""

from __future__ import annotations

import time
from pathlib import Path
from signal import SIGINT, SIGKILL

import pytest
from rich.console import Console

import mage
from mage.config.load import to_toml
from mage.errors import ConfigError
from mage.files import count_lines, is_file_locked
from mage.models.hosts import allowed_entries
from mage.results import open_run
from mage.training.sweep import make_sweep, plan_sweep, run_sweep, summarise
from mage.training.sweep_summary import RunState
from tests.processes import Mage, quiet_environment, when
from tests.test_sweep import everything
from tests.tiny import tiny_config

QUIET = Console(quiet=True)
EVALUATED = ('evaluation.splits=["rps-seven"]', "evaluation.final_trials=2", "world=rps(rounds=3)")


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in quiet_environment().items():
        monkeypatch.setenv(name, value)


def test_runs_side_by_side_are_the_runs_of_one_process_and_failures_cost_no_other(tmp_path: Path) -> None:
    bad = tiny_config("steps=3", "learner.lr=1e30", "learner.max_skips=0")
    plan = plan_sweep([("bad", bad), ("good", tiny_config("steps=2", *EVALUATED))], 1, None)
    for folder, jobs in (("one", 1), ("two", 2)):
        make_sweep(tmp_path / folder, plan)
        summary = run_sweep(tmp_path / folder, QUIET, jobs)
        assert [run.state for run in summary.runs] == [RunState.FAILED, RunState.FINISHED]
        assert "not finite" in summary.runs[0].error
    found, wanted = everything(tmp_path / "two" / "good-seed0"), everything(tmp_path / "one" / "good-seed0")
    assert [file for file in wanted if found[file] != wanted[file]] == []
    assert {path.name for path in (tmp_path / "two").glob("*.log")} == {"bad-seed0.log"}


@pytest.mark.usefixtures("own_names")
def test_a_process_that_dies_is_a_failed_run_and_its_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text(DIES, encoding="utf-8")
    config = tiny_config("steps=1", "learner.kind=dies", f"plugins=['{tmp_path / 'dies.py'}']")
    folder = tmp_path / "sweep"
    make_sweep(folder, plan_sweep([("tiny", config)], 1, None))
    (run,) = run_sweep(folder, QUIET, jobs=2).runs
    log = folder / "tiny-seed0.log"
    assert (run.state, run.error) == (RunState.FAILED, f"its process ended with code 7; {log} has what it said")
    assert log.read_text() == "the disk is on fire\n"


DIES = """
import os, mage

def die(*_):
    print("the disk is on fire", flush=True)
    os._exit(7)

mage.register_learner("dies", die)
"""


def test_what_is_refused_in_a_process_ends_the_sweep(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    make_sweep(folder, plan_sweep([("tiny", tiny_config("steps=1"))], 2, None))
    text = (folder / "sweep.json").read_text(encoding="utf-8")
    (folder / "sweep.json").write_text(text.replace("always:rock", "always:stone"), encoding="utf-8")
    with pytest.raises(ConfigError, match="stone"):
        run_sweep(folder, QUIET, jobs=2)
    assert [run.state for run in summarise(folder).runs] == [RunState.OPEN] * 2
    with pytest.raises(ConfigError, match="jobs = 0: allowed are whole numbers from 1"):
        run_sweep(folder, QUIET, jobs=0)


def test_hosts_that_are_allowed_here_are_allowed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGE_API_HOSTS", "a.example.org b.example.org:8443=")
    with mage.allow_hosts("c.example.org=MY_KEY"):
        assert allowed_entries() == "c.example.org=MY_KEY,a.example.org,b.example.org:8443="
        monkeypatch.setenv("MAGE_API_HOSTS", allowed_entries())
    assert allowed_entries() == "c.example.org=MY_KEY,a.example.org,b.example.org:8443="


@pytest.mark.slow
def test_interrupted_and_killed_runs_side_by_side_go_on(mage: Mage, tmp_path: Path) -> None:
    config = tiny_config("steps=400", "checkpoint.every=5", *EVALUATED)
    (tmp_path / "tiny.toml").write_text(to_toml(config), encoding="utf-8")
    folder = tmp_path / "sweep"
    runs = [folder / f"tiny-seed{seed}" for seed in (0, 1)]

    def num_steps() -> int:
        return min(count_lines(run / "timings.jsonl") for run in runs)

    begun = when(lambda: num_steps() >= 3, SIGINT)
    options = ("--seeds", "3", "--jobs", "2", "--run", folder)
    ended = mage("sweep", tmp_path / "tiny.toml", *options, meanwhile=begun)
    assert ended.code == 0, ended.said
    assert "finishing the steps under way; interrupt again to stop at once" in ended.said
    assert ended.said.endswith(f"\ngo on with  mage sweep --resume {folder}\n")
    assert "run 3 of 3" not in ended.said, "none is begun after an interrupt"
    assert [run.state for run in summarise(folder).runs] == [RunState.OPEN] * 3
    saved = num_steps()
    assert [open_run(run).step for run in runs] == [count_lines(run / "timings.jsonl") for run in runs]
    ended = mage("sweep", "--resume", folder, "--jobs", "2", meanwhile=when(lambda: num_steps() >= saved + 10, SIGKILL))
    assert ended.code == -SIGKILL
    wait_until(lambda: not any(is_file_locked(run / "trials.jsonl") for run in runs))
    left = {run: count_lines(run / "timings.jsonl") for run in runs}
    time.sleep(0.5)
    assert {run: count_lines(run / "timings.jsonl") for run in runs} == left, "no process goes on without its parent"
    assert all(steps < 400 for steps in left.values())


def wait_until(condition: object, limit_s: float = 20.0) -> None:
    assert callable(condition)
    end = time.monotonic() + limit_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()
