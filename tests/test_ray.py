"""Workers run by Ray: their trials and weights are those of one process, also where a worker is killed.

Skipped where Ray is not installed; MAGE_RAY_TESTS=required makes that a failure. One Ray serves all tests of this file.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from mage.config.sections import RolloutConfig
from mage.errors import ConfigError, EngineError
from mage.files import read_lines
from mage.league.matches import Outcome
from mage.plugins import import_plugins
from mage.training.run import create_run, train_run
from mage.training.workers import health as health_of_workers
from mage.training.workers import order, pool
from mage.training.workers.health import WORKERS
from mage.training.workers.ray_cluster import RayCluster
from tests.documented import documented, fits
from tests.processes import is_alive
from tests.ray_made import (
    Trained,
    assert_same_trials,
    assert_same_weights,
    need_ray,
    played,
    set_up_workers,
    trained,
    workers_of,
)
from tests.tiny import tiny_config
from tests.viewed import Viewer

HEALTH = "timings.jsonl with workers"
FAILING = """
import threading
import mage
from mage.engines.registry import ENGINES

class NeedsTwoError(Exception):
    def __init__(self, what, state):
        super().__init__(f"{what}\\n{state}")
class HoldsLockError(NeedsTwoError):
    def __init__(self, what, state):
        super().__init__(what, state)
        self.lock = threading.Lock()
def made(loaded, settings):
    server = ENGINES["local"](loaded, settings)
    if not settings.is_trained:
        async def publish(policy, weights, version):
            raise KIND("the card", "is in use")
        server.publish = publish
    return server
mage.register_engine("failing", made)
"""
"""An engine that takes weights in the process of a run and not in a worker."""
BREAKING = """
import os
import mage
from mage.engines.registry import ENGINES

class Breaking:
    def __init__(self, inner, server=None):
        self.inner, self.server = inner, server or self
        self.calls = 0
    def __getattr__(self, name):
        return getattr(self.inner, name)
    def check(self):
        if self.server.calls > 30:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
    def policy(self, name):
        return Breaking(self.inner.policy(name), self)
    async def complete(self, *values):
        self.server.calls += 1
        self.check()
        return await self.inner.complete(*values)
    async def publish(self, *values):
        self.check()
        await self.inner.publish(*values)
def made(loaded, settings):
    inner = ENGINES["local"](loaded, settings)
    if settings.is_trained:
        return inner
    try:
        os.mkdir("FOLDER")
    except FileExistsError:
        return inner
    return Breaking(inner)
mage.register_engine("breaking", made)
"""
"""An engine that breaks for good after 30 calls, in the worker that is built first."""
CHUNKS = ("rollout.chunk=3", "batch.dead=resample")


@pytest.fixture(scope="module", autouse=True)
def ray_of_this_file() -> Iterator[None]:
    """A Ray that all tests of this file join: two workers stay while up to four others play."""
    need_ray()
    first = RayCluster(RolloutConfig(workers=6))
    yield
    first.stop()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run without workers."""
    return trained(tmp_path_factory.mktemp("local"), *CHUNKS)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    """The same with two workers, which stay for the tests after it."""
    found = trained(tmp_path_factory.mktemp("two"), *CHUNKS, "rollout.workers=2")
    yield found
    found.setup.match_play.close()


@pytest.fixture
def kill_in_the_middle(two: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second worker gets SIGKILL when eight chunks are back."""
    pid, read, num = workers_of(two.setup).pids[2], order.read_outcomes, 0

    def killing(outcomes: bytes) -> list[Outcome]:
        nonlocal num
        num += 1
        if num == 8:
            os.kill(pid, signal.SIGKILL)
        return read(outcomes)

    monkeypatch.setattr(pool, "read_outcomes", killing)


def test_two_workers_play_and_train_as_one_process(local: Trained, two: Trained) -> None:
    assert len(workers_of(two.setup).pids) == 2
    assert os.getpid() not in workers_of(two.setup).pids.values()
    assert_same_trials(two.groups, local.groups)
    assert_same_weights(two.weights, local.weights)


@pytest.mark.slow
def test_workers_play_in_the_wordings_of_the_tasks(tmp_path: Path) -> None:
    own = (*CHUNKS, "population.wordings=9")
    local, one = (trained(tmp_path / str(num), *own, f"rollout.workers={num}") for num in (0, 1))
    one.setup.match_play.close()
    assert len({group.task.world for group in local.groups}) > 1
    assert_same_trials(one.groups, local.groups)
    assert_same_weights(one.weights, local.weights)


@pytest.mark.parametrize("num", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_any_number_of_workers_gives_the_bits_of_two(two: Trained, tmp_path: Path, num: int) -> None:
    other = trained(tmp_path / str(num), *CHUNKS, f"rollout.workers={num}")
    assert len(workers_of(other.setup).pids) == num
    other.setup.match_play.close()
    assert other.groups == two.groups
    assert all(other.weights[name].equal(tensor) for name, tensor in two.weights.items())


def test_a_worker_that_is_killed_is_built_again_and_its_trials_are_the_same(
    two: Trained, request: pytest.FixtureRequest
) -> None:
    setup = two.setup
    told: list[str] = []
    setup.match_play.listen(told.append)
    wanted, before = played(setup), dict(workers_of(setup).pids)
    assert told == []
    setup.parts.resources.take()
    request.getfixturevalue("kill_in_the_middle")
    assert played(setup) == wanted
    (warning,) = told
    assert warning.startswith("worker 2 died: it is built again, and its 3 trials are replayed (")
    assert "\n" not in warning
    assert workers_of(setup).pids[1] == before[1]
    assert workers_of(setup).pids[2] != before[2]
    timings = setup.parts.resources.take()
    health = {key: value for key, value in timings.items() if key not in documented("timings.jsonl")}
    assert [key for key in health if sum(fits(pattern, key) for pattern in documented(HEALTH)) != 1] == []
    assert [pattern for pattern in documented(HEALTH) if not any(fits(pattern, key) for key in health)] == []
    assert [health[f"workers_{name}"] for name in ("alive", "rebuilt")] == [2, 1]
    assert health["trials_replayed"] == 3
    assert health["trials_per_s"] > 0
    assert [health[f"worker_{number}/deaths"] for number in (1, 2)] == [0, 1]
    assert health["worker_1/trials"] + health["worker_2/trials"] == 96
    assert all(0 < health[f"worker_{number}/busy_share"] <= 1 for number in (1, 2))
    assert all(health[f"worker_{number}/trial_s"] > 0 for number in (1, 2))
    assert all(0.05 < health[f"worker_{number}/host_gib"] < 8 for number in (1, 2))
    lines = list(read_lines(two.folder / WORKERS))
    assert {key for line in lines for key in line} == set(documented(WORKERS))
    assert [(line["worker"], line["what"]) for line in lines[2:]] == [(2, "died"), (2, "built")]
    assert sorted(line["worker"] for line in lines[:2]) == [1, 2]
    assert (lines[2]["trials"], lines[2]["step"]) == (3, 7)
    assert lines[2]["error"] in warning
    assert lines[3]["pid"] == workers_of(setup).pids[2]


def test_a_worker_that_does_not_answer_is_told_of_while_it_is_waited_for(
    two: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second worker stops when a chunk is back, and goes on once it was called slow."""
    setup, told, before = two.setup, list[str](), len(list(read_lines(two.folder / WORKERS)))
    pid, read = workers_of(setup).pids[2], order.read_outcomes
    monkeypatch.setattr(health_of_workers, "SLOW_S", 1.0)

    def stopping(outcomes: bytes) -> list[Outcome]:
        if not told:
            os.kill(pid, signal.SIGSTOP)
        return read(outcomes)

    def heard(text: str) -> None:
        told.append(text)
        os.kill(pid, signal.SIGCONT)

    monkeypatch.setattr(pool, "read_outcomes", stopping)
    setup.match_play.listen(heard)
    assert len(played(setup)) == 24
    assert re.fullmatch(
        r"worker 2 has not answered for \d+ s; no chunk of any worker took longer than [\d.]+ s", told[0]
    )
    lines = list(read_lines(two.folder / WORKERS))[before:]
    assert [(line["worker"], line["what"]) for line in lines] == [(2, "slow"), (2, "answered")]
    assert lines[1]["seconds"] > lines[0]["seconds"] >= 1


@pytest.mark.usefixtures("kill_in_the_middle")
def test_when_trials_were_lost_too_often_the_run_ends_in_one_line(
    two: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    two.setup.match_play.listen(told.append)
    monkeypatch.setattr(pool, "MAX_LOSSES", 1)
    with pytest.raises(EngineError) as caught:
        played(two.setup)
    assert str(caught.value).startswith("1 workers died in step 8 with the same trials (")
    assert "go on from the last checkpoint with: mage train --resume " in str(caught.value)
    with pytest.raises(EngineError, match=r"^1 workers died in step 8 "):  # as where trials are played ahead
        asyncio.run(two.setup.match_play.publish(8))
    assert told == [f"worker 2 died: the run ends ({list(read_lines(two.folder / WORKERS))[-1]['error']})"]
    assert "\n" not in str(caught.value)


def test_closed_it_leaves_no_process(two: Trained) -> None:
    pids = list(workers_of(two.setup).pids.values())
    assert pids
    two.setup.match_play.close()
    deadline = time.monotonic() + 20
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, pids))


@pytest.mark.slow
@pytest.mark.parametrize("lag", [0, 1])
def test_a_worker_that_is_killed_is_in_the_files_of_the_run_and_in_the_viewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lag: int
) -> None:
    """The first worker gets SIGKILL when twelve chunks of the run are back."""
    config = tiny_config("steps=3", "batch.groups=8", "rollout.chunk=2", "rollout.workers=2", f"rollout.lag={lag}")
    folder, parts = create_run(config, tmp_path / "run", "tiny")
    read, num = order.read_outcomes, 0

    def killing(outcomes: bytes) -> list[Outcome]:
        nonlocal num
        num += 1
        if num == 12:
            first = next(line for line in read_lines(folder / WORKERS) if line["worker"] == 1)
            os.kill(first["pid"], signal.SIGKILL)
        return read(outcomes)

    monkeypatch.setattr(pool, "read_outcomes", killing)
    train_run(folder, Console(file=StringIO()), parts=parts)
    timings = list(read_lines(folder / "timings.jsonl"))
    assert [line["step"] for line in timings] == [1, 2, 3]
    assert sum(line["workers_rebuilt"] for line in timings) == sum(line["worker_1/deaths"] for line in timings) == 1
    replayed = sum(line["trials_replayed"] for line in timings)
    assert replayed in (0, 2), "a chunk, or none where it died between two"
    (event,) = (line for line in read_lines(folder / "events.jsonl") if "warning" in line)
    assert event["warning"].startswith("worker 1 died: it is built again")
    viewer = Viewer(tmp_path)
    assert viewer.run("run")["workers"] is True
    report = viewer.run("run", "/workers")
    assert (report["planned"], report["alive"], report["deaths"], report["replayed"]) == (2, 2, 1, replayed)
    first, second = report["workers"]
    assert (first["deaths"], second["deaths"], first["state"]) == (1, 0, "alive")
    num_trials = sum(line["worker_1/trials"] + line["worker_2/trials"] for line in timings)
    assert first["trials"] + second["trials"] == num_trials == 3 * 8 * config.batch.size
    assert first["pid"] != second["pid"]
    (incident,) = report["incidents"]
    assert incident["error"] in event["warning"]
    assert (incident["worker"], incident["what"], incident["trials"]) == (1, "died", replayed)
    assert "\n" not in incident["error"]


@pytest.mark.usefixtures("own_names")
@pytest.mark.parametrize("kind", ["HoldsLockError", "NeedsTwoError"])
def test_an_error_that_cannot_be_pickled_is_told_in_one_line_with_its_worker(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "failing.py"
    file.write_text(FAILING.replace("KIND", kind))
    import_plugins([str(file)])
    setup = set_up_workers(tmp_path / "run", "engine=failing", "rollout.workers=1")
    with pytest.raises(EngineError) as caught:
        asyncio.run(setup.match_play.publish(0))
    setup.match_play.close()
    assert str(caught.value) == f"worker 1: {kind}: the card is in use"


@pytest.mark.slow
@pytest.mark.usefixtures("own_names")
def test_a_worker_whose_engine_breaks_is_built_again_and_its_trials_are_played_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "breaking.py"
    file.write_text(BREAKING.replace("FOLDER", str(tmp_path / "first")))
    import_plugins([str(file)])
    overrides = ("steps=3", "batch.groups=16", "engine=breaking", "rollout.workers=2", "rollout.chunk=2")
    folder, parts = create_run(tiny_config(*overrides), tmp_path / "run", "tiny")
    train_run(folder, Console(file=StringIO()), parts=parts)
    metrics, timings = (list(read_lines(folder / name)) for name in ("metrics.jsonl", "timings.jsonl"))
    assert sum(line["play/failed_trials"] for line in metrics) <= 1, "one of the chunk in which it broke"
    assert sum(line["workers_rebuilt"] for line in timings) == 1
    assert [line["worker_1/trials"] + line["worker_2/trials"] for line in timings] == [64] * 3
    (event,) = (line for line in read_lines(folder / "events.jsonl") if "warning" in line)
    assert " is broken: it is built again (" in event["warning"]
    assert "RuntimeError: CUDA error: an illegal memory access was encountered" in event["warning"]


def test_more_than_the_cluster_has_is_refused() -> None:
    has = "0: 1 machine with 6 CPUs and 0 GPUs$"
    with pytest.raises(
        ConfigError, match=r"rollout.cpus = 4: each needs 4 CPUs .* places for 1: 1 machine with 6 CPUs "
    ):
        RayCluster(RolloutConfig(workers=2, cpus=4))
    for gpus in (0.5, 2):
        with pytest.raises(ConfigError, match=rf"rollout.gpus = {gpus}: each needs .* there are places for {has}"):
            RayCluster(RolloutConfig(workers=2, gpus=gpus))
