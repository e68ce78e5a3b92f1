"""Sends whole weights to vLLM servers through the memory of a GPU, where the servers' workers can read it."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mage.aio import all_done
from mage.engines.vllm.shared_weights import EXTENSION, METHOD, Piece, card_of, packed, share
from mage.errors import EngineError, library_errors
from mage.weights import GatheredWeights

Post = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Sends a request to a path of the server; raises an EngineError where it is not answered."""


class SharedLoader:
    """Finds out once whether weights can be shared with a server, and shares them."""

    def __init__(self, server: str, post: Post, extension: str) -> None:
        """`server` is what it is called; `extension` is the class that it was told to add to its workers."""
        self._server = server
        self._post = post
        self._extension = extension
        self._obstacle: str | None = None
        """Why weights cannot be shared; empty where they can, None where it was not tried."""

    @property
    def is_closed(self) -> bool:
        """Whether it is known that weights cannot be shared."""
        return bool(self._obstacle)

    async def can_read(self, card: torch.device) -> bool:
        """Whether the server's workers can read a GPU, which is tried once; the reason why not is said once."""
        if self._obstacle is None:
            self._obstacle = await self._find_obstacle(card)
            if self._obstacle:
                self.give_up(self._obstacle)
        return not self._obstacle

    async def load(self, buffer: Tensor, pieces: Sequence[Piece]) -> None:
        """Replace all weights of the model by the pieces of a buffer."""
        if obstacle := await self._send(buffer, pieces):
            raise EngineError(f"{self._server} cannot load the weights: {obstacle}")

    def give_up(self, obstacle: str) -> None:
        """Share no weights from now on, and say why."""
        self._obstacle = obstacle
        warnings.warn(f"weights go to {self._server} as files, not from GPU to GPU: {obstacle}", stacklevel=4)

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


async def share_weights(loaders: Sequence[SharedLoader], weights: Mapping[str, Tensor]) -> list[bool]:
    """Replace all weights of servers that can read the GPU they are on; for each server whether that was done.

    Weights are copied into one buffer for all servers. For weights that are not on a GPU no reason is said.
    """
    none = [False] * len(loaders)
    if all(loader.is_closed for loader in loaders) or (card := card_of(weights)) is None:
        return none
    can_read = [await loader.can_read(card) for loader in loaders]
    chosen = [loader for loader, can in zip(loaders, can_read, strict=True) if can]
    if not chosen:
        return none
    try:
        _check_room(card, weights)
        buffer, pieces = packed(weights)
    except torch.OutOfMemoryError:  # of the copy: where gathering runs out of memory, that is a RankError
        for loader in chosen:
            loader.give_up("the GPU has no room for a copy of them")
        return none
    await all_done(loader.load(buffer, pieces) for loader in chosen)
    return can_read


def _check_room(card: torch.device, weights: Mapping[str, Tensor]) -> None:
    """Raise an error of memory where a GPU has no room for a copy of weights and for those gathered meanwhile.

    It is tried before, because ranks that run out of memory while they gather cannot go on.
    """
    if isinstance(weights, GatheredWeights):
        torch.empty(weights.num_bytes + weights.most_bytes, dtype=torch.uint8, device=card)
        torch.cuda.empty_cache()  # what was tried is no place for small tensors
