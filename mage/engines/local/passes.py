"""Passes under way: rows are handed to the executor, and taken up again when their tokens have been drawn.

Where the executor computes while the host does other things, rows are kept in two halves: while one half is read, the
games of the other go on. Nothing waits on a clock, so the same calls are always in the same passes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from mage.engines.local.executor import Executor
from mage.engines.local.graph_executor import BurstTokens, DecodeBurst, GraphExecutor
from mage.engines.local.jobs import GenerateJob
from mage.engines.local.layout import Chunk
from mage.engines.local.sampling import Draws
from mage.engines.local.scheduler import ScheduledJob, Scheduler
from mage.seeds import uniforms

_HALF = 64
"""Fewer rows than this are not worth a pass of their own."""
_MOST_UNDER_WAY = 2
"""With more, rows would drift apart into ever smaller passes; they wait for each other instead."""
_SHORT_REPLY = 48
"""Replies of more tokens keep the device busy by themselves; two halves would cost more than they save."""


class Passes:
    """Begins passes over the rows of a scheduler, and takes up what they drew."""

    def __init__(self, executor: Executor, scheduler: Scheduler, counts: Counter[str]) -> None:
        self._executor = executor
        self._scheduler = scheduler
        self._counts = counts
        self._under_way: deque[tuple[Sequence[ScheduledJob], Callable[[], None]]] = deque()
        """Oldest first: the rows of a pass, and how they take what it drew."""

    @property
    def are_under_way(self) -> bool:
        return bool(self._under_way)

    def begin(self) -> None:
        """Take the rows that are not under way one step further, unless enough is under way already."""
        if len(self._under_way) >= _MOST_UNDER_WAY:
            return
        idle = [row for row in self._scheduler.rows if not row.is_under_way]
        executor = self._executor
        if isinstance(executor, GraphExecutor):
            running = [row for row in idle if row.is_running_free]
            idle = [row for row in idle if not row.is_running_free]
            if running:
                self._begin(running, self._burst(executor, running))
        for rows in self._scheduler.groups(idle):
            for part in self._halves(rows):
                if isinstance(executor, GraphExecutor) and all(row.job.free_tokens > 1 for row in part):
                    self._begin(part, self._burst(executor, part))
                else:
                    self._begin(part, partial(self._take, part, self._read(part)))

    def land(self) -> None:
        """Wait for the oldest pass; for all of them where nothing is gained by leaving some under way."""
        while self._under_way:
            rows, take = self._under_way.popleft()
            take()
            for row in rows:
                row.is_under_way = False
            if self._executor.overlaps:
                break

    def drop(self) -> None:
        """Forget what is under way."""
        self._under_way.clear()

    def _begin(self, rows: Sequence[ScheduledJob], take: Callable[[], None]) -> None:
        for row in rows:
            row.is_under_way = True
        self._under_way.append((rows, take))

    def _halves(self, rows: list[ScheduledJob]) -> list[list[ScheduledJob]]:
        middle = len(rows) // 2
        is_long = max(row.job.free_tokens for row in rows) > _SHORT_REPLY
        if not self._executor.overlaps or self._under_way or middle < _HALF or is_long:
            return [rows]
        return [rows[:middle], rows[middle:]]

    def _read(self, rows: Sequence[ScheduledJob]) -> Draws:
        self._counts["passes"] += 1
        self._counts["read"] += sum(row.num_new for row in rows)
        logits_RV = self._executor.forward([_work(row) for row in rows])
        return Draws(logits_RV, [row.job.ask() for row in rows])

    def _take(self, rows: Sequence[ScheduledJob], draws: Draws) -> None:
        for row, draw in zip(rows, draws.read(), strict=True):
            row.filled = len(row.job.ids) if self._executor.reuses else 0
            if row.kept == 0:
                self._scheduler.remember(row)
            row.job.take(draw)

    def _burst(self, executor: GraphExecutor, rows: Sequence[ScheduledJob]) -> Callable[[], None]:
        """Read rows and sample several tokens of free text for each, without the host in between; how to take them."""
        replies = [row.job for row in rows if isinstance(row.job, GenerateJob)]
        is_read = any(row.num_new > 1 for row in rows)  # which gives a token before the burst
        count = min(executor.burst + is_read, max(reply.free_tokens for reply in replies))
        points = uniforms([r.sampling.seed for r in replies], [r.num_tokens for r in replies], count)
        temperature = np.array([reply.sampling.temperature for reply in replies], dtype=np.float32)
        self._counts["passes"] += count
        draws = executor.sample([_work(row) for row in rows], DecodeBurst(points, temperature))
        return partial(self._take_burst, rows, replies, draws)

    def _take_burst(self, rows: Sequence[ScheduledJob], replies: Sequence[GenerateJob], draws: BurstTokens) -> None:
        for row, reply, tokens, logprobs in zip(rows, replies, *draws.read(), strict=True):
            before = row.filled
            if row.kept == 0:
                row.filled = len(reply.ids)
                self._scheduler.remember(row)
            reply.take_free(tokens, logprobs)
            row.filled = len(reply.ids) - 1
            self._counts["read"] += row.filled - before


def _work(row: ScheduledJob) -> Chunk:
    return Chunk(row.slot, row.filled, row.job.ids, row.adapter)
