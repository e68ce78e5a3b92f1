"""Resuming with other settings: what may change, what is written down about it, and that it is as good as a kill."""

from __future__ import annotations

import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.config.schema import Config
from mage.errors import ConfigError, MageError
from mage.evaluation.splits import write_split
from mage.files import read_lines
from mage.runs.store import read_info
from mage.training.checkpoint import checkpoints, read_state
from mage.training.resume_changes import MAY_CHANGE, changed_config, config_of
from mage.training.run import create_run_directory, train_run
from tests.tiny import tiny_config
from tests.tree import ROOT

GAME = "rps(rounds=3)"
JUDGED = ("evaluation.every=1", 'evaluation.splits=["rps-seven"]', "evaluation.trials=1", "evaluation.final_trials=1")


def begun(folder: Path, *overrides: str) -> Path:
    """A run of four steps that was stopped after one."""
    create_run_directory(
        tiny_config("steps=4", "checkpoint.every=10", "alarms.entropy=0.0", f"world={GAME}", *overrides), folder
    )
    train_run(folder, Console(quiet=True), max_minutes=0)
    assert newest(folder) == 1
    return folder


def resumed(folder: Path, max_minutes: float | None = None, **values: object) -> str:
    said = StringIO()
    train_run(
        folder, Console(file=said, width=200), max_minutes, values={k.replace("__", "."): v for k, v in values.items()}
    )
    return said.getvalue()


def newest(folder: Path) -> int:
    return read_state(checkpoints(folder / "checkpoints")[-1]).step


def metrics(folder: Path, key: str) -> list[float]:
    return [line[key] for line in read_lines(folder / "metrics.jsonl") if key in line]


def events(folder: Path) -> list[dict[str, Any]]:
    return list(read_lines(folder / "events.jsonl"))


def outcome(folder: Path) -> dict[str, bytes]:
    """What equal runs have equal."""
    weights = f"checkpoints/step-{newest(folder):06d}/model.safetensors"
    return {name: (folder / name).read_bytes() for name in ("metrics.jsonl", "trials.jsonl", "events.jsonl", weights)}


def test_a_change_counts_from_its_step_on_and_for_every_further_resume(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", "learner.lr=0.001")
    said = resumed(folder, 0, learner__lr=0.05)
    assert "from step 1 on: learner.lr = 0.05, not 0.001" in said
    assert config_of(folder).learner.lr == 0.05
    assert "learner.lr" not in resumed(folder), "said once"
    assert metrics(folder, "learner/lr") == [0.001, 0.05, 0.05, 0.05]
    assert events(folder) == [{"step": 1, "changed": "learner.lr", "old": 0.001, "new": 0.05}]
    (change,) = read_info(folder).changes
    assert (change.step, change.key, change.old, change.new) == (1, "learner.lr", 0.001, 0.05)
    assert mage.open_run(folder).config.learner.lr == 0.05


def test_a_change_to_what_it_was_is_none(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", "learner.lr=0.001")
    before = (folder / "run.json").read_bytes()
    resumed(folder, learner__lr=0.001, steps=4)
    assert (folder / "run.json").read_bytes() == before
    assert events(folder) == []


def test_a_changed_run_that_is_stopped_or_loses_steps_comes_to_the_same_end(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", *JUDGED)
    broken = shutil.copytree(folder, tmp_path / "broken")
    values = {"learner__lr": 0.05, "learner__entropy_start": 0.2, "evaluation__trials": 2}
    resumed(folder, **values)
    # As a kill before the next checkpoint leaves it: changed, with lines in the logs that no checkpoint knows of.
    resumed(broken, 0, **values)
    shutil.rmtree(broken / "checkpoints" / "step-000002")
    assert len(events(broken)) == 3
    resumed(broken, 0)
    assert len(events(broken)) == 3, "set aside with the lines after the checkpoint, and written anew"
    resumed(broken)
    assert outcome(broken) == outcome(folder)
    assert [event["step"] for event in events(broken)] == [1, 1, 1]
    assert len(read_info(broken).changes) == 3


def test_a_run_that_is_done_goes_on_with_more_steps(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", *JUDGED)
    resumed(folder)
    final = folder / "evaluations" / "final.json"
    before = final.read_bytes()
    resumed(folder, steps=6)
    assert (folder / "evaluations" / "final-000004.json").read_bytes() == before
    assert msgspec.json.decode(final.read_bytes())["step"] == 6
    assert newest(folder) == 6
    assert [line["step"] for line in read_lines(folder / "metrics.jsonl") if "learner/lr" in line] == [1, 2, 3, 4, 5, 6]
    assert [(e["step"], e["changed"], e["old"], e["new"]) for e in events(folder)] == [(4, "steps", 4, 6)]
    done = outcome(folder)
    resumed(folder)
    assert outcome(folder) == done, "and is then done again"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"steps": 3}, "steps = 3: .* has 4 already, and can only get more"),
        ({"batch.size": 9}, r"batch.size cannot change in a run that has begun; steps, trackers, alarms.\*, .* can$"),
        ({"learner.lr": 1.0, "seed": 7}, "seed cannot change"),
        ({"learner.clip_low": 0.1}, "learner.clip_low cannot change"),
        ({"population.split": "rps-seven"}, "population.split cannot change"),
        ({"agent": {"memory": "both"}}, "agent.* cannot change"),
        ({"learner.speed": 1}, "unknown key 'learner.speed'"),
        ({"learner.lr": -1}, "learner.lr = -1"),
        ({"trackers": ["paper"]}, "unknown tracker 'paper'"),
        ({"evaluation.splits": ["nope"]}, "unknown split 'nope'"),
        ({"evaluation.splits": ["rps-seven", "rps-seven"]}, "name each split once"),
        ({"learner.entropy_floor": 0.5}, "learner.entropy_floor = 0.5 raises the entropy bonus"),
    ],
)
def test_anything_else_is_refused_in_one_line_and_changes_nothing(
    tmp_path: Path, stopped: Path, values: dict[str, object], says: str
) -> None:
    folder = shutil.copytree(stopped, tmp_path / "run")
    before = (folder / "run.json").read_bytes(), outcome(folder)
    with pytest.raises(MageError, match=says) as caught:
        train_run(folder, Console(quiet=True), values=values)
    assert "\n" not in str(caught.value)
    assert ((folder / "run.json").read_bytes(), outcome(folder)) == before


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return begun(tmp_path_factory.mktemp("runs") / "run")


def test_what_may_change_is_there_to_be_changed(stopped: Path) -> None:
    """A pattern that names nothing would be a promise that nobody can use."""
    sections = {name: field.annotation for name, field in Config.model_fields.items()}
    keys = [
        *sections,
        "schedule.rounds",  # its keys are parameters of the world
        *(f"{name}.{key}" for name, kind in sections.items() for key in getattr(kind, "model_fields", ())),
    ]
    for pattern in MAY_CHANGE:
        start_of, star, _ = pattern.partition("*")
        assert any(key.startswith(start_of) if star else key == pattern for key in keys), pattern
        assert f"`{pattern}`" in (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8"), pattern
    values = {"alarms.drop": 1.5, "checkpoint.keep": 5, "learner.entropy_reflect": 0.5, "evaluation.seed": 3}
    assert {change.key for change in changed_config(stopped, values)[1]} == set(values)


def test_a_run_that_is_done_and_gets_no_more_steps_cannot_change(tmp_path: Path, stopped: Path) -> None:
    folder = shutil.copytree(stopped, tmp_path / "run")
    resumed(folder)
    with pytest.raises(ConfigError, match=r"is done after 4 steps; give it more to change how it goes on"):
        resumed(folder, learner__lr=1.0)


def test_scores_on_other_tasks_are_not_compared_with_earlier_ones(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", *JUDGED)
    state = read_state(checkpoints(folder / "checkpoints")[-1])
    assert state.best is not None
    assert state.best[1] == 1
    assert list(state.watch.best) == ["rps-seven"]
    write_split(tmp_path / "easy.json", GAME, ["always:rock"])
    resumed(folder, 0, evaluation__splits=[str(tmp_path / "easy.json")])
    (tmp_path / "easy.json").unlink()
    state = read_state(checkpoints(folder / "checkpoints")[-1])
    assert state.best is not None
    assert state.best[1] == 2, "the first evaluation by the new split is the best so far"
    assert list(state.watch.best) == ["easy"]
    resumed(folder)
    assert len(metrics(folder, "eval/easy/score_2")) == 3, "the run has its own copy"


def test_another_split_of_a_name_that_the_run_has_is_refused(tmp_path: Path) -> None:
    write_split(tmp_path / "mine.json", GAME, ["always:rock"])
    folder = begun(tmp_path / "run", f'evaluation.splits=["{tmp_path / "mine.json"}"]', "evaluation.final_trials=1")
    write_split(tmp_path / "b" / "mine.json", GAME, ["always:paper"])
    with pytest.raises(ConfigError, match="has another split called 'mine'; give the new one another name"):
        resumed(folder, evaluation__splits=[str(tmp_path / "b" / "mine.json")])


def test_a_member_that_a_new_split_holds_out_is_refused(tmp_path: Path, stopped: Path) -> None:
    folder = shutil.copytree(stopped, tmp_path / "run")
    write_split(tmp_path / "late.json", GAME, ["always:rock"], held_out=True)
    with pytest.raises(ConfigError, match="is held out by the split 'late'"):
        resumed(folder, evaluation__splits=[str(tmp_path / "late.json")])
    assert not (folder / "splits").exists()


def test_the_command_line_and_python_change_the_same(tmp_path: Path, stopped: Path) -> None:
    by_command, by_python = (shutil.copytree(stopped, tmp_path / name) for name in ("command", "python"))
    arguments = ["train", "--resume", str(by_command), "learner.lr=0.025", "checkpoint.keep=7"]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    run = mage.open_run(by_python).resume({"learner.lr": 0.025, "checkpoint.keep": 7}, quiet=True)
    assert (run.step, run.config.learner.lr, run.config.checkpoint.keep) == (4, 0.025, 7)
    assert outcome(by_command) == outcome(by_python)
    assert read_info(by_command).config == read_info(by_python).config
    with pytest.raises(ConfigError, match="give a recipe to train by, or --resume RUN"):
        CliRunner().invoke(app, ["train", "--resume", str(by_command), "rps", "steps=9"], catch_exceptions=False)
