"""The scheduler: which calls get a cache slot, and which share a forward pass. It handles ids and slots, no tensors.

If rows are padded, calls with similar numbers of new tokens share a pass. Of new calls that share a long prefix only
the first is admitted; the others wait for its first pass or burst and copy the prefix from its slot.
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
    """Copy the first `length` tokens of a slot to other slots."""

    source: int
    length: int
    targets: tuple[int, ...]


class ScheduledJob:
    """A job with its state: queued, then admitted to a slot of which the first `filled` tokens are computed."""

    __slots__ = ("adapter", "filled", "future", "is_in_flight", "job", "kept", "promise", "slot")

    def __init__(self, job: Job, future: Future[Any], adapter: int = -1) -> None:
        self.job = job
        self.future = future
        self.adapter = adapter
        self.slot = -1
        self.filled = 0
        self.kept = 0
        """How many tokens are recorded in the prefix cache."""
        self.promise: tuple[int, Ids] | None = None
        """The prefix that other jobs wait to copy after its first pass."""
        self.is_in_flight = False
        """Whether it is part of a pass that was not collected yet."""

    @property
    def num_new(self) -> int:
        """How many tokens its next pass computes."""
        return len(self.job.ids) - self.filled

    @property
    def is_finished(self) -> bool:
        """Whether it is done or its caller was cancelled."""
        return not self.is_in_flight and (self.job.is_done or self.future.done())


class Scheduler:
    """Rows are scheduled jobs: queued by `add`, given slots by `admit`, batched by `groups`, removed by `finish`."""

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
        """Give slots to queued rows in an order independent of arrival; return these rows and the copies to make.

        If slots are scarce, streams that continue a free slot come first, because the others would evict those slots:
        as many streams as there are slots run to their end, and the rest wait.
        """
        arrived = sorted(self._arrived, key=lambda row: (row.adapter, row.job.order))
        self._arrived = []
        if len(self._queue) + len(arrived) > self._cache.num_free:
            cached = [row for row in arrived if self._cache.has_free_slot_with(row.job.ids, row.adapter)]
            chosen = set(map(id, cached))
            self._queue = [*cached, *self._queue, *(row for row in arrived if id(row) not in chosen)]
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
        return admitted, list(_merge_copies(copies))

    def groups(self, rows: Iterable[ScheduledJob]) -> list[list[ScheduledJob]]:
        """Group rows into passes; the rows of a pass are ordered by slot."""
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
        """Record a row's computed tokens in the prefix cache."""
        if self._reuses and row.filled > row.kept:
            self._cache.keep(row.slot, row.job.ids[: row.filled], row.adapter)
            row.kept = row.filled

    def finish(self) -> list[ScheduledJob]:
        """Remove and return the rows that are done or cancelled; rows in flight stay."""
        self._queue = [row for row in self._queue if not row.future.done()]
        finished = [row for row in self.rows if row.is_finished]
        if finished:
            self.rows = [row for row in self.rows if not row.is_finished]
        for row in finished:
            self.remember(row)
            self._cache.release(row.slot)
        return finished

    def drain(self) -> list[ScheduledJob]:
        """Remove and return all rows."""
        rows = [*self.rows, *self._queue, *self._arrived]
        for row in self.rows:
            self._cache.release(row.slot)
        self.rows, self._queue, self._arrived = [], [], []
        return rows


def _merge_copies(copies: list[tuple[int | None, int, int]]) -> Iterator[Copy]:
    """Merge consecutive copies from one slot.

    Their order is kept: a slot may be copied from first and then be given to another stream.
    """
    for (source, length), group in groupby(copies, key=lambda copy: copy[:2]):
        if source is not None:
            yield Copy(source, length, tuple(target for _, _, target in group))
