"""Sends whole weights to a vLLM server through the memory of a GPU, where the server's workers can read it."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mage.engines.vllm.shared_weights import EXTENSION, METHOD, Piece, card_of, packed, share
from mage.errors import EngineError, library_errors

Post = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Sends a request to a path of the server; raises an EngineError where it is not answered."""


class SharedLoader:
    """Finds out once whether weights can be shared with a server, and shares them."""

    def __init__(self, post: Post, extension: str) -> None:
        """`extension` is the class that the server was told to add to its workers."""
        self._post = post
        self._extension = extension
        self._obstacle: str | None = None
        """Why weights cannot be shared; empty where they can, None where it was not tried."""

    async def load(self, weights: Mapping[str, Tensor]) -> bool:
        """Replace all weights of the model; False where they must be sent in another way.

        The reason is said once; for weights that are not on a GPU there is none to say.
        """
        card = card_of(weights)
        if card is None or self._obstacle:
            return False
        if self._obstacle is None and (obstacle := await self._find_obstacle(card)):
            return self._give_up(obstacle)
        self._obstacle = ""
        try:
            buffer, pieces = packed(weights)
        except torch.OutOfMemoryError:
            return self._give_up("the GPU has no room for a copy of them")
        if obstacle := await self._send(buffer, pieces):
            raise EngineError(f"vLLM cannot load the weights: {obstacle}")
        return True

    async def _find_obstacle(self, card: torch.device) -> str:
        """Why the server's workers cannot read a GPU; they are asked to open one byte of it."""
        if self._extension != EXTENSION:
            return f"the server was started without --worker-extension-cls {EXTENSION}"
        try:
            return await self._send(torch.zeros(1, dtype=torch.uint8, device=card), [])
        except EngineError as error:
            return str(error)

    async def _send(self, buffer: Tensor, pieces: Sequence[Piece]) -> str:
        """Have all workers load the pieces of a buffer; why one of them cannot open it."""
        with library_errors(EngineError):
            shared = share(buffer)
        body = {"method": METHOD, "kwargs": {"shared": shared, "pieces": pieces}}
        found = await self._post("/collective_rpc", body)
        return next(filter(None, found["results"]), "")

    def _give_up(self, obstacle: str) -> bool:
        self._obstacle = obstacle
        warnings.warn(f"weights go to the vLLM server as files, not from GPU to GPU: {obstacle}", stacklevel=3)
        return False
