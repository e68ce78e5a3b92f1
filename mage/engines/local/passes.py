"""Forward passes in flight: gives rows to the executor and hands the sampled tokens to their jobs.

If the executor runs asynchronously and there are many rows, they are split into two halves: while one half is on the
device, the trials of the other go on. A pass that decodes reads all weights, however few rows it has, so few rows stay
together, and new ones join the others. Nothing depends on wall-clock time, so the same calls are always in the same
passes.
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
from mage.engines.local.sampling import TokenSampler
from mage.engines.local.scheduler import ScheduledJob, Scheduler
from mage.seeds import uniforms

_MIN_HALF = 64
"""Fewer rows than this are not worth a pass of their own."""
_MIN_TEXT_HALF = 128
"""The same for free text, of which a row decodes many tokens between two answers of its trial."""


class Passes:
    """Launches passes over the rows of a scheduler and collects the sampled tokens."""

    def __init__(self, executor: Executor, scheduler: Scheduler, counts: Counter[str]) -> None:
        self._executor = executor
        self._scheduler = scheduler
        self._counts = counts
        self._in_flight: deque[tuple[Sequence[ScheduledJob], Callable[[], None]]] = deque()
        """Oldest first: the rows of a pass, and a function that hands them their tokens."""

    @property
    def are_in_flight(self) -> bool:
        return bool(self._in_flight)

    def begin(self) -> None:
        """Launch passes for the rows that are in none, unless enough passes are in flight."""
        rows = self._scheduler.rows
        half = _MIN_TEXT_HALF if any(row.job.free_tokens for row in rows) else _MIN_HALF
        if len(self._in_flight) >= (2 if len(rows) >= 2 * half else 1):
            return  # with more passes in flight, they would become smaller and smaller
        idle = [row for row in rows if not row.is_in_flight]
        texts = [row for row in idle if row.job.free_tokens]
        others = [row for row in idle if not row.job.free_tokens]
        for group in (*self._scheduler.groups(texts), *self._scheduler.groups(others)):
            for part in self._halves(group, half):
                self._begin(part, self._launch(part))

    def collect(self) -> None:
        """Wait for the oldest pass, or for all of them if the executor is synchronous."""
        while self._in_flight:
            rows, accept = self._in_flight.popleft()
            accept()
            for row in rows:
                row.is_in_flight = False
            if self._executor.overlaps:
                break

    def drop(self) -> None:
        """Forget the passes in flight."""
        self._in_flight.clear()

    def _begin(self, rows: Sequence[ScheduledJob], accept: Callable[[], None]) -> None:
        for row in rows:
            row.is_in_flight = True
        self._in_flight.append((rows, accept))

    def _halves(self, rows: list[ScheduledJob], half: int) -> list[list[ScheduledJob]]:
        middle = len(rows) // 2
        if not self._executor.overlaps or self._in_flight or middle < half:
            return [rows]
        return [rows[:middle], rows[middle:]]

    def _launch(self, rows: Sequence[ScheduledJob]) -> Callable[[], None]:
        """Launch a burst of unconstrained tokens or a pass. Returns the function that hands the rows their tokens."""
        executor = self._executor
        fewest = 2 if any(row.num_new > 1 for row in rows) else 1  # the first one is sampled by the pass that prefills
        if isinstance(executor, GraphExecutor) and max(row.job.free_tokens for row in rows) >= fewest:
            return self._burst(executor, rows)
        return partial(self._accept, rows, self._forward(rows))

    def _forward(self, rows: Sequence[ScheduledJob]) -> TokenSampler:
        self._counts["passes"] += 1
        self._counts["read"] += sum(row.num_new for row in rows)
        logits_RV = self._executor.forward([_chunk_of(row) for row in rows])
        return TokenSampler(logits_RV, [row.job.next_request() for row in rows])

    def _accept(self, rows: Sequence[ScheduledJob], sampled: TokenSampler) -> None:
        for row, token in zip(rows, sampled.read(), strict=True):
            row.filled = len(row.job.ids) if self._executor.reuses else 0
            if row.kept == 0:
                self._scheduler.remember(row)
            row.job.accept(token)

    def _burst(self, executor: GraphExecutor, rows: Sequence[ScheduledJob]) -> Callable[[], None]:
        """Launch a burst: sample several unconstrained tokens for each row. Returns the function that collects them."""
        replies = [row.job for row in rows if isinstance(row.job, GenerateJob)]
        is_prefill = any(row.num_new > 1 for row in rows)  # prefill samples one token before the burst
        count = min(executor.burst + is_prefill, max(reply.free_tokens for reply in replies))
        uniform_numbers = uniforms([r.sampling.seed for r in replies], [r.num_tokens for r in replies], count)
        temperature = np.array([reply.sampling.temperature for reply in replies], dtype=np.float32)
        self._counts["passes"] += count
        sampled = executor.sample([_chunk_of(row) for row in rows], DecodeBurst(uniform_numbers, temperature))
        return partial(self._accept_burst, rows, replies, sampled)

    def _accept_burst(self, rows: Sequence[ScheduledJob], replies: Sequence[GenerateJob], sampled: BurstTokens) -> None:
        for row, reply, tokens, logprobs in zip(rows, replies, *sampled.read(), strict=True):
            before = row.filled
            if row.kept == 0:
                row.filled = len(reply.ids)
                self._scheduler.remember(row)
            reply.accept_free(tokens, logprobs)
            row.filled = len(reply.ids) - 1
            self._counts["read"] += row.filled - before


def _chunk_of(row: ScheduledJob) -> Chunk:
    return Chunk(row.slot, row.filled, row.job.ids, row.adapter)
