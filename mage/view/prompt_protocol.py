"""The HTTP protocol of the server: a connection whose request does not arrive in time is closed."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0
"""How long a request may take to arrive, with its headers and its body."""
MAX_WAITING = 64
"""Most connections that are waited for at once: one more closes the oldest of them, so that others are served."""


class PromptProtocol(H11Protocol):
    """uvicorn's protocol with a time limit for requests; uvicorn has one for idle connections only."""

    _limit: asyncio.TimerHandle | None = None
    """Runs while a request is awaited."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_waiting()
        elif self._limit is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._limit = self.loop.call_later(REQUEST_S, self._give_up)
        waiting = {
            each: each._limit.when() for each in self.connections if isinstance(each, PromptProtocol) and each._limit
        }
        if len(waiting) > MAX_WAITING:
            min(waiting, key=lambda each: waiting[each])._give_up()

    def _stop_waiting(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _give_up(self) -> None:
        self._stop_waiting()
        self.transport.abort()
