"""Server-sent events about runs that grow and play sessions that change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from threading import Event
from time import monotonic
from typing import Any, Protocol

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from mage.errors import MageError
from mage.view.read.folder import one_line
from mage.view.read.run_store import RunStore
from mage.view.read.run_summary import RunSummary

_EVERY_S = 1.0
_SESSION_S = 0.1
_PAUSE_FACTOR = 10.0
"""The pause after a look is at least this many times its duration, since many runs take long."""
_RETRY = b"retry: 2000\n\n"
_STILL_HERE = b": still here\n\n"
"""Sent if nothing is new, so that closed pages are noticed."""
_REPORTED = ("status", "why", "step", "trials", "alarms", "updated")


class Versioned(Protocol):
    """An object with a version number that grows with every change."""

    @property
    def version(self) -> int: ...


class Live:
    """Streams of `change` events. They end when `stopping` is set, because the shutdown waits for them."""

    def __init__(self, store: RunStore, stopping: Event) -> None:
        self._store = store
        self._stopping = stopping

    def runs(self, run: str | None) -> StreamingResponse:
        """For one run its new values; for all runs the ids of those that are new or changed."""
        if run is not None:
            self._store.folder.find(run)
        return StreamingResponse(self._changes(run), media_type="text/event-stream")

    def session(self, identity: str, session: Versioned) -> StreamingResponse:
        """An event for every change of a play session."""
        return StreamingResponse(self._session_changes(identity, session), media_type="text/event-stream")

    async def _changes(self, run: str | None) -> AsyncIterator[bytes]:
        # The first look is an event as well: a page may have fetched before it, and what changed between would be lost.
        known: dict[str, Any] = {}
        yield _RETRY
        while not self._stopping.is_set():
            began = monotonic()
            try:
                found = await run_in_threadpool(_look, self._store, run)
            except MageError as error:
                yield _event("gone", {"error": one_line(error)})
                return
            if found != known:
                yield _event("change", _difference(known, found, run))
            else:
                yield _STILL_HERE
            known = found
            await self._pause(max(_EVERY_S, _PAUSE_FACTOR * (monotonic() - began)))

    async def _session_changes(self, identity: str, session: Versioned) -> AsyncIterator[bytes]:
        known = -1
        yield _RETRY
        while not self._stopping.is_set():
            if session.version != known:
                known = session.version
                yield _event("change", {"session": identity, "version": known})
            await self._pause(_SESSION_S)

    async def _pause(self, seconds: float) -> None:
        until = monotonic() + seconds
        while monotonic() < until and not self._stopping.is_set():
            await asyncio.sleep(min(_SESSION_S, until - monotonic()))


def _look(store: RunStore, run: str | None) -> dict[str, Any]:
    summaries = store.runs(_EVERY_S / 2) if run is None else [store.summary(run)]
    return {summary.id: _reported(summary) for summary in summaries}


def _reported(summary: RunSummary) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in _REPORTED}


def _difference(known: dict[str, Any], found: dict[str, Any], run: str | None) -> dict[str, Any]:
    changed = [identity for identity in found if found[identity] != known.get(identity)]
    if run is not None:
        return {"run": run, **found[run]}
    return {"runs": changed, "gone": [identity for identity in known if identity not in found]}


def _event(name: str, value: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
