"""Decides which calls run together. Pure book-keeping: it sees ids and slots, never a tensor.

All calls that are admitted run one pass at a time. Where rows are padded, calls with nearly as many new tokens
share a pass, so little is padded. Of new calls that share a long beginning only the first is admitted; the others
wait one pass, or the burst that it begins, and copy what it has read.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from mage.engines.local.jobs import Job
from mage.engines.local.prefix_cache import Ids, PrefixCache


class Copy(NamedTuple):
    """The first `length` tokens of a slot go to other slots."""

    source: int
    length: int
    targets: tuple[int, ...]


class ScheduledJob:
    """A job on its way: queued, then admitted to a slot of which the first `filled` tokens have been read."""

    __slots__ = ("adapter", "filled", "future", "is_under_way", "job", "kept", "promise", "slot")

    def __init__(self, job: Job, future: Future[Any], adapter: int = -1) -> None:
        self.job = job
        self.future = future
        self.adapter = adapter
        self.slot = -1
        self.filled = 0
        self.kept = 0
        """How many tokens the cache knows of."""
        self.promise: tuple[int, Ids] | None = None
        """What others may copy once its first pass is done: they wait for it."""
        self.is_under_way = False
        """Whether a pass that reads it has begun and was not taken up yet."""

    @property
    def num_new(self) -> int:
        """How many tokens its next pass reads."""
        return len(self.job.ids) - self.filled

    @property
    def is_finished(self) -> bool:
        """Whether it needs nothing more: it is done, or no longer wanted."""
        return not self.is_under_way and (self.job.is_done or self.future.done())

    @property
    def is_running_free(self) -> bool:
        """Whether it goes on with free text, token by token."""
        return self.job.free_tokens > 0 and self.num_new == 1


class Scheduler:
    """Rows come in by `add`, run in `groups`, and leave by `finish`."""

    def __init__(self, cache: PrefixCache, *, pass_tokens: int, pass_cost: int | None, reuses: bool = True) -> None:
        self._cache = cache
        self._pass_tokens = pass_tokens
        self._pass_cost = pass_cost
        self._reuses = reuses
        self._arrived: list[ScheduledJob] = []
        self._queue: list[ScheduledJob] = []
        self.rows: list[ScheduledJob] = []
        """Admitted and not finished."""
        self.num_added = 0

    @property
    def has_work(self) -> bool:
        return bool(self.rows or self._queue or self._arrived)

    def add(self, row: ScheduledJob) -> None:
        """Queue a row."""
        self._arrived.append(row)
        self.num_added += 1

    def admit(self) -> tuple[list[ScheduledJob], list[Copy]]:
        """Give slots to queued rows in an order that does not depend on their arrival; say what is to be copied.

        Where slots are scarce, streams that go on come before others, who would take from them what they have read: as
        many streams as there are slots go on to their end, and the rest wait for them.
        """
        arrived = sorted(self._arrived, key=lambda row: (row.adapter, row.job.order))
        self._arrived = []
        if len(self._queue) + len(arrived) > self._cache.num_free:
            warm = [row for row in arrived if self._cache.is_warm(row.job.ids, row.adapter)]
            chosen = set(map(id, warm))
            self._queue = [*warm, *self._queue, *(row for row in arrived if id(row) not in chosen)]
        else:
            self._queue += arrived
        waiting: list[ScheduledJob] = []
        admitted: list[ScheduledJob] = []
        copies: list[tuple[int | None, int, int]] = []
        promised = {row.promise for row in self.rows if row.promise is not None and row.kept == 0}
        for position, row in enumerate(self._queue):
            ids = row.job.ids
            match = self._cache.match(ids, row.adapter)
            known = match.shared + self._cache.share_tokens
            promise = (row.adapter, ids[:known]) if self._reuses and len(ids) > known else None
            if promise in promised:
                waiting.append(row)
                continue
            lease = self._cache.lease(match)
            if lease is None:
                waiting += self._queue[position:]
                break
            if promise is not None:
                promised.add(promise)
            row.slot, row.filled, row.promise = lease.slot, lease.filled, promise
            copies.append((lease.source, lease.filled, lease.slot))
            admitted.append(row)
        self._queue = waiting
        self.rows += admitted
        return admitted, list(_grouped(copies))

    def groups(self, rows: Iterable[ScheduledJob]) -> list[list[ScheduledJob]]:
        """The passes that take rows one token further; rows of a pass are in order of their slots."""
        groups: list[list[ScheduledJob]] = []
        size = widest = 0
        for row in sorted(rows, key=attrgetter("num_new")):
            group = groups[-1] if groups else []
            padded = (row.num_new - widest) * len(group)
            is_padded = self._pass_cost is not None
            size = row.num_new * (len(group) + 1) if is_padded else size + row.num_new
            if not group or size > self._pass_tokens or (self._pass_cost is not None and padded > self._pass_cost):
                groups.append(group := [])
                size = row.num_new
            group.append(row)
            widest = row.num_new
        return [sorted(group, key=attrgetter("slot")) for group in groups]

    def remember(self, row: ScheduledJob) -> None:
        """Let others find what a row has read."""
        if self._reuses and row.filled > row.kept:
            self._cache.keep(row.slot, row.job.ids[: row.filled], row.adapter)
            row.kept = row.filled

    def finish(self) -> list[ScheduledJob]:
        """Take out the rows that are done or no longer wanted, and return them; those under way stay."""
        self._queue = [row for row in self._queue if not row.future.done()]
        finished = [row for row in self.rows if row.is_finished]
        if finished:
            self.rows = [row for row in self.rows if not row.is_finished]
        for row in finished:
            self.remember(row)
            self._cache.release(row.slot)
        return finished

    def drain(self) -> list[ScheduledJob]:
        """Give up on everything."""
        rows = [*self.rows, *self._queue, *self._arrived]
        for row in self.rows:
            self._cache.release(row.slot)
        self.rows, self._queue, self._arrived = [], [], []
        return rows


def _grouped(copies: list[tuple[int | None, int, int]]) -> Iterator[Copy]:
    """Copies from one slot are done at once where they follow each other.

    Their order is kept: a slot may first be copied from and then be given up to another stream.
    """
    for (source, length), group in groupby(copies, key=lambda copy: copy[:2]):
        if source is not None:
            yield Copy(source, length, tuple(target for _, _, target in group))
