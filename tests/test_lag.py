"""Play ahead of learning: which weights play a step, what a checkpoint has of it, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from mage.credit.running_stats import EMPTY
from mage.credit.steps import agent_turns
from mage.errors import ConfigError, MageError, RecordError
from mage.files import CHECKSUMS, read_lines
from mage.league.matches import PlayedMatch, TaskOrigin
from mage.training import loop
from mage.training.alarms import NO_ALARMS, watch_step
from mage.training.checkpoint import AHEAD
from mage.training.combinations import check_combinations
from mage.training.run import create_run, train_run
from mage.training.setup import Setup, set_up
from mage.types import Sample
from tests.documented import documented
from tests.processes import Mage, alone
from tests.test_resume import RECIPE, assert_equal
from tests.tiny import tiny_config, tiny_parts

LAGS = "metrics.jsonl with rollout.lag"


def lagged(folder: Path, *overrides: str) -> Setup:
    return set_up(tiny_parts("batch.dead=drop", "steps=9", *overrides), folder)


def versions_of(played: list[PlayedMatch]) -> set[int]:
    """The versions of the weights that the agent played with."""
    trials = [trial for one in played for trial in one.group.trials]
    return {call.completion.version for t in trials for turn in agent_turns(t) for call in turn.calls}


def step(setup: Setup, number: int) -> list[PlayedMatch]:
    return list(asyncio.run(loop.collect(setup, number, EMPTY)).played)


def seeds_of(played: list[PlayedMatch]) -> list[int]:
    return [one.group.task.seed for one in played]


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_a_step_is_played_with_the_weights_of_so_many_updates_before_it(tmp_path: Path, lag: int) -> None:
    setup, plain = lagged(tmp_path, f"rollout.lag={lag}"), lagged(tmp_path)
    for number in range(5):
        played = step(setup, number)
        assert versions_of(played) == {max(0, number - lag)}
        assert seeds_of(played) == seeds_of(step(plain, number)), "the tasks of a step are those without a lag"


def test_nothing_is_played_for_steps_after_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = lagged(tmp_path, "rollout.lag=2", "steps=3")
    drawn: list[int] = []
    draw = setup.source.draw

    def noted(number: int, num: Mapping[str, int]) -> list[Any]:
        drawn.append(number)
        return draw(number, num)

    monkeypatch.setattr(setup.source, "draw", noted)
    for number in range(3):
        step(setup, number)
    assert drawn == [0, 1, 2]


def test_dead_groups_are_replaced_by_groups_of_current_weights(tmp_path: Path) -> None:
    setup = lagged(tmp_path, "rollout.lag=2", "batch.dead=resample", "batch.groups=6", "batch.size=2")
    found: dict[TaskOrigin, set[int]] = {}
    for number in range(5):
        for one in step(setup, number):
            found.setdefault(one.origin, set()).update(number - version for version in versions_of([one]))
    assert found == {TaskOrigin.DRAWN: {0, 1, 2}, TaskOrigin.REPLACEMENT: {0}}


def test_a_checkpoint_has_what_is_ahead(tmp_path: Path) -> None:
    setup = lagged(tmp_path, "rollout.lag=2")
    step(setup, 0)
    step(setup, 1)
    setup.ahead.save(tmp_path)
    again = lagged(tmp_path, "rollout.lag=2")
    again.ahead.load(tmp_path)
    for number in (2, 3):
        assert step(again, number) == step(setup, number)
    assert versions_of(step(again, 4)) == {2}


def test_a_smaller_lag_plays_anew_what_is_too_old(tmp_path: Path) -> None:
    setup = lagged(tmp_path, "rollout.lag=2")
    for number in range(3):
        step(setup, number)
    setup.ahead.save(tmp_path)  # steps 3 and 4, played with the weights of 1 and 2
    for lag, wanted in ((1, [3, 3, 4]), (0, [3, 4, 5]), (3, [1, 2, 3])):
        again = lagged(tmp_path, f"rollout.lag={lag}")
        again.ahead.load(tmp_path)
        assert [min(versions_of(step(again, number))) for number in (3, 4, 5)] == wanted, lag


def test_what_is_dropped_is_played_anew(tmp_path: Path) -> None:
    setup = lagged(tmp_path, "rollout.lag=2")
    before = step(setup, 0)
    setup.ahead.drop()
    assert versions_of(step(setup, 1)) == {1}
    assert versions_of(step(setup, 2)) == {1}
    assert versions_of(step(setup, 3)) == {1}
    assert versions_of(step(setup, 4)) == {2}
    assert versions_of(before) == {0}


@pytest.mark.parametrize(("old", "new"), [(b"rps", b"\xffps"), (b"matches", b"mutches")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, old: bytes, new: bytes) -> None:
    setup = lagged(tmp_path, "rollout.lag=1")
    step(setup, 0)
    setup.ahead.save(tmp_path)
    content = (tmp_path / AHEAD).read_bytes()
    for damaged in (content.replace(old, new, 1), content[:-1]):
        assert damaged != content
        (tmp_path / AHEAD).write_bytes(damaged)
        with pytest.raises(RecordError, match=rf"{AHEAD} cannot be read: "):
            setup.ahead.load(tmp_path)


def test_trials_ahead_that_are_not_those_saved_are_refused(tmp_path: Path) -> None:
    quiet = Console(quiet=True)
    run, parts = create_run(tiny_config("steps=4", "rollout.lag=1", "evaluation.splits=[]"), tmp_path / "run", "ahead")
    train_run(run, quiet, parts=parts, max_minutes=0)
    (path,) = run.rglob(AHEAD)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"rock", b"sock", 1))
    with pytest.raises(RecordError, match=rf"{AHEAD} is not the file that was saved: its SHA-256 is "):
        train_run(run, quiet)
    path.unlink()
    with pytest.raises(RecordError, match=rf"{AHEAD} is missing, which {CHECKSUMS} names"):
        train_run(run, quiet)
    path.write_bytes(content)
    train_run(run, quiet)


REFUSED = {
    "league": (("league.learners=2", "batch.groups=2"), "rollout.lag = 1 with league.learners = 2: learners that copy"),
    "replay": (("batch.replay=0.5",), "rollout.lag = 1 with batch.replay = 0.5: a task could be drawn again"),
    "kind": (("learner.kind=mine",), "rollout.lag = 1: learner.kind = mine may not weight older samples"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_combinations_that_make_no_sense_are_refused(name: str) -> None:
    overrides, text = REFUSED[name]
    check_combinations(tiny_config(*overrides))
    with pytest.raises(ConfigError) as caught:
        check_combinations(tiny_config(*overrides, "rollout.lag=1"))
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


def test_alarms_sound_where_lag_or_ratios_leave_their_bounds() -> None:
    config = tiny_config("alarms.patience=1", "alarms.truncated=0.1").alarms
    gap = {"gap/mean_difference": 9.0, "gap/outside_0.8_1.25": 1.0}
    assert watch_step(config, NO_ALARMS, {**gap, "lag/max": 2.0, "lag/truncated_share": 0.1}, 2)[1] == []
    assert watch_step(config, NO_ALARMS, {"lag/max": 3.0}, 2)[1] == ["lag/max is over 2 for 1 steps (3)"]
    assert watch_step(config, NO_ALARMS, {"lag/truncated_share": 0.2}, 2)[1] == [
        "lag/truncated_share is over 0.1 for 1 steps (0.2)"
    ]
    assert len(watch_step(config, NO_ALARMS, gap)[1]) == 2


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that carries state from step to step, rollbacks included, with a lag of two."""
    path = tmp_path_factory.mktemp("recipes") / "lagged.toml"
    path.write_text(RECIPE + "\n[rollout]\nlag = 2\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def unbroken(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    ended = alone("train", recipe, "--run", folder)
    assert ended.code == 0, ended.said
    assert "without rollout.workers" in ended.said
    return folder


def test_lag_is_among_the_metrics(unbroken: Path) -> None:
    lines = [line for line in read_lines(unbroken / "metrics.jsonl") if "learner/loss" in line]
    logged = {key for line in lines for key in line if key.startswith("lag/")}
    assert sorted(logged) == sorted(documented(LAGS))
    assert [line["lag/max"] for line in lines[:3]] == [0.0, 1.0, 2.0]
    events = list(read_lines(unbroken / "events.jsonl"))
    rolled_back = [event["step"] for event in events if "rollback" in event]
    assert rolled_back, "what was ahead has been dropped"
    played_anew = [line["lag/max"] for line in lines if line["step"] - 1 in rolled_back]
    assert played_anew == [0.0] * len(played_anew)
    assert played_anew


def test_stopped_after_every_step_it_goes_on_to_the_same_end(
    mage: Mage, recipe: Path, unbroken: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    command: tuple[str | Path, ...] = ("train", recipe, "--run", folder)
    saved = 0
    while not (folder / "evaluations" / "final.json").exists():
        ended = mage(*command, "--max-minutes", "0")
        assert ended.code == 0, ended.said
        saved += len(list(folder.rglob(AHEAD)))
        command = ("train", "--resume", folder)
    assert saved > 5
    assert_equal(folder, unbroken)


@pytest.mark.parametrize("lag", [0, 1])
def test_streams_of_several_versions_need_a_lag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lag: int) -> None:
    to_batch = loop.to_batch

    def mixed(*values: Any) -> list[Sample]:
        return [msgspec.structs.replace(sample, num_versions=2) for sample in to_batch(*values)]

    monkeypatch.setattr(loop, "to_batch", mixed)
    config = tiny_config("steps=1", f"rollout.lag={lag}", "evaluation.splits=[]", "batch.dead=keep")
    folder, parts = create_run(config, tmp_path / "run", "lagged")
    if lag:
        assert train_run(folder, Console(quiet=True), parts=parts).step == 1
        return
    with pytest.raises(MageError, match="sampled by 2 versions of the weights"):
        train_run(folder, Console(quiet=True), parts=parts)
