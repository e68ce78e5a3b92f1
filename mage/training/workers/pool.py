"""Plays the matches of steps on workers: chunks of trials go to free workers, and those of a dead one are replayed.

A chunk of which every trial fails goes to another worker. One that has failed what others can play is built again.
Seeds hang on tasks and siblings and a chunk is played alone, so outcomes do not depend on which worker plays what. A
chunk has the weights that it is to be played with: a worker gets them before it, where the last ones were others.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from pathlib import Path
from shlex import quote
from typing import Any

from mage.errors import EngineError, EngineGoneError, MageError, named_errors
from mage.league.matches import Match, Outcome, PlayedMatch, groups_of, jobs_of
from mage.training.parts import Parts
from mage.training.run_tokenizer import stored_tokenizer
from mage.training.workers.blame import AllFailedError, Blame, doubt
from mage.training.workers.health import Warn, WorkerHealth, WorkerProcess
from mage.training.workers.order import order_of, read_outcomes, to_bytes
from mage.training.workers.packed_weights import pack
from mage.training.workers.ray_cluster import Actor, RayCluster, WorkerLostError

MAX_LOSSES = 3
"""Workers that may die with the same chunk, or one after the other while they are built, before the run ends.
As many workers at most get a chunk of which every trial fails, before these failures stand."""
_BUILD_S = 600.0
"""Seconds in which a worker must be there, with its model loaded; times those on a GPU, where vLLM starts in turn."""

Weights = tuple[object, int]
"""Weights in Ray's object store, and the number of updates that they have behind them."""


@dataclass(order=True)
class _Chunk:
    """Trials that a worker plays at once; those of earlier steps come first."""

    step: int
    number: int
    """Counts all chunks of the run."""
    jobs: bytes = field(compare=False)
    num_trials: int = field(compare=False)
    weights: Weights = field(compare=False)
    outcomes: asyncio.Future[list[Outcome]] = field(compare=False)
    losses: int = field(compare=False, default=0)
    failed_on: dict[int, str] = field(compare=False, default_factory=dict)
    """By the numbers of the workers on which all its trials failed, why."""
    is_dropped: bool = field(compare=False, default=False)
    """Its outcomes are not wanted any more."""


class WorkerPlay:
    """Plays with workers, which are started when weights are first published."""

    def __init__(self, parts: Parts, folder: Path) -> None:
        self._parts = parts
        self._folder = folder
        self._settings = parts.config.rollout
        self._build_s = _BUILD_S * (math.ceil(1 / self._settings.gpus) if 0 < self._settings.gpus < 1 else 1)
        self._cluster: RayCluster | None = None
        self._actors: dict[int, Actor] = {}
        """By the number of the worker, from 1; those that are alive."""
        self.pids: dict[int, int] = {}
        """Ids of the workers' processes on their machines; of those that are built."""
        self._order: object = None
        self._weights: Weights = (None, 0)
        """Those published last."""
        self._published: dict[int, Weights] = {}
        """The weights that each worker has."""
        self._waiting: list[_Chunk] = []
        """A heap."""
        self._in_hand: dict[int, _Chunk] = {}
        """The chunk that each worker plays."""
        self._num_chunks = 0
        self._serving: dict[int, asyncio.Task[None]] = {}
        """Tasks that hand chunks to workers, while there are any."""
        self._preparing: set[int] = set()
        """Workers that get weights while they play nothing."""
        self._blame = Blame()
        self._health = WorkerHealth(folder)
        parts.resources.add_source(lambda: self._health.take(len(self.pids)))

    def listen(self, warn: Warn) -> None:
        self._health.warn = warn

    async def publish(self, step: int) -> None:
        begun, self._health.step = time.perf_counter(), step
        for serving in self._serving.values():
            if serving.done() and not serving.cancelled():
                serving.result()  # raises the error of one that failed: the run ends, and no worker is built for it
        if self._cluster is None:
            self._cluster = RayCluster(self._settings)
            self._order = self._cluster.put(to_bytes(order_of(self._parts.config, stored_tokenizer(self._folder))))
        self._weights = (self._cluster.put(pack(self._parts.learner.weights())), step)
        self._preparing = {n for n in range(1, self._settings.workers + 1) if not self._is_serving(n)}
        try:
            await _all(self._prepare(number) for number in self._preparing)
        finally:
            self._preparing = set()
        if self._waiting:
            self._serve_all()
        self._health.publish_s += time.perf_counter() - begun

    async def _prepare(self, number: int) -> None:
        """Give a worker that plays nothing the weights published last; build it where it is not there."""
        if number not in self.pids:
            await self._build(number, self._weights)
            return
        try:
            await self._give(number, self._weights)
        except WorkerLostError as error:
            self._health.note_death(number, str(error), "it is built again")
            await self._rebuild(number, self._weights)

    def play(self, matches: Sequence[Match], step: int) -> asyncio.Future[list[PlayedMatch]]:
        size, most = self._parts.config.batch.size, self._settings.chunk
        jobs, loop = jobs_of(matches, size), asyncio.get_running_loop()
        chunks: list[_Chunk] = []
        for start in range(0, len(jobs), most):
            own = jobs[start : start + most]
            self._num_chunks += 1
            outcomes: asyncio.Future[list[Outcome]] = loop.create_future()
            chunks.append(_Chunk(step, self._num_chunks, to_bytes(own), len(own), self._weights, outcomes))
            heappush(self._waiting, chunks[-1])
        self._serve_all()
        return asyncio.ensure_future(self._gathered(matches, size, chunks))

    async def _gathered(self, matches: Sequence[Match], size: int, chunks: Sequence[_Chunk]) -> list[PlayedMatch]:
        """Wait for all chunks, also where some fail or were dropped; those that are not begun then are given up."""
        try:
            await asyncio.gather(*(chunk.outcomes for chunk in chunks), return_exceptions=True)
            found = [outcome for chunk in chunks for outcome in chunk.outcomes.result()]
        finally:
            self._waiting = [chunk for chunk in self._waiting if not chunk.outcomes.done()]
            heapify(self._waiting)
        if not self._waiting and not self._in_hand:  # what goes on now is that workers are built again
            await asyncio.gather(*(task for number, task in self._serving.items() if self._is_serving(number)))
        return groups_of(matches, size, found)

    def drop(self) -> None:
        for chunk in self._in_hand.values():
            chunk.is_dropped = True
        for chunk in self._waiting:
            chunk.outcomes.cancel()
        self._waiting.clear()

    def _is_serving(self, number: int) -> bool:
        return number in self._serving and not self._serving[number].done()

    def _serve_all(self) -> None:
        for number in range(1, self._settings.workers + 1):
            if not self._is_serving(number) and number not in self._preparing:
                self._begin_to_serve(number)

    def _begin_to_serve(self, number: int) -> None:
        if not any(map(self._is_serving, self._serving)):
            self._health.begin_to_serve()
        self._serving[number] = task = asyncio.create_task(self._serve(number))
        task.add_done_callback(self._end_serving)

    def _end_serving(self, task: asyncio.Task[None]) -> None:
        """Count the time; an error, after which the run ends, is raised where the outcomes are awaited."""
        if not any(map(self._is_serving, self._serving)):
            self._health.end_serving()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            for chunk in (*self._waiting, *self._in_hand.values()):
                if not chunk.outcomes.done():
                    chunk.outcomes.set_exception(error)

    async def _serve(self, number: int) -> None:
        """Hand chunks to a worker until none is waiting for it; build it again where it is to blame for failures."""
        while True:
            if (why := self._blame.why(number)) is not None:
                self._health.note_broken(number, why, self._blame.num_failed(number))
                await self._rebuild(number, self._weights)
            if (chunk := self._take(number)) is None:
                return
            self._in_hand[number] = chunk
            try:
                with self._health.playing(number, chunk.num_trials):
                    await self._give(number, chunk.weights)
                    outcomes = read_outcomes(await self._watched(number, "play", chunk.jobs, chunk.step))
                    self._check(number, chunk, outcomes)
            except AllFailedError as error:
                del self._in_hand[number]
                chunk.failed_on[number] = str(error)
                heappush(self._waiting, chunk)
                self._serve_all()
                continue
            except WorkerLostError as error:
                del self._in_hand[number]
                if chunk.is_dropped:
                    chunk.outcomes.cancel()
                    self._health.note_death(number, str(error), "it is built again")
                    await self._rebuild(number, self._weights)
                    continue
                heappush(self._waiting, chunk)
                chunk.losses += 1
                if chunk.losses == MAX_LOSSES:
                    self._health.note_death(number, str(error), "the run ends")
                    what = f"{MAX_LOSSES} workers died in step {chunk.step + 1} with the same trials"
                    raise self._end(what, error) from None
                follows = f"it is built again, and its {chunk.num_trials} trials are replayed"
                self._health.note_death(number, str(error), follows, chunk.num_trials)
                await self._rebuild(number, chunk.weights)
                continue
            del self._in_hand[number]
            if not chunk.outcomes.done():
                chunk.outcomes.set_result(outcomes)

    def _take(self, number: int) -> _Chunk | None:
        """The first chunk that waits and that did not fail on this worker."""
        failed: list[_Chunk] = []
        chunk = None
        while chunk is None and self._waiting:
            first = heappop(self._waiting)
            if number in first.failed_on:
                failed.append(first)
            else:
                chunk = first
        for one in failed:
            heappush(self._waiting, one)
        return chunk

    def _check(self, number: int, chunk: _Chunk, outcomes: Sequence[Outcome]) -> None:
        """Raise an `AllFailedError` where another worker is to try; blame those that failed what this one played."""
        if (why := doubt(outcomes)) is not None:
            self._blame.note_failed(number, chunk.num_trials)
            if not chunk.is_dropped and len(chunk.failed_on) + 1 < min(MAX_LOSSES, self._settings.workers):
                raise AllFailedError(why)
            return
        self._blame.note_played(number, chunk.failed_on.items())
        if chunk.failed_on:
            self._serve_all()

    async def _give(self, number: int, weights: Weights) -> None:
        """Publish weights to a worker, unless it has them."""
        if self._published.get(number) is not weights:
            self._health.note_memory(number, await self._watched(number, "publish", *weights))
            self._published[number] = weights

    async def _build(self, number: int, weights: Weights, *, was_there: bool = False) -> None:
        """Build a worker with weights; try again where it dies.

        One that was there before is tried again after any error: its GPU may have been full while the learner learned.
        """
        for left in reversed(range(MAX_LOSSES)):
            assert self._cluster is not None
            self._drop(number)
            self._actors[number], begun = self._cluster.new_actor(), time.perf_counter()
            try:
                process: WorkerProcess = await self._ask(number, "build", self._order, most_s=self._build_s)
                await self._give(number, weights)
            except (WorkerLostError, MageError) as error:
                if not (was_there or isinstance(error, WorkerLostError)):
                    raise
                self._drop(number)
                follows = "it is tried again" if left else "the run ends"
                self._health.note_death(number, str(error), follows, what="died while it was built")
                if not left:
                    raise self._end(f"worker {number} died {MAX_LOSSES} times while it was built", error) from None
            else:
                self.pids[number] = process.pid
                self._health.note_built(number, process, time.perf_counter() - begun)
                return

    async def _rebuild(self, number: int, weights: Weights) -> None:
        self._drop(number)
        self._health.note_rebuilding()
        await self._build(number, weights, was_there=True)

    async def _ask(self, number: int, method: str, *values: object, most_s: float | None = None) -> Any:
        assert self._cluster is not None
        with named_errors(f"worker {number}"):
            try:
                return await self._cluster.ask(self._actors[number], method, *values, most_s=most_s)
            except EngineGoneError as error:
                raise WorkerLostError(str(error)) from None
            except EngineError as error:
                if not self._blame.num_failed(number):
                    raise
                raise WorkerLostError(f"its trials failed, and then: {error}") from None

    async def _watched(self, number: int, method: str, *values: object) -> Any:
        """The same, without a limit; the user is told where it takes far longer than chunks did."""
        begun = time.perf_counter()
        answer = asyncio.ensure_future(self._ask(number, method, *values))
        try:
            done, _ = await asyncio.wait({answer}, timeout=self._health.patience_s)
            if done:
                return answer.result()
            self._health.note_slow(number, time.perf_counter() - begun)
            found = await answer
        finally:
            answer.cancel()
        self._health.note_answered(number, time.perf_counter() - begun)
        return found

    def _drop(self, number: int) -> None:
        """Forget a worker and end its process, where there is one."""
        actor = self._actors.pop(number, None)
        self.pids.pop(number, None)
        self._published.pop(number, None)
        self._blame.forget(number)
        for chunk in self._waiting:
            chunk.failed_on.pop(number, None)
        if actor is not None and self._cluster is not None:
            self._cluster.kill(actor)

    def _end(self, what: str, error: Exception) -> EngineError:
        return EngineError(
            f"{what} ({error}); go on from the last checkpoint with: mage train --resume {quote(str(self._folder))}"
        )

    def close(self) -> None:
        for task in self._serving.values():
            task.cancel()
        self._health.close()
        if self._cluster is None:
            return
        for number in list(self._actors):
            self._drop(number)
        self._cluster.stop()
        self._cluster = None


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for all; where one fails the others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
