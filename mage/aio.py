"""Run a coroutine from synchronous code, also where an event loop is running already, and several to their ends."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread, current_thread, main_thread
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_GC_THRESHOLD = 200_000
"""Allocations between collections of cycles. Trials allocate many objects and hardly a cycle: with Python's default
much of a rollout's time goes into collections."""


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return what it returns.

    A signal whose handler raises `KeyboardInterrupt` raises it at once in code of the coroutine itself. Elsewhere it
    cancels the coroutine and is raised when that has ended; the next one is raised at once.
    """
    with _fewer_collections():
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            found: list[T] = []
            with closing(work), asyncio.Runner() as runner:
                loop = runner.get_loop()  # first: where no event loop can be made, the coroutine is closed
                with _interrupts_cancel(loop) as running:
                    runner.run(_keep(work, found, running))
            return found[0]
        return _in_a_thread(work)


async def all_done(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What coroutines that run together return; where some fail, the first one's error, when all have ended."""
    found = await asyncio.gather(*work, return_exceptions=True)
    results: list[T] = []
    for each in found:
        if isinstance(each, BaseException):
            raise each
        results.append(each)
    return results


async def _keep(work: Coroutine[Any, Any, T], found: list[T], running: list[asyncio.Task[Any] | None]) -> None:
    """Put the result into a list: `asyncio.run` would compute the repr of a task's result, here of a whole rollout."""
    running.append(asyncio.current_task())
    found.append(await work)


@contextmanager
def _interrupts_cancel(loop: asyncio.AbstractEventLoop) -> Iterator[list[asyncio.Task[Any] | None]]:
    """A context in which `KeyboardInterrupt` of a signal is raised in the task of the list alone, and else cancels it.

    asyncio does so for SIGINT alone, and only where its handler is Python's own. An exception that is raised within the
    event loop itself may lose a callback; the task that waits for it could not be cancelled and would be waited for
    without end.
    """
    running: list[asyncio.Task[Any] | None] = []
    if current_thread() is not main_thread():
        yield running
        return
    is_interrupted = False
    handlers: dict[int, Any] = {}

    def wrap(signum: int) -> None:
        """Put a handler that is a function below the one here; one that is put back by another comes below it again."""
        handler = signal.getsignal(signum)
        if callable(handler) and handler is not handle:
            handlers[signum] = handler
            signal.signal(signum, handle)

    def handle(signum: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        try:
            handlers[signum](signum, frame)
        except KeyboardInterrupt:
            task = running[0] if running else None
            if task is None or task.done() or is_interrupted or asyncio.current_task(loop) is task:
                raise
            is_interrupted = True
            task.cancel()
            loop.call_soon_threadsafe(lambda: None)  # wakes the loop
        finally:
            wrap(signum)

    for signum in (signal.SIGINT, signal.SIGTERM):
        wrap(signum)
    try:
        yield running
    except asyncio.CancelledError:
        if is_interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        for wrapped, handler in handlers.items():
            if signal.getsignal(wrapped) is handle:
                signal.signal(wrapped, handler)
    if is_interrupted:  # it came when the work was done
        raise KeyboardInterrupt


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
