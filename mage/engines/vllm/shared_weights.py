"""What is added to vLLM's workers: weights on a GPU that they read in place (CUDA IPC), and weights below adapters.

vLLM's own transfer between processes unpickles what it is sent over HTTP, which lets the sender run code. Here a
request has names and numbers alone; a method that is added to vLLM's workers (`--worker-extension-cls`) reads them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from mage.errors import EngineError, library_errors

EXTENSION = f"{__name__}.SharedWeights"
"""The value of vLLM's option --worker-extension-cls."""
METHOD = "load_shared_weights"
RELOAD = "reload_base"
Piece = Sequence[Any]
"""A tensor in a buffer: its name, dtype and shape, and the byte at which it begins. A request has it as a list."""
_LAYERWISE = "vllm.model_executor.model_loader.reload.layerwise"
_ALIGNMENT = 256
"""Bytes; a tensor begins at a multiple of it."""


def card_of(weights: Mapping[str, Tensor]) -> torch.device | None:
    """The GPU that a learner's weights are on; None where there is none. One is read: ranks gather what is read.

    >>> card_of({"weight": torch.ones(2)})
    """
    device = next(iter(weights.values())).device
    return device if device.type == "cuda" else None


@torch.no_grad()
def packed(weights: Mapping[str, Tensor]) -> tuple[Tensor, list[Piece]]:
    """Copies of weights in one buffer on their device, and where each of them is.

    A learner's own tensors are not shared: each time that is done, PyTorch keeps an entry as long as the tensor lives.

    >>> packed({"a": torch.ones(3), "b": torch.ones(2, 2)})[1]
    [['a', 'float32', [3], 0], ['b', 'float32', [2, 2], 256]]
    """
    pieces: list[Piece] = []
    size = 0
    for name, tensor in weights.items():
        pieces.append([name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), size])
        size += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
    buffer = torch.empty(size, dtype=torch.uint8, device=next(iter(weights.values())).device)
    for piece, tensor in zip(pieces, weights.values(), strict=True):
        _tensor_of(buffer, piece).copy_(tensor)
    return buffer, pieces


def unpacked(buffer: Tensor, pieces: Sequence[Piece], device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a buffer by name, copied to a device."""
    for piece in pieces:
        yield piece[0], _tensor_of(buffer, piece).to(device, copy=True)


def share(buffer: Tensor) -> dict[str, Any]:
    """What another process needs to open a buffer on a GPU of this machine, for JSON.

    The buffer's memory is kept until the other process has let go of it, also where it is deleted here before.
    """
    torch.cuda.synchronize(buffer.device)
    _, *parts = buffer.untyped_storage()._share_cuda_()  # type: ignore[no-untyped-call]
    card = str(torch.cuda.get_device_properties(buffer.device).uuid)
    return {"card": card, "parts": [part.hex() if isinstance(part, bytes) else part for part in parts]}


def opened(shared: Mapping[str, Any]) -> Tensor:
    """A buffer that another process shares."""
    cards = [str(torch.cuda.get_device_properties(index).uuid) for index in range(torch.cuda.device_count())]
    if shared["card"] not in cards:
        raise EngineError(f"the server sees {len(cards)} GPUs, and not the learner's, {shared['card']}")
    index = cards.index(shared["card"])
    parts = [bytes.fromhex(part) if isinstance(part, str) else part for part in shared["parts"]]
    storage = torch.UntypedStorage._new_shared_cuda(index, *parts)
    return torch.empty(0, dtype=torch.uint8, device=f"cuda:{index}").set_(storage)


class SharedWeights:
    """What vLLM adds to the class of its workers; the names of the methods are `METHOD` and `RELOAD`."""

    def reload_base(self: Any, **source: Any) -> None:
        """vLLM's `reload_weights`, which in 0.22 cannot load the weights below adapters."""
        model = self.model_runner.get_model()
        with _without_adapters(model):
            self.reload_weights(**source)
            _let_go_of_layers(model)

    def load_shared_weights(self: Any, shared: Mapping[str, Any], pieces: Sequence[Piece]) -> str:
        """Load weights from a buffer of another process; without any, the buffer is opened and no more.

        Returns why it cannot be opened; an empty text where it can.
        """
        try:
            with library_errors(EngineError):
                buffer = opened(shared)
        except EngineError as error:
            return str(error)
        if pieces:
            self.reload_base(weights_iterator=unpacked(buffer, pieces, self.device))
        if buffer.is_cuda:
            for device in {buffer.device, self.device}:
                torch.cuda.synchronize(device)  # the buffer is the sender's again when this returns
        return ""


@contextmanager
def _without_adapters(model: nn.Module) -> Iterator[None]:
    """The layers that vLLM has put adapters around, in their places: weights have the names that they had before."""
    wrapped = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if hasattr(child, "base_layer")
    ]
    try:
        for parent, name, child in wrapped:
            setattr(parent, name, child.base_layer)
        yield
    finally:
        for parent, name, child in wrapped:
            setattr(parent, name, child)


def _let_go_of_layers(model: nn.Module) -> None:
    """Remove the references to layers from what vLLM keeps for the next reload: they are never freed otherwise."""
    if _LAYERWISE not in sys.modules:
        return  # nothing was reloaded
    from vllm.model_executor.model_loader.reload.layerwise import LAYERWISE_INFO, _get_original_loader
    from vllm.model_executor.model_loader.reload.sanitize import sanitize_layer_refs

    for layer in {*model.modules()} & {*LAYERWISE_INFO}:
        for tensors in LAYERWISE_INFO[layer].restore_metadata:
            for tensor in tensors.values():
                tensor.weight_loader = _get_original_loader(tensor)
                sanitize_layer_refs(tensor, layer)


def _tensor_of(buffer: Tensor, piece: Piece) -> Tensor:
    _, name, shape, begin = piece
    dtype: torch.dtype = getattr(torch, name)
    return buffer[begin : begin + prod(shape) * dtype.itemsize].view(dtype).view(shape)
