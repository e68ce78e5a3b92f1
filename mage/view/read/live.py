"""Telling pages what grew, as server-sent events."""

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
_MOVE_S = 0.1
_REST = 10.0
"""How much longer than a look the pause after it is at least: many runs take long to look at."""
_RETRY = b"retry: 2000\n\n"
_STILL_HERE = b": still here\n\n"
"""Said where nothing is new, so that a page that is gone is noticed."""
_TOLD = ("status", "why", "step", "trials", "alarms", "updated")


class Versioned(Protocol):
    """Something that counts its changes."""

    @property
    def version(self) -> int: ...


class Live:
    """Streams of `change` events. They end when the server does: it would wait for them."""

    def __init__(self, store: RunStore, stopping: Event) -> None:
        self._store = store
        self._stopping = stopping

    def runs(self, run: str | None) -> StreamingResponse:
        """About one run what is new of it, about all runs which ones are new or grew."""
        if run is not None:
            self._store.folder.find(run)
        return StreamingResponse(self._changes(run), media_type="text/event-stream")

    def game(self, session: str, game: Versioned) -> StreamingResponse:
        """About one game that something happened in it."""
        return StreamingResponse(self._moves(session, game), media_type="text/event-stream")

    async def _changes(self, run: str | None) -> AsyncIterator[bytes]:
        known: dict[str, Any] | None = None
        yield _RETRY
        while not self._stopping.is_set():
            began = monotonic()
            try:
                found = await run_in_threadpool(_look, self._store, run)
            except MageError as error:
                yield _event("gone", {"error": one_line(error)})
                return
            if known is not None and found != known:
                yield _event("change", _difference(known, found, run))
            else:
                yield _STILL_HERE
            known = found
            await self._rest(max(_EVERY_S, _REST * (monotonic() - began)))

    async def _moves(self, session: str, game: Versioned) -> AsyncIterator[bytes]:
        known = -1
        yield _RETRY
        while not self._stopping.is_set():
            if game.version != known:
                known = game.version
                yield _event("change", {"session": session, "version": known})
            await self._rest(_MOVE_S)

    async def _rest(self, seconds: float) -> None:
        until = monotonic() + seconds
        while monotonic() < until and not self._stopping.is_set():
            await asyncio.sleep(min(_MOVE_S, until - monotonic()))


def _look(store: RunStore, run: str | None) -> dict[str, Any]:
    cards = store.runs(_EVERY_S / 2) if run is None else [store.card(run)]
    return {card.id: _told(card) for card in cards}


def _told(card: RunSummary) -> dict[str, Any]:
    return {name: getattr(card, name) for name in _TOLD}


def _difference(known: dict[str, Any], found: dict[str, Any], run: str | None) -> dict[str, Any]:
    changed = [identity for identity in found if found[identity] != known.get(identity)]
    if run is not None:
        return {"run": run, **found[run]}
    return {"runs": changed, "gone": [identity for identity in known if identity not in found]}


def _event(name: str, value: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
