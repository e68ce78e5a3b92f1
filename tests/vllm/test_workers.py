"""Workers run by Ray with a vLLM each: their trials are those of the local engine, also where one is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mage.config.sections import RolloutConfig
from mage.league.matches import Outcome
from mage.training.workers import order, pool
from mage.training.workers.ray_cluster import RayCluster
from tests.ray_made import Trained, assert_same_trials, assert_same_weights, need_ray, played, trained, workers_of
from tests.vllm.made import SMALL, TOLERANCE, need_vllm

PLAY = (*SMALL, "agent.memory=history", "rollout.chunk=12")
WORKERS = ("engine=vllm", "rollout.workers=2")


@pytest.fixture(scope="module", autouse=True)
def ray_of_this_file() -> Iterator[None]:
    """A Ray with room for all workers of this file."""
    need_vllm()
    need_ray()
    first = RayCluster(RolloutConfig(workers=4))
    yield
    first.stop()


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    """Two steps with two workers, which stay for the tests after it."""
    found = trained(tmp_path_factory.mktemp("workers"), *PLAY, *WORKERS)
    yield found
    found.setup.match_play.close()


def test_two_workers_play_what_the_local_engine_plays(workers: Trained, tmp_path: Path) -> None:
    local = trained(tmp_path / "local", *PLAY)
    assert len(workers_of(workers.setup).pids) == 2
    assert_same_trials(workers.groups, local.groups, TOLERANCE)
    assert_same_weights(workers.weights, local.weights, TOLERANCE)


def test_a_worker_that_is_killed_is_built_again_and_its_trials_are_the_same(
    workers: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup, told = workers.setup, list[str]()
    wanted, to_kill, read = played(setup), [workers_of(setup).pids[2]], order.read_outcomes
    killed = to_kill[0]

    def killing(outcomes: bytes) -> list[Outcome]:
        while to_kill:
            os.kill(to_kill.pop(), signal.SIGKILL)
        return read(outcomes)

    setup.match_play.listen(told.append)
    monkeypatch.setattr(pool, "read_outcomes", killing)
    found = played(setup)
    assert told[0].startswith("worker 2 died: it is built again, and its ")
    assert_same_trials([match.group for match in found], [match.group for match in wanted], TOLERANCE)
    assert workers_of(setup).pids[2] != killed


def test_adapters_are_published_to_workers(tmp_path: Path) -> None:
    lora = ("learner.lora_rank=4",)
    found = trained(tmp_path / "workers", *PLAY, *WORKERS, *lora)
    found.setup.match_play.close()
    local = trained(tmp_path / "local", *PLAY, *lora)
    assert_same_trials(found.groups, local.groups, TOLERANCE)
    assert_same_weights(found.weights, local.weights, TOLERANCE)
