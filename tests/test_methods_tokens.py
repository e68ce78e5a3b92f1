"""A limit on tokens: a run ends where it is passed, its schedules follow it, and a resumed run may get more."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import pytest
from rich.console import Console

import mage
from mage.errors import ConfigError
from mage.files import read_lines
from mage.training.run import create_run_directory, train_run
from tests.tiny import tiny_config


def limited(folder: Path, tokens: int, *overrides: str) -> list[dict[str, float]]:
    """The steps of a run that has a limit."""
    create_run_directory(tiny_config("steps=20", f"tokens={tokens}", "alarms.entropy=0.0", *overrides), folder)
    assert train_run(folder, Console(quiet=True)).is_finished
    return steps(folder)


def steps(folder: Path) -> list[dict[str, float]]:
    return [line for line in read_lines(folder / "metrics.jsonl") if "learner/tokens" in line]


def test_a_run_ends_with_the_step_that_reaches_its_limit(tmp_path: Path) -> None:
    found = limited(tmp_path / "run", 5000)
    *before, last = accumulate(line["learner/tokens"] for line in found)
    assert before[-1] < 5000 <= last
    assert 2 < len(found) < 20
    run = mage.open_run(tmp_path / "run")
    assert run.is_finished
    assert (run.step, run.num_tokens) == (len(found), last)
    assert (tmp_path / "run" / "evaluations" / "final.json").exists()


def test_schedules_follow_the_tokens(tmp_path: Path) -> None:
    bonus = ("learner.entropy_start=0.4", "learner.entropy_end=0.1", "learner.decay=true", "learner.lr=0.01")
    found = limited(tmp_path / "run", 5000, *bonus)
    behind = [0.0, *accumulate(line["learner/tokens"] / 5000 for line in found[:-1])]
    assert [line["learner/lr"] for line in found] == pytest.approx([0.01 * (1 - share) for share in behind])
    assert [line["learner/entropy_bonus"] for line in found] == pytest.approx([0.4 - 0.3 * share for share in behind])


def test_a_run_that_was_stopped_counts_on(tmp_path: Path) -> None:
    whole = limited(tmp_path / "whole", 5000)
    create_run_directory(tiny_config("steps=20", "tokens=5000", "alarms.entropy=0.0"), tmp_path / "halves")
    train_run(tmp_path / "halves", Console(quiet=True), max_minutes=0)
    assert len(steps(tmp_path / "halves")) == 1
    train_run(tmp_path / "halves", Console(quiet=True))
    assert steps(tmp_path / "halves") == whole


def test_a_run_may_get_more_tokens_and_not_fewer(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    num = len(limited(folder, 5000))
    for values, says in (
        ({"tokens": 4000}, "tokens = 4000: .* has 5000, and can only get more, or 0 for no limit"),
        ({"steps": 40}, rf"is done after {num} steps and \d+ tokens; give it more"),
        ({"learner.lr": 0.5}, "is done after"),
    ):
        with pytest.raises(ConfigError, match=says):
            train_run(folder, Console(quiet=True), values=values)
    train_run(folder, Console(quiet=True), values={"tokens": 8000})
    assert sum(line["learner/tokens"] for line in steps(folder)) >= 8000
    train_run(folder, Console(quiet=True), values={"tokens": 0})
    assert len(steps(folder)) == 20


def test_a_run_without_a_limit_gets_none(tmp_path: Path) -> None:
    create_run_directory(tiny_config("steps=3"), tmp_path / "run")
    train_run(tmp_path / "run", Console(quiet=True), max_minutes=0)
    with pytest.raises(ConfigError, match=r"tokens = 9: .* has no limit, and can only get more"):
        train_run(tmp_path / "run", Console(quiet=True), values={"tokens": 9})
