"""Plays the matches of a step on workers: chunks of trials go to free workers, and those of a dead one are replayed.

Seeds hang on tasks and siblings and a chunk is played alone, so outcomes do not depend on which worker plays what.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from mage.errors import EngineError
from mage.league.matches import Match, Outcome, PlayedMatch, groups_of, jobs_of
from mage.training.parts import Parts
from mage.training.run_tokenizer import stored_tokenizer
from mage.training.workers.order import order_of, read_outcomes, to_bytes
from mage.training.workers.packed_weights import pack
from mage.training.workers.ray_cluster import Actor, RayCluster, WorkerLostError

MAX_LOSSES = 3
"""Workers that may die with the same chunk, or one after the other while they are built, before the run ends."""
_BUILD_S = 600.0
"""Seconds in which a worker must be there, with its model loaded."""


@dataclass
class _StepTally:
    """What the workers did in a step."""

    trials: int = 0
    play_s: float = 0.0
    publish_s: float = 0.0
    rebuilt: int = 0


class WorkerPlay:
    """Plays with workers, which are started when weights are first published."""

    def __init__(self, parts: Parts, folder: Path) -> None:
        self._parts = parts
        self._folder = folder
        self._settings = parts.config.rollout
        self._cluster: RayCluster | None = None
        self._actors: dict[int, Actor] = {}
        """By the number of the worker, from 1; those that are alive."""
        self.pids: dict[int, int] = {}
        """Ids of the workers' processes on their machines."""
        self._order: object = None
        self._weights: tuple[object, int] = (None, 0)
        """The weights published last, in Ray's object store, and their step."""
        self._warnings: list[str] = []
        self._tally = _StepTally()

    async def publish(self, step: int) -> None:
        begun, self._tally = time.perf_counter(), _StepTally()
        if self._cluster is None:
            self._cluster = RayCluster(self._settings)
            self._order = self._cluster.put(to_bytes(order_of(self._parts.config, stored_tokenizer(self._folder))))
        self._weights = (self._cluster.put(pack(self._parts.learner.weights())), step)
        await _all(self._publish_to(number) for number in range(1, self._settings.workers + 1))
        self._tally.publish_s = time.perf_counter() - begun
        self._note()

    async def _publish_to(self, number: int) -> None:
        if number not in self._actors:
            await self._build(number)
            return
        try:
            await self._ask(number, "publish", *self._weights)
        except WorkerLostError as error:
            await self._rebuild(number, str(error))

    async def play(self, matches: Sequence[Match], step: int) -> list[PlayedMatch]:
        begun = time.perf_counter()
        size, most = self._parts.config.batch.size, self._settings.chunk
        jobs = jobs_of(matches, size)
        chunks = [to_bytes(jobs[start : start + most]) for start in range(0, len(jobs), most)]
        waiting, losses = deque(range(len(chunks))), Counter[int]()
        outcomes: dict[int, list[Outcome]] = {}

        async def play_chunks(number: int) -> None:
            while waiting:
                index = waiting.popleft()
                try:
                    outcomes[index] = read_outcomes(await self._ask(number, "play", chunks[index], step))
                except WorkerLostError as error:
                    waiting.appendleft(index)
                    losses[index] += 1
                    if losses[index] == MAX_LOSSES:
                        what = f"{MAX_LOSSES} workers died in step {step + 1} with the same trials"
                        raise self._end(what, error) from None
                    await self._rebuild(number, str(error))

        await _all(map(play_chunks, list(self._actors)))
        self._tally.trials += len(jobs)
        self._tally.play_s += time.perf_counter() - begun
        self._note()
        return groups_of(matches, size, [outcome for index in range(len(chunks)) for outcome in outcomes[index]])

    async def _build(self, number: int) -> None:
        """Build a worker with the weights published last; try again where it dies."""
        for left in reversed(range(MAX_LOSSES)):
            assert self._cluster is not None
            self._actors[number] = self._cluster.new_actor()
            try:
                self.pids[number] = await self._ask(number, "build", self._order, most_s=_BUILD_S)
                await self._ask(number, "publish", *self._weights)
            except WorkerLostError as error:
                self._drop(number)
                if not left:
                    raise self._end(f"worker {number} died {MAX_LOSSES} times while it was built", error) from None
            else:
                return

    async def _rebuild(self, number: int, reason: str) -> None:
        self._drop(number)
        self._tally.rebuilt += 1
        self._warnings.append(f"worker {number} died and was built again; its trials are replayed ({reason})")
        await self._build(number)

    async def _ask(self, number: int, method: str, *values: object, most_s: float | None = None) -> Any:
        assert self._cluster is not None
        return await self._cluster.ask(self._actors[number], method, *values, most_s=most_s)

    def _drop(self, number: int) -> None:
        assert self._cluster is not None
        self._cluster.kill(self._actors.pop(number))
        self.pids.pop(number, None)

    def _note(self) -> None:
        """Put the health of the workers into the step's timings."""
        tally = self._tally
        self._parts.resources.note(
            {
                "publish_s": tally.publish_s,
                "workers_alive": len(self._actors),
                "workers_rebuilt": tally.rebuilt,
                "trials_per_s": tally.trials / max(tally.play_s, 1e-9),
            }
        )

    def _end(self, what: str, error: WorkerLostError) -> EngineError:
        return EngineError(
            f"{what} ({error}); go on from the last checkpoint with: mage train --resume {quote(str(self._folder))}"
        )

    def take_warnings(self) -> list[str]:
        taken, self._warnings = self._warnings, []
        return taken

    def close(self) -> None:
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
