"""Shard modules over the ranks, and move tensors between whole and sharded form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn import Module, ModuleList

from mage.learners.sharded.ranks import ROOT


class ShardedRoot(Module):
    """Everything that the loss uses, as one module: whatever it computes finds the weights in place.

    The loss is more than the forward pass of the model: it reads rows of the head, a value head and a reference.
    """

    def __init__(self, modules: list[Module], mesh: DeviceMesh, dtype: torch.dtype) -> None:
        super().__init__()
        self.parts = ModuleList(modules)
        # Trained weights are float32, so that shards are their own master weights; they compute in `dtype`.
        policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)
        for module in modules:
            _shard_parts(module, mesh, policy)
        _to_float32(self)
        fully_shard(self, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
        for module in self.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)  # the sum: weights of tokens add up to one over all ranks
                module.set_force_sum_reduction_for_comms(True)

    def forward(self, compute: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """The result of a function that uses the modules."""
        return compute(*args, **kwargs)


def _shard_parts(module: Module, mesh: DeviceMesh, policy: MixedPrecisionPolicy) -> None:
    """Shard the decoder layers of a model one by one, or a value head, which computes in float32."""
    if isinstance(module, torch.nn.Linear):
        fully_shard(module, mesh=mesh)
        return
    inner: Any = getattr(module, "model", None)
    for layer in getattr(inner, "layers", ()):
        _to_float32(layer)
        fully_shard(layer, mesh=mesh, mp_policy=policy)


def _to_float32(module: Module) -> None:
    for parameter in module.parameters():
        if parameter.requires_grad and not isinstance(parameter, DTensor):
            parameter.data = parameter.data.float()


def whole(tensor: Tensor) -> Tensor:
    """A tensor gathered from all ranks."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def received(tensor: Tensor, like: Tensor | None) -> Tensor:
    """A whole tensor of rank 0, which others have room for, on all ranks; sharded as `like` is."""
    dist.broadcast(tensor, ROOT)
    if isinstance(like, DTensor) and like.shape == tensor.shape:
        return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)
    return tensor


def share_tensors(model: Module) -> None:
    """Give the parameters and buffers of rank 0's model to the others', before any of it is sharded."""
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.data, ROOT)


def tied_names(model: Module) -> dict[str, str]:
    """For each name in the state dict the first name of the same tensor; call before sharding."""
    first: dict[int, str] = {}
    return {name: first.setdefault(tensor.data_ptr(), name) for name, tensor in model.state_dict().items()}
