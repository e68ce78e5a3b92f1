"""docs/metrics.md is true: it defines every key that is logged, once, and no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.errors import PlayError
from mage.evaluation.exact import MyopicScores, References
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.metrics import OutcomeRates, PassAtK, TrialMetrics
from mage.evaluation.suite.notes_alone import NotesAlone
from mage.evaluation.suite.opponent_naming import Naming
from mage.evaluation.suite.reflections import ReflectionReport
from mage.evaluation.suite.regret import ScoreParts, TaskValue
from mage.evaluation.suite.report import EvaluationReport
from mage.evaluation.suite.switch_recovery import Recovery
from mage.files import read_lines
from mage.stats import Estimate
from mage.training.sweep_dial import SweepDial, SweepLine, SweepPoint
from mage.training.sweep_summary import RecipeSummary, SweepRun, SweepSummary
from tests.documented import documented, fits
from tests.test_docs import JUDGED, MODEL, SMALL

OPEN = ("config", "versions", "best_response", "missing", "eval_agent", "seconds")
"""Keys of a report whose values have names of their own inside."""


def keys_of(values: Any) -> Iterator[str]:
    """All keys of a JSON value, at any depth, but not the names inside open ones."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield key
            yield from () if key in OPEN else keys_of(value)
    elif isinstance(values, list):
        for value in values:
            yield from keys_of(value)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Six small runs that together write everything there is to write."""
    folder = tmp_path_factory.mktemp("runs")
    common: dict[str, object] = {
        **SMALL,
        "steps": 2,
        "agent.model": MODEL,
        "agent.context": 512,
        "credit.options": {},
        "evaluation.splits": [],
    }
    everything = {
        **JUDGED,
        "evaluation.every": 1,
        "evaluation.trials": 2,
        "agent.memory": "both",
        "agent.thoughts": "strip",
        "agent.reflection_tokens": 4,
        "credit.estimator": "ppo",
        "learner.divergence": "k3",
        "learner.divergence_weight": 0.1,
        "learner.prediction_weight": 0.1,
    }
    collapsing = {
        "checkpoint.every": 1,
        "learner.lr": 0.1,
        "alarms.entropy": 0.99,
        "alarms.patience": 1,
        "alarms.action": "rollback",
    }
    skipping = {"steps": 1, "learner.entropy_start": 1e39}  # a loss that is not finite
    cloning = {"steps": 1, "credit.estimator": "cloning"}
    scheduled = {"steps": 1, "schedule.rounds": [[0.0, 3]], "agent.reply": "text", "agent.max_tokens": 4}
    revisiting = {"batch.groups": 8, "batch.replay": 0.2, "population.split": "", "population.members": ["uniform"]}
    special: dict[str, Mapping[str, object]] = {
        "everything": everything,
        "collapsing": collapsing,
        "skipping": skipping,
        "cloning": cloning,
        "revisiting": revisiting,
        "scheduled": scheduled,
    }
    made: list[Path] = []
    for name, values in special.items():
        made.append(mage.train("rps", {**common, **values}, folder=folder / name, quiet=True).path)
    mage.open_run(made[1]).resume({"steps": 3, "alarms.patience": 9}, quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mage.training.loop.estimate", Mock(side_effect=PlayError("a fault")))
        with pytest.raises(PlayError, match="a fault"):
            mage.open_run(made[2]).resume({"steps": 2}, quiet=True)
    mage.evaluate(made[0], trials=2)
    done = CliRunner().invoke(app, ["evaluate", str(made[0]), "--trials", "2", "--reflections"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return made


def test_no_key_is_defined_twice() -> None:
    for section in ("metrics.jsonl", "timings.jsonl", "events.jsonl", "credit.jsonl", "evaluations"):
        keys = documented(section)
        assert len(set(keys)) == len(keys), section


@pytest.mark.parametrize("name", ["metrics.jsonl", "timings.jsonl", "events.jsonl"])
def test_what_is_logged_is_documented_and_what_is_documented_is_logged(name: str, runs: list[Path]) -> None:
    logged = {key for run in runs for line in read_lines(run / name) for key in line}
    patterns = documented(name)
    assert sorted(key for key in logged if sum(fits(p, key) for p in patterns) != 1) == [], "not documented, or twice"
    assert [p for p in patterns if not any(fits(p, key) for key in logged)] == [], "never logged"


def test_the_keys_of_credit_are_documented(runs: list[Path]) -> None:
    written = {key for run in runs for line in read_lines(run / "credit.jsonl") for key in keys_of(line)}
    assert sorted(written) == sorted(documented("credit.jsonl"))


def test_the_keys_of_evaluations_are_documented(runs: list[Path]) -> None:
    files = sorted((runs[0] / "evaluations").glob("*.json"))
    assert [path.name for path in files] == ["final.json", "reflections-000002.json", "step-000002.json"]
    written = {key for path in files for key in keys_of(msgspec.json.decode(path.read_bytes()))}
    assert written <= set(documented("evaluations"))
    kinds = (
        EvaluationReport,
        SplitReport,
        ReflectionReport,
        TrialMetrics,
        OutcomeRates,
        PassAtK,
        Recovery,
        Naming,
        NotesAlone,
        Estimate,
        References,
        MyopicScores,
        ScoreParts,
        TaskValue,
    )
    assert set(documented("evaluations")) == {field.name for kind in kinds for field in msgspec.structs.fields(kind)}


def test_the_keys_of_sweeps_are_documented() -> None:
    kinds = (SweepSummary, SweepRun, RecipeSummary)
    assert sorted(documented("sweeps")) == sorted({f.name for kind in kinds for f in msgspec.structs.fields(kind)})


def test_the_keys_of_dials_are_documented() -> None:
    kinds = (SweepDial, SweepLine, SweepPoint)
    assert sorted(documented("dials")) == sorted({f.name for kind in kinds for f in msgspec.structs.fields(kind)})
