"""An HTTP client for many requests at once, without a close of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx


class _Session:
    """The client of one event loop."""

    def __init__(self, client: httpx.AsyncClient, concurrency: int) -> None:
        self.client = client
        self.gate = asyncio.Semaphore(concurrency)
        self.loop = asyncio.get_running_loop()
        self.num_requests = 0


class SharedClient:
    """The first request in flight opens the client and the last one closes it; at most `concurrency` use it at once."""

    def __init__(self, open_client: Callable[[], httpx.AsyncClient], concurrency: int) -> None:
        self._open_client = open_client
        self._concurrency = concurrency
        self._session: _Session | None = None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[httpx.AsyncClient]:
        session = self._session
        if session is None or session.loop is not asyncio.get_running_loop():
            session = self._session = _Session(self._open_client(), self._concurrency)
        session.num_requests += 1
        try:
            async with session.gate:
                yield session.client
        finally:
            session.num_requests -= 1
            if session.num_requests == 0:
                if self._session is session:
                    self._session = None
                await session.client.aclose()
