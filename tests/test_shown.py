"""What is shown: trials of any recipe or world, metrics apart from evaluations, short values in a notebook, numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import mage
from mage.errors import ConfigError
from mage.evaluation.suite.report_tables import interval
from mage.models.load import check_words, load_model
from mage.runs.store import RunReader
from mage.stats import Estimate
from mage.types import Trial
from tests.processes import Mage

NANO = "agent.model=nano(hidden=16,layers=1,heads=2,context=512)"


def test_trials_are_played_by_the_recipes_own_model(mage: Mage, tmp_path: Path) -> None:
    given = ("rps", NANO, "agent.context=512", "trials=2", "--run", "run")
    done = mage("trials", *given, cwd=tmp_path, err=tmp_path / "err.txt")
    assert done.code == 0, (tmp_path / "err.txt").read_text()
    assert "Trial 0 of 2" in done.said
    outcomes = list(RunReader(tmp_path / "run").trials())
    assert [type(outcome) for outcome in outcomes] == [Trial, Trial]
    assert (tmp_path / "run" / "tokenizer" / "tokenizer.json").is_file()


@pytest.mark.parametrize("world", ["kuhn_poker", "rps(rounds=2)", "hidden(doors)"])
def test_a_world_is_played_without_a_recipe(mage: Mage, world: str, tmp_path: Path) -> None:
    done = mage("trials", world, "trials=1", "--run", "run", cwd=tmp_path)
    assert done.code == 0, done.said
    (trial,) = RunReader(tmp_path / "run").trials()
    assert isinstance(trial, Trial)
    assert trial.task.world == world


def test_metrics_of_steps_and_evaluations_are_apart_and_values_are_short(tmp_path: Path) -> None:
    tiny = {
        "agent.model": NANO.partition("=")[2],
        "agent.context": 512,
        "batch.groups": 2,
        "batch.size": 4,
        "steps": 2,
        "evaluation.splits": ["rps-seven"],
        "evaluation.every": 1,
        "evaluation.trials": 1,
        "evaluation.final_trials": 1,
    }
    run = mage.train("rps", tiny, folder=tmp_path / "run", quiet=True)
    assert [line["step"] for line in run.metrics()] == [1, 2]
    assert [line["step"] for line in run.evaluations()] == [1, 2]
    assert not any(key.startswith("eval/") for line in run.metrics() for key in line)
    assert all("eval/rps-seven/score_3" in line for line in run.evaluations())
    report = mage.evaluate(run, trials=1)
    assert repr(run) == f"Run({str(tmp_path / 'run')!r}, rps(rounds=3), step 2 of 2)"
    assert repr(report).startswith("Report(step 2, last scores: rps-seven ")
    values = (report, mage.compare(run), mage.value("hidden(doors)", episodes=1))
    assert all(len(repr(value)) < 100 and "\n" not in repr(value) for value in values)


def test_zero_is_0_in_tables() -> None:
    assert interval(Estimate(-0.0001, -0.0002, 0.0)) == "0 ±0"
    assert interval(Estimate(0.25, None, None)) == "+0.250 ±n/a"


def test_a_nano_without_the_words_of_a_world_says_how_to_give_them() -> None:
    loaded = load_model("nano(hidden=16,heads=2,words=[hawk])", seed=0, dtype="float32", device="cpu", worlds=["rps"])
    with pytest.raises(ConfigError, match=r"'agent.model=nano\(words=\[hawk, heads, tails\]\)'"):
        check_words(loaded, "pennies")
