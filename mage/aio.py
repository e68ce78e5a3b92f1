"""Run a coroutine from synchronous code, also where an event loop is running already, as in a notebook."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")

_GC_THRESHOLD = 200_000
"""Allocations between collections of cycles. Trials allocate many objects and hardly a cycle: with Python's default
much of a rollout's time goes into collections."""


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return what it returns."""
    with _fewer_collections():
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            found: list[T] = []
            with closing(work), asyncio.Runner() as runner:
                runner.get_loop()  # first: where no event loop can be made, the coroutine is closed
                runner.run(_keep(work, found))
            return found[0]
        return _in_a_thread(work)


async def _keep(work: Coroutine[Any, Any, T], found: list[T]) -> None:
    """Put the result into a list: `asyncio.run` would compute the repr of a task's result, here of a whole rollout."""
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
    """Run in an event loop of its own, in a new thread; an interrupt of the caller cancels the coroutine."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    done = Event()  # an interrupted Thread.join takes the thread for ended

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
