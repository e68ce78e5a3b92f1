"""Waiting for a coroutine from code that does not wait, also inside a loop that runs already, as in a notebook."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")

_GC_THRESHOLD = 200_000
"""Objects that are made before the collector looks for cycles. Trials make many and hardly a cycle: at Python's own
figure much of a rollout's time goes into looking."""


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return what it returns."""
    with _fewer_collections():
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            found: list[T] = []
            asyncio.run(_keep(work, found))
            return found[0]
        return _in_a_thread(work)


async def _keep(work: Coroutine[Any, Any, T], found: list[T]) -> None:
    """What a task returns is written out when `asyncio.run` puts the interrupt handler back: a rollout in words."""
    found.append(await work)


@contextmanager
def _fewer_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(max(_GC_THRESHOLD, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _in_a_thread(work: Coroutine[Any, Any, T]) -> T:
    """A loop cannot run inside another, so this one has a thread of its own; an interrupt here cancels it."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    done = Event()  # an interrupted Thread.join believes that the thread has ended

    def run() -> None:
        try:
            loop.run_until_complete(asyncio.wait([task]))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            done.set()

    Thread(target=run, name="mage", daemon=True).start()
    try:
        done.wait()
    finally:
        if not done.is_set():
            loop.call_soon_threadsafe(task.cancel)
            done.wait()
        loop.close()
    return task.result()
