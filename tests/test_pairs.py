"""The same task at several steps of a training is found again, in old runs too."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from mage.runs.same_task import pairs_of
from mage.runs.store import RunReader, RunWriter
from mage.training.run import create_run_directory, train_run
from mage.types import Trial
from tests.recorded import betting, failure, guest_trial, make_task, model_trial, with_version
from tests.tiny import tiny_config


def trained(folder: Path, *overrides: str) -> RunReader:
    create_run_directory(tiny_config("steps=5", *overrides), folder)
    train_run(folder, Console(file=StringIO()))
    return RunReader(folder)


def test_the_showcase_is_one_task_before_during_and_after(tmp_path: Path) -> None:
    reader = trained(tmp_path / "run", "checkpoint.every=2", "checkpoint.transcripts=1")
    (pair,) = pairs_of(reader)
    assert pair.steps == (0, 2, 4, 5)
    played = [reader.trial(number) for number in pair.trials]
    assert pair.trials[0] == 0
    assert pair.trials[-1] == reader.summaries()[-1].number
    assert {(t.task.world, t.task.opponents, t.task.seat, t.task.seed) for t in played} == {
        (pair.world, pair.opponents, pair.seat, pair.seed)
    }
    assert all(isinstance(trial, Trial) for trial in played)


def test_it_is_also_played_where_weights_are_judged(tmp_path: Path) -> None:
    evaluated = ("evaluation.every=3", 'evaluation.splits=["rps-seven"]', "world=rps(rounds=3)")
    few = ("evaluation.trials=2", "evaluation.final_trials=2", "checkpoint.every=100")
    (pair,) = pairs_of(trained(tmp_path / "run", *evaluated, *few))
    assert pair.steps == (0, 3, 5)


def test_a_run_that_keeps_no_transcripts_shows_the_beginning_and_the_end(tmp_path: Path) -> None:
    reader = trained(tmp_path / "run", "checkpoint.every=1", "checkpoint.transcripts=0")
    (pair,) = pairs_of(reader)
    assert (pair.trials, pair.steps) == ((0, 1), (0, 5))


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return RunWriter.create(tmp_path / "made", kind="train", config={}, seed=0)


def test_siblings_failures_and_repetitions_are_no_pair(writer: RunWriter) -> None:
    task = make_task()
    trial = with_version(model_trial(task, betting()), 7)
    other = model_trial(make_task(seed=2), betting())
    with writer:
        writer.append(trial)
        writer.append(msgspec.structs.replace(trial, sibling=1))
        writer.append(msgspec.structs.replace(failure(), sibling=0))
        writer.append(trial)  # the same step again
        writer.append(other)
    assert pairs_of(RunReader(writer.path)) == []


def test_steps_ascend_whatever_the_order_on_file(writer: RunWriter) -> None:
    trial = model_trial(make_task(), betting())
    with writer:
        for version in (9, 0, 4):
            writer.append(with_version(trial, version))
    (pair,) = pairs_of(RunReader(writer.path))
    assert (pair.trials, pair.steps) == ((1, 2, 0), (0, 4, 9))


def test_agents_without_weights_and_other_kinds_of_runs_have_no_pairs(writer: RunWriter, tmp_path: Path) -> None:
    with writer:
        for _ in range(2):
            writer.append(guest_trial(make_task()))
    assert pairs_of(RunReader(writer.path)) == []
    with RunWriter.create(tmp_path / "duel", kind="duel", config={}, seed=0) as duel:
        for version in (0, 1):
            duel.append(with_version(model_trial(make_task(), betting()), version))
    assert pairs_of(RunReader(duel.path)) == []
