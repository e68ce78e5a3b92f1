"""Workers that play ahead of learning: they play while the learner learns, and what is killed changes nothing."""

from __future__ import annotations

import asyncio
import signal
import threading
from functools import partial
from pathlib import Path

import pytest

from mage.credit.running_stats import EMPTY
from mage.files import read_lines
from mage.league.matches import Outcome
from mage.training import loop
from mage.training.checkpoint import AHEAD
from mage.training.workers import order, pool
from mage.types import Sample
from tests.interrupted import assert_same
from tests.processes import Mage, send
from tests.ray_made import assert_same_trials, need_ray, set_up_workers
from tests.ray_processes import (
    METRICS,
    after_step,
    assert_all_end,
    assert_death_changes_nothing_but_is_told,
    whole_run,
    written_recipe,
)
from tests.test_resume import RECIPE

pytestmark = pytest.mark.slow
LAG = ("rollout.lag=1", "rollout.chunk=2", "rollout.workers=2")
OVERRIDES = (*LAG, "steps=40", "checkpoint.every=4", "checkpoint.transcripts=1", "batch.dead=resample")


@pytest.fixture(scope="module", autouse=True)
def _with_ray() -> None:
    need_ray()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_recipe(tmp_path_factory.mktemp("recipe"), *OVERRIDES)


@pytest.fixture(scope="module")
def whole(mage: Mage, recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nothing happened to."""
    return whole_run(mage, recipe, tmp_path_factory.mktemp("whole") / "run")


def test_trials_are_played_while_the_learner_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first update ends when a chunk has come back that was still to be played when it began."""
    setup = set_up_workers(tmp_path / "run", *LAG, "steps=3", "batch.groups=8")
    learner, read = setup.parts.learner, order.read_outcomes
    came_back, late = threading.Event(), []
    update, is_learning = learner.update, threading.Event()

    def noting(outcomes: bytes) -> list[Outcome]:
        if is_learning.is_set():
            came_back.set()
        return read(outcomes)

    def waiting(samples: list[Sample]) -> dict[str, float]:
        is_learning.set()
        late.append(not came_back.wait(60))
        return update(samples)

    monkeypatch.setattr(pool, "read_outcomes", noting)
    monkeypatch.setattr(learner, "update", waiting)

    async def first_step() -> None:
        collected = await loop.collect(setup, 0, EMPTY)
        samples = loop.to_batch(collected.groups, collected.credited, collected.advantages, range(8))
        await loop.apart(setup, lambda: learner.update(samples))
        await setup.ahead.finish()
        setup.match_play.close()

    asyncio.run(first_step())
    assert late == [False]


def test_workers_play_ahead_what_one_process_plays_ahead(tmp_path: Path) -> None:
    lagged = (*LAG, "steps=9", "batch.dead=drop")
    setup, local = set_up_workers(tmp_path / "a", *lagged), set_up_workers(tmp_path / "b", *lagged, "rollout.workers=0")

    async def steps() -> None:
        for step in range(3):
            found, wanted = await loop.collect(setup, step, EMPTY), await loop.collect(local, step, EMPTY)
            assert_same_trials(found.groups, wanted.groups)
            samples = loop.to_batch(wanted.groups, wanted.credited, wanted.advantages, range(len(wanted.groups)))
            for one in (setup, local):
                one.parts.learner.update(samples)
        await setup.ahead.finish()
        setup.match_play.close()

    asyncio.run(steps())


def test_a_run_that_is_killed_goes_on_to_the_same_end(mage: Mage, recipe: Path, whole: Path, tmp_path: Path) -> None:
    seen: list[int] = []
    folder = tmp_path / "run"
    for step, command in ((2, ("train", recipe, "--run", folder)), (10, ("train", "--resume", folder))):
        harm = after_step(folder, step, partial(send, number=signal.SIGKILL), seen)
        assert mage(*command, meanwhile=harm).code == -signal.SIGKILL
    assert (folder / "checkpoints" / "step-000008" / AHEAD).exists()
    assert_all_end(seen)
    ended = mage("train", "--resume", folder)
    assert ended.code == 0, ended.said
    assert_same(folder, whole)


def test_a_worker_that_is_killed_changes_nothing_but_is_told(
    mage: Mage, recipe: Path, whole: Path, tmp_path: Path
) -> None:
    assert_death_changes_nothing_but_is_told(mage, recipe, whole, tmp_path / "run", step=3)


def test_interrupted_it_saves_what_is_ahead(mage: Mage, recipe: Path, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    harm = after_step(folder, 5, partial(send, number=signal.SIGINT), [])
    ended = mage("train", recipe, "--run", folder, meanwhile=harm)
    assert ended.code == 0, ended.said
    newest = max((folder / "checkpoints").iterdir())
    assert (newest / AHEAD).exists()
    ended = mage("train", "--resume", folder, "rollout.workers=1")
    assert ended.code == 0, ended.said
    for name in (METRICS, "trials.jsonl"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert [line["lag/max"] for line in read_lines(folder / METRICS) if "lag/max" in line][:3] == [0.0, 1.0, 1.0]


def test_a_run_that_goes_back_is_the_same_with_one_worker_and_after_a_kill(mage: Mage, tmp_path: Path) -> None:
    recipe, folder = tmp_path / "back.toml", tmp_path / "run"
    recipe.write_text(f"{RECIPE}\n[rollout]\nlag = 2\nworkers = 2\nchunk = 1\n", encoding="utf-8")
    whole = whole_run(mage, recipe, tmp_path / "whole")
    back = [event["step"] for event in read_lines(whole / "events.jsonl") if "rollback" in event]
    assert back
    harm = after_step(folder, back[0], partial(send, number=signal.SIGKILL), [])
    assert mage("train", recipe, "--run", folder, "rollout.workers=1", meanwhile=harm).code == -signal.SIGKILL
    ended = mage("train", "--resume", folder, "rollout.workers=2")
    assert ended.code == 0, ended.said
    for name in (METRICS, "trials.jsonl"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
