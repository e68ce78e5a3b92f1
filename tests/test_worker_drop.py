"""Trials ahead that are dropped: workers begin none of them any more, and play the new ones next.

The cluster is one of this process, so that its only worker can be held while it plays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mage.credit.running_stats import EMPTY
from mage.files import read_lines
from mage.training import loop
from mage.training.loop import Collected
from mage.training.setup import Setup
from mage.training.workers import pool
from mage.training.workers.health import WORKERS
from mage.training.workers.ray_cluster import WorkerLostError
from mage.training.workers.worker import Worker
from tests.ray_made import assert_same_trials, set_up_workers
from tests.test_lag import versions_of

AHEAD = ("steps=9", "batch.dead=drop", "rollout.lag=1", "rollout.chunk=2")
HELD = (1, 0)
"""The step, and the version of the weights, of the chunks that are held."""


class HeldCluster:
    """A cluster whose workers are in this process; chunks of step 1 with the first weights wait until `goes_on`."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        """Of each chunk that a worker was given, the step and the version of the weights."""
        self.goes_on = asyncio.Event()
        self.is_lost = False
        """Whether a worker dies when it goes on."""
        self._version = 0

    def put(self, value: object) -> object:
        return value

    def new_actor(self) -> Worker:
        return Worker()

    async def ask(self, actor: Worker, method: str, *values: object, most_s: float | None = None) -> object:
        if method == "publish":
            assert isinstance(values[1], int)
            self._version = values[1]
        if method == "play":
            assert isinstance(values[1], int)
            self.asked.append((values[1], self._version))
            if self.asked[-1] == HELD:
                await self.goes_on.wait()
                if self.is_lost:
                    raise WorkerLostError("it was ended")
        return await asyncio.to_thread(getattr(actor, method), *values)

    def kill(self, actor: Worker) -> None:
        """Do nothing: a worker of this process has no other."""

    def stop(self) -> None:
        """Do nothing: no processes were started."""


async def first_step(setup: Setup) -> None:
    """Play the first step and learn from it."""
    found = await loop.collect(setup, 0, EMPTY)
    samples = loop.to_batch(found.groups, found.credited, found.advantages, range(len(found.groups)))
    setup.parts.learner.update(samples)


async def some_turns() -> None:
    """Let all tasks do what they can do without an answer."""
    for _ in range(20):
        await asyncio.sleep(0)


def with_a_held_chunk(
    folder: Path, monkeypatch: pytest.MonkeyPatch, then: Callable[[Setup, HeldCluster], Awaitable[Collected | None]]
) -> tuple[HeldCluster, Collected | None]:
    """After the first step, drop what is ahead while a worker is held with a chunk of it; returns what follows."""
    setup = set_up_workers(folder, *AHEAD, "rollout.workers=1")

    async def play() -> tuple[HeldCluster, Collected | None]:
        cluster = HeldCluster()
        monkeypatch.setattr(pool, "RayCluster", lambda _: cluster)
        await first_step(setup)
        while HELD not in cluster.asked:
            await asyncio.sleep(0)
        setup.ahead.drop()
        found = await then(setup, cluster)
        setup.match_play.close()
        return cluster, found

    return asyncio.run(asyncio.wait_for(play(), 120))


async def next_step(setup: Setup, cluster: HeldCluster) -> Collected:
    """The next step, begun while the worker is held."""
    collecting = asyncio.ensure_future(loop.collect(setup, 1, EMPTY))
    await some_turns()
    cluster.goes_on.set()
    found = await collecting
    await setup.ahead.finish()
    return found


async def wanted(folder: Path) -> Collected:
    """The second step of one process that has dropped what was ahead."""
    local = set_up_workers(folder, *AHEAD)
    await first_step(local)
    local.ahead.drop()
    return await loop.collect(local, 1, EMPTY)


def test_chunks_that_were_not_begun_are_not_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, found = with_a_held_chunk(tmp_path / "run", monkeypatch, next_step)
    assert cluster.asked == [(0, 0)] * 4 + [HELD] + [(1, 1)] * 4 + [(2, 1)] * 4
    assert found is not None
    assert versions_of(list(found.played)) == {1}
    assert_same_trials(found.groups, asyncio.run(wanted(tmp_path / "local")).groups)


def test_a_chunk_that_was_dropped_is_not_replayed_where_its_worker_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def lost(setup: Setup, cluster: HeldCluster) -> Collected:
        setup.match_play.listen(told.append)
        cluster.is_lost = True
        return await next_step(setup, cluster)

    cluster, found = with_a_held_chunk(tmp_path / "run", monkeypatch, lost)
    assert cluster.asked == [(0, 0)] * 4 + [HELD] + [(1, 1)] * 4 + [(2, 1)] * 4
    assert told == ["worker 1 died: it is built again (it was ended)"]
    lines = [(line["what"], line.get("trials")) for line in read_lines(tmp_path / "run" / WORKERS)]
    assert lines == [("built", None), ("died", 0), ("built", None)]
    assert found is not None
    assert_same_trials(found.groups, asyncio.run(wanted(tmp_path / "local")).groups)


def test_what_was_begun_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def finished(setup: Setup, cluster: HeldCluster) -> None:
        finishing = asyncio.ensure_future(setup.ahead.finish())
        await some_turns()
        assert not finishing.done()
        cluster.goes_on.set()
        await finishing

    cluster, _ = with_a_held_chunk(tmp_path / "run", monkeypatch, finished)
    assert cluster.asked == [(0, 0)] * 4 + [HELD]
