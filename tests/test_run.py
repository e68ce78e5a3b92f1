"""What a run does when things go wrong: alarms that stop it or roll it back, losses that are not finite."""

from __future__ import annotations

import math
import signal
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from mage.credit.steps import agent_turns
from mage.errors import ConfigError, MageError, RecordError
from mage.files import read_lines
from mage.learners.local import LearnError
from mage.runs.store import RunReader, RunWriter
from mage.training.alarms import MAX_ROLLBACKS
from mage.training.checkpoint import checkpoints, read_state
from mage.training.recorder import RunRecorder
from mage.training.resume_changes import config_of
from mage.training.run import create_run, create_run_directory, interruptible, load_run, train_run
from tests.tiny import evaluated, logprobs, play, samples_of, tiny_config, tiny_parts, with_advantage


def run(folder: Path, *overrides: str) -> str:
    """Train, or go on, in this process; what was said comes back."""
    if not folder.exists():
        create_run_directory(tiny_config("checkpoint.transcripts=1", *overrides), folder)
    said = StringIO()
    train_run(folder, Console(file=said, width=200))
    return said.getvalue()


def events(folder: Path) -> list[dict[str, Any]]:
    return list(read_lines(folder / "events.jsonl"))


def names(folder: Path) -> list[str]:
    return [path.name for path in checkpoints(folder / "checkpoints")]


def weights(folder: Path, step: int) -> bytes:
    return (folder / "checkpoints" / f"step-{step:06d}" / "model.safetensors").read_bytes()


ALWAYS = ("alarms.entropy=1.0", "learner.lr=0.01")
"""Entropy is under one from the first step on."""


def test_a_quiet_run_has_no_events_and_ends_with_its_newest_checkpoints(tmp_path: Path) -> None:
    said = run(tmp_path / "run", "steps=5", "checkpoint.every=1", "checkpoint.keep=3")
    assert "alarm" not in said
    assert events(tmp_path / "run") == []
    assert names(tmp_path / "run") == ["step-000003", "step-000004", "step-000005"]
    assert len({weights(tmp_path / "run", step) for step in (3, 4, 5)}) == 3
    assert {line["step"] for line in read_lines(tmp_path / "run" / "timings.jsonl")} == {1, 2, 3, 4, 5}
    # The task shown before, at every checkpoint and after, and two siblings of each step's first group.
    assert len(RunReader(tmp_path / "run").summaries()) == 6 + 2 * 5


def test_an_alarm_that_prints_is_recorded_and_the_run_goes_on(tmp_path: Path) -> None:
    said = run(tmp_path / "run", "steps=4", "alarms.patience=2", *ALWAYS)
    assert said.count("alarm at step") == 2
    assert [(event["step"], event["action"]) for event in events(tmp_path / "run")] == [(2, "print"), (4, "print")]
    assert names(tmp_path / "run") == ["step-000004"]


def test_an_interrupt_that_comes_between_two_steps_saves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_save_due = vars(RunRecorder)["is_save_due"].fget

    def interrupted(recorder: RunRecorder) -> bool:
        found: bool = is_save_due(recorder)
        if not recorder.is_stopped:
            recorder.interrupt()
        return found

    monkeypatch.setattr(RunRecorder, "is_save_due", property(interrupted))
    run(tmp_path / "run", "steps=4", "checkpoint.every=4")
    assert names(tmp_path / "run") == ["step-000001"]


def test_an_alarm_that_stops_saves_first_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    said = run(folder, "steps=4", "alarms.patience=2", "alarms.action=stop", *ALWAYS)
    assert said.splitlines()[-1] == "stopped by an alarm; resumed, the run goes on until the next one"
    assert "alarm at step 2: entropy/play is under 1.0 for 2 steps" in said
    assert names(folder) == ["step-000002"]
    # The streak goes on where it was: the next alarm is two steps away, not one.
    run(folder)
    assert names(folder) == ["step-000002", "step-000004"]
    assert [event["step"] for event in events(folder)] == [2, 4]


def test_without_a_healthy_checkpoint_a_rollback_stops(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    said = run(folder, "steps=4", "checkpoint.every=1", "alarms.patience=2", "alarms.action=rollback", *ALWAYS)
    assert said.splitlines()[-1] == "stopped by an alarm: there is no healthy checkpoint to go back to yet"
    assert [set(event) for event in events(folder)] == [{"step", "alarm", "action"}]
    assert names(folder)[-1] == "step-000002"
    assert read_state(folder / "checkpoints" / "step-000002").healthy is None


def test_rollbacks_take_the_weights_from_before_the_trouble_and_are_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    collapse = (
        "seed=2",
        "learner.lr=0.1",
        "credit.options={}",
        "alarms.entropy=0.8",
        "alarms.patience=2",
        "alarms.action=rollback",
    )
    said = run(folder, "steps=60", "checkpoint.every=1", "checkpoint.keep=100", *collapse)
    assert said.splitlines()[-1] == f"stopped by an alarm: the run has gone back {MAX_ROLLBACKS} times already"
    metrics = {line["step"]: line["entropy/play"] for line in read_lines(folder / "metrics.jsonl")}
    rollbacks = [(event["step"], event["rollback"]) for event in events(folder) if "rollback" in event]
    assert len(rollbacks) == MAX_ROLLBACKS
    for step, healthy in rollbacks:
        assert max(metrics[step], metrics[step - 1]) < 0.8 <= metrics[healthy] or healthy in dict(rollbacks)
        assert healthy < step - 1
        assert weights(folder, step) == weights(folder, healthy)
        assert weights(folder, step) != weights(folder, step - 1)
    # Two steps of patience had passed: the checkpoint of the first bad step is on file and was passed over.
    assert weights(folder, rollbacks[0][0] - 1) != weights(folder, rollbacks[0][1])
    state = read_state(checkpoints(folder / "checkpoints")[-1])
    assert state.rollbacks == MAX_ROLLBACKS


def test_a_score_that_fell_rolls_back_to_the_best(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    evaluated = ("evaluation.every=1", 'evaluation.splits=["rps-seven"]', "evaluation.trials=2", "world=rps(rounds=3)")
    fall = ("alarms.drop=0.0001", "alarms.action=rollback", "learner.lr=0.03")
    run(folder, "steps=8", "checkpoint.every=1", "checkpoint.keep=1", "evaluation.final_trials=2", *evaluated, *fall)
    rollbacks = [(event["step"], event["rollback"]) for event in events(folder) if "rollback" in event]
    assert rollbacks
    scores = {
        line["step"]: line["eval/rps-seven/score_2"]
        for line in read_lines(folder / "metrics.jsonl")
        if "eval/rps-seven/score_2" in line
    }
    for step, best in rollbacks:
        assert scores[best] == max(scores[n] for n in range(1, step + 1))
        assert scores[step] < scores[best]
    state = read_state(checkpoints(folder / "checkpoints")[-1])
    assert state.best is not None
    assert f"step-{state.best[1]:06d}" in names(folder)  # kept, though only one is kept otherwise


def test_an_update_that_is_not_finite_is_skipped_counted_and_in_the_end_refused() -> None:
    parts = tiny_parts("learner.max_skips=2")
    good = samples_of(parts)
    bad = [with_advantage(sample, math.nan) for sample in good]
    before = {name: tensor.clone() for name, tensor in parts.learner.weights().merged().items()}
    for _ in range(2):
        assert parts.learner.update(bad)["learner/skipped_updates"] == 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in parts.learner.weights().merged().items())
    assert "learner/skipped_updates" not in parts.learner.update(good)
    assert not all(torch.equal(tensor, before[name]) for name, tensor in parts.learner.weights().merged().items())
    for _ in range(2):
        parts.learner.update(bad)
    with pytest.raises(LearnError, match="not finite in 3 updates in a row; lower learner"):
        parts.learner.update(bad)


def test_a_run_whose_loss_is_never_finite_ends_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = import_module("mage.training.loop")
    honest = train.to_batch
    monkeypatch.setattr(train, "to_batch", lambda *a: [with_advantage(s, math.nan) for s in honest(*a)])
    folder = tmp_path / "run"
    with pytest.raises(LearnError, match="not finite in 3 updates in a row"):
        run(folder, "steps=6", "learner.max_skips=2", "checkpoint.every=1")
    assert [line["learner/skipped_updates"] for line in read_lines(folder / "metrics.jsonl")] == [1, 1]
    assert weights(folder, 1) == weights(folder, 2)
    # The count of skips is part of the checkpoint: the very next bad update ends the resumed run too.
    with pytest.raises(LearnError, match="not finite in 3 updates in a row"):
        run(folder)
    monkeypatch.setattr(train, "to_batch", honest)
    run(folder)
    assert names(folder)[-1] == "step-000006"


THINKING = (
    'agent.model=nano(hidden=16,layers=1,heads=2,context=512,words=["<think>","</think>"])',
    *("agent.reply=text", "agent.max_tokens=20", "agent.thoughts=strip", "agent.retries=2", "batch.size=16"),
)


def test_stripped_thoughts_are_read_by_nobody_and_trained_as_they_were_sampled() -> None:
    parts = tiny_parts(*THINKING)
    thought = parts.loaded.tokenizer.convert_tokens_to_ids("<think>")
    groups = play(parts)
    trials = [trial for group in groups for trial in group.trials]
    calls = [(trial.streams[call.stream], call) for trial in trials for t in agent_turns(trial) for call in t.calls]
    assert sum(thought in call.completion.tokens for _, call in calls) > 3
    assert max(len(trial.streams) for trial in trials) > 1
    for stream, call in calls:
        assert thought not in stream[: call.start]
        assert stream[call.start : call.start + len(call.completion.tokens)] == call.completion.tokens
    samples = evaluated(parts, groups)
    assert sum(len(sample.positions) for sample in samples) == sum(len(call.completion.tokens) for _, call in calls)
    for sample, found in zip(samples, logprobs(parts.learner, *samples), strict=True):
        assert found == pytest.approx(sample.logprobs, abs=1e-4)


def test_a_run_that_strips_thoughts_says_once_what_that_costs(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    create_run_directory(tiny_config("steps=2", "checkpoint.every=1", *THINKING), folder)
    said = StringIO()
    train_run(folder, Console(file=said, width=200), max_minutes=0)
    assert said.getvalue().startswith("agent.thoughts = strip: each answer with a thought begins a new stream")
    assert "strip" not in run(folder)
    assert [(event["step"], "cost the square" in event["warning"]) for event in events(folder)] == [(0, True)]


def test_a_large_model_that_auto_put_on_a_cpu_is_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mage.training.run.SMALL_MODEL", 100)
    monkeypatch.setattr("mage.models.device._has_cuda", lambda: False)
    heard: dict[str, list[str]] = {}
    for device in ("auto", "cpu"):
        folder = tmp_path / device
        create_run_directory(tiny_config("steps=1", "alarms.entropy=0.0", f"device={device}"), folder)
        run(folder)
        run(folder)
        heard[device] = [event["warning"] for event in events(folder) if "warning" in event]
    (warning,) = heard["auto"]
    assert warning.startswith("device = auto: PyTorch finds no GPU here, and a model of 0 million parameters")
    assert heard["cpu"] == []


def test_the_second_interrupt_interrupts() -> None:
    before = signal.getsignal(signal.SIGINT)
    heard: list[str] = []
    with interruptible(lambda: heard.append("first")):
        signal.raise_signal(signal.SIGINT)
        assert heard == ["first"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert heard == ["first"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("population.members=['nope']", "unknown opponent 'nope'"),
        ('trackers=["paper"]', "unknown tracker 'paper'"),
        ('evaluation.splits=["missing.json"]', "/missing.json' cannot be read"),
        ("trial.seats=[1, 2]", "seat 2 does not exist"),
        ("credit.estimator=nope", "unknown estimator 'nope'"),
        ("agent.model=no-such-folder/model", "no-such-folder/model"),
        ("agent.context=100000", "has room for 512 tokens"),
        ("agent.temperature=0", "agent.temperature = 0"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_a_start_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str, says: str, named: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    config = tiny_config("population.members=['copy']", override)
    with pytest.raises(MageError, match=says) as caught:
        create_run(config, tmp_path / "mine" if named else None, "rps")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_new_run_goes_where_it_is_told_or_under_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = tiny_config("steps=1")
    for given in (None, tmp_path / "mine"):
        path, parts = create_run(config, given, "my recipe")
        train_run(path, Console(quiet=True), parts=parts)
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-train-my_recipe")
    assert names(folder) == ["step-000001"]
    assert config_of(folder) == config
    assert weights(tmp_path / "mine", 1) == weights(folder, 1)


def test_a_directory_in_use_is_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    config = tiny_config("agent.model=no-such-folder/model")
    with pytest.raises(RecordError, match="is not empty; name a new directory for the run"):
        create_run(config, tmp_path, "rps")


def test_what_is_no_training_run_is_refused(tmp_path: Path) -> None:
    RunWriter.create(tmp_path / "duel", kind="duel", config={}, seed=0).close()
    with pytest.raises(RecordError, match="is a duel run; only train runs have weights"):
        config_of(tmp_path / "duel")
    create_run_directory(tiny_config(), tmp_path / "new")
    with pytest.raises(RecordError, match="has no checkpoint yet"):
        load_run(tmp_path / "new")
    with pytest.raises(RecordError, match="is not empty"):
        create_run_directory(tiny_config(), tmp_path / "new")
    with pytest.raises(ConfigError, match="unknown tracker 'paper'"):
        create_run_directory(tiny_config('trackers=["paper"]'), tmp_path / "never")
    assert not (tmp_path / "never").exists()
