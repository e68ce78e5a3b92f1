"""The weights of a policy as arrays that Ray's object store shares with the processes of a machine without copies."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mage.weights import GatheredWeights, LowRank, PolicyWeights

Array = Any
"""An array of NumPy."""


class PackedTensor(NamedTuple):
    """A tensor as the bytes of a NumPy array, which has no bfloat16, and its dtype."""

    bytes_: Array
    dtype: str
    shape: tuple[int, ...]


class PackedWeights(NamedTuple):
    """What changes in training: a whole model, or an adapter alone."""

    model: Mapping[str, PackedTensor]
    adapter: Mapping[str, tuple[PackedTensor, PackedTensor, float]]


def pack(weights: PolicyWeights) -> PackedWeights:
    """Pack weights; tied ones are one array. The base of an adapter is left out: every worker has loaded it."""
    if weights.adapter:
        adapter = {name: (_packed(a_RI), _packed(b_OR), by) for name, (a_RI, b_OR, by) in weights.adapter.items()}
        return PackedWeights({}, adapter)
    if isinstance(weights.model, GatheredWeights):
        return PackedWeights(_packed_when_gathered(weights.model), {})
    model = dict(weights.model)  # held together: only then are places in memory those of one tensor
    by_place = {(tensor.data_ptr(), tensor.shape): tensor for tensor in model.values()}
    packed = {place: _packed(tensor) for place, tensor in by_place.items()}
    return PackedWeights({name: packed[t.data_ptr(), t.shape] for name, t in model.items()}, {})


def unpack(packed: PackedWeights, base: Mapping[str, Tensor]) -> PolicyWeights:
    """The weights again, an adapter with its base; the tensors must not be written to."""
    if packed.adapter:
        adapter = {name: LowRank(_unpacked(a), _unpacked(b), by) for name, (a, b, by) in packed.adapter.items()}
        return PolicyWeights(base, adapter)
    return PolicyWeights({name: _unpacked(tensor) for name, tensor in packed.model.items()})


def _packed_when_gathered(model: GatheredWeights) -> dict[str, PackedTensor]:
    """Pack weights on the host while they are gathered, so that no card has them all."""
    packed: dict[str, PackedTensor] = {}
    for name in model:
        first = model.first_name(name)
        packed[name] = packed[first] if first in packed else _packed(model[name])
    return packed


def _packed(tensor: Tensor) -> PackedTensor:
    on_cpu = tensor.detach().cpu().contiguous()
    dtype = str(on_cpu.dtype).removeprefix("torch.")
    return PackedTensor(on_cpu.reshape(-1).view(torch.uint8).numpy(), dtype, tuple(tensor.shape))


def _unpacked(packed: PackedTensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the array is in shared memory and not writable
        flat = torch.from_numpy(packed.bytes_)
    return flat.view(getattr(torch, packed.dtype)).reshape(packed.shape)
