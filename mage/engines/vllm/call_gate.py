"""Calls and publications take turns: a publication waits for the calls in flight, and later calls wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class CallGate:
    """Lets calls run together, and publications alone."""

    def __init__(self) -> None:
        self._num_calls = 0
        self._is_closed = False
        self._waiting: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """A call is in flight inside."""
        while self._is_closed:
            await self._change()
        self._num_calls += 1
        try:
            yield
        finally:
            self._num_calls -= 1
            self._wake()

    @asynccontextmanager
    async def publication(self) -> AsyncIterator[None]:
        """No call is in flight inside, and no other publication."""
        while self._is_closed:
            await self._change()
        self._is_closed = True
        try:
            while self._num_calls:
                await self._change()
            yield
        finally:
            self._is_closed = False
            self._wake()

    async def _change(self) -> None:
        """Wait until a call or a publication has ended."""
        changed = asyncio.get_running_loop().create_future()
        self._waiting.append(changed)
        await changed

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for changed in waiting:
            if not changed.done():
                changed.set_result(None)
