"""The command that compares all methods: what it runs, and that it goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.judge import SETS, Set, comparison_of, main, sweeps_of
from mage.learn.plan import read_plan
from mage.learn.sweep import summarise

TINY = (
    "agent.model=nano(hidden=16,layers=1,heads=2)",
    "batch.groups=2",
    "batch.size=2",
    "tokens=1",
    'evaluation.splits=["kuhn-scripts"]',
    "evaluation.final_trials=1",
)


def test_the_commands_are_those_of_a_new_sweep_or_of_one_that_has_begun(tmp_path: Path) -> None:
    first, second = sweeps_of("kuhn", tmp_path, ["seed=5"], minutes=2.0)
    assert first.arguments == (
        *("sweep", "kuhn-mage", "kuhn-lamer", "seed=5", "--seeds", "3", "--max-minutes", "2.0"),
        *("--run", str(tmp_path / "kuhn-a")),
    )
    assert second.log == tmp_path / "kuhn-b.log"
    (tmp_path / "kuhn-a").mkdir()
    (tmp_path / "kuhn-a" / "sweep.json").touch()
    assert sweeps_of("kuhn", tmp_path, [])[0].arguments == ("sweep", "--resume", str(tmp_path / "kuhn-a"))
    folders = [str(tmp_path / name) for name in ("kuhn-a", "kuhn-b")]
    assert comparison_of("kuhn", tmp_path).arguments == ("compare", *folders, "-o", str(tmp_path / "kuhn"))


def test_every_set_keeps_the_time_it_was_given() -> None:
    times = {name: (chosen.minutes, chosen.seeds) for name, chosen in SETS.items()}
    long = {"rps-cost": (10.0, 3), "rps-league": (15.0, 3), "kuhn-league": (15.0, 3)}
    assert times == {"rps": (1.5, 3), "kuhn": (3.0, 3), **long, "rps-llm": (3.0, 3), "kuhn-llm": (6.0, 1)}


def test_an_unknown_set_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["chess"])
    known = "rps, kuhn, rps-cost, rps-league, kuhn-league, rps-llm, kuhn-llm"
    assert f"unknown set chess; known: {known}" in capsys.readouterr().err


def test_a_set_is_trained_and_compared_and_then_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETS, "kuhn", Set(sweeps=(("kuhn-mage", "kuhn-grpo"),), minutes=3.0))
    given = ["kuhn", *TINY, "--seeds", "1", "--out", str(tmp_path)]
    assert main(given) == 0
    assert [run.name for run in read_plan(tmp_path / "kuhn-a").runs] == ["kuhn-mage-seed0", "kuhn-grpo-seed0"]
    assert summarise(tmp_path / "kuhn-a").is_done
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("kuhn-a/*/checkpoints/*/model.safetensors")}
    assert len(before) == 2
    table = next((tmp_path / "kuhn").glob("*.md")).read_text(encoding="utf-8")
    assert "kuhn-mage" in table
    assert "kuhn-grpo" in table
    assert main(given) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
