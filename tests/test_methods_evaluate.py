"""The command that compares all methods: what it runs, and that it goes on where it was stopped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.methods import SETS, Set, comparison_of, main, sweeps_of, with_methods
from mage.runs.sweep_plan import read_plan
from mage.training.sweep import summarise

TINY = (
    "agent.model=nano(hidden=16,layers=1,heads=2)",
    "batch.groups=2",
    "batch.size=2",
    "tokens=1",
    'evaluation.splits=["kuhn-scripts"]',
    "evaluation.final_trials=1",
)


def test_the_commands_are_those_of_a_new_sweep_or_of_one_that_has_begun(tmp_path: Path) -> None:
    first, *_, last = sweeps_of("kuhn", tmp_path, ["seed=5"], minutes=2.0)
    assert first.arguments == (
        *("sweep", "kuhn-base+mage", "seed=5", "--seeds", "3", "--max-minutes", "2.0"),
        *("--run", str(tmp_path / "kuhn" / "mage")),
    )
    assert last.arguments[1:4] == ("kuhn-base+mage", "credit.options.scale=none", "seed=5")
    assert last.log == tmp_path / "kuhn-mage-no-scaling.log"
    (tmp_path / "kuhn" / "mage").mkdir(parents=True)
    (tmp_path / "kuhn" / "mage" / "sweep.json").touch()
    assert sweeps_of("kuhn", tmp_path, [])[0].arguments == ("sweep", "--resume", str(tmp_path / "kuhn" / "mage"))
    arms = [f"{arm}={tmp_path / 'kuhn' / arm}" for arm in ("mage", "grpo", "lamer", "mage-no-scaling")]
    assert comparison_of("kuhn", tmp_path).arguments == ("compare", *arms, "-o", str(tmp_path / "kuhn-compared"))


def test_every_set_keeps_the_time_it_was_given() -> None:
    times = {name: (chosen.minutes, chosen.seeds) for name, chosen in SETS.items()}
    long = {"rps-cost": (10.0, 3), "rps-league": (15.0, 3), "kuhn-league": (15.0, 3)}
    assert times == {"rps": (1.5, 3), "kuhn": (3.0, 3), **long, "rps-llm": (3.0, 3), "kuhn-llm": (6.0, 1)}


def test_an_unknown_set_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["chess"])
    known = "rps, kuhn, rps-cost, rps-league, kuhn-league, rps-llm, kuhn-llm"
    assert f"unknown set chess; known: {known}" in capsys.readouterr().err


@pytest.mark.slow
def test_a_set_is_trained_and_compared_and_then_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETS, "kuhn", Set(arms=with_methods("kuhn-base", "mage", "grpo"), minutes=3.0))
    given = ["kuhn", *TINY, "--seeds", "1", "--out", str(tmp_path)]
    assert main(given) == 0
    for arm in ("mage", "grpo"):
        assert [run.name for run in read_plan(tmp_path / "kuhn" / arm).runs] == [f"kuhn-base+{arm}-seed0"]
        assert summarise(tmp_path / "kuhn" / arm).is_done
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("kuhn/*/*/checkpoints/*/model.safetensors")}
    assert len(before) == 2
    table = (tmp_path / "kuhn-compared" / "table.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (mage|grpo) \|", table, re.MULTILINE) == ["mage", "grpo"] * 2
    assert main(given) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
