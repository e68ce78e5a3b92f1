"""Shard modules over the ranks, and move tensors between whole and sharded form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn import Module, ModuleList, Parameter

from mage.learners.sharded.ranks import ROOT, Ranks


class ShardedRoot(Module):
    """Everything that the loss uses, as one module: whatever it computes finds the weights in place.

    The loss is more than the forward pass of the model: it reads rows of the head, a value head and a reference.
    """

    def __init__(self, modules: list[Module], ranks: Ranks, dtype: torch.dtype) -> None:
        """`modules` have weights on rank 0 alone, on any device; no rank has more than a layer of them at a time."""
        super().__init__()
        self.parts = ModuleList(modules)
        # Trained weights are float32, so that shards are their own master weights; they compute in `dtype`.
        policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)
        for module in modules:
            _shard_parts(module, ranks, policy)
        _receive(self, ranks.device)
        fully_shard(self, mesh=ranks.mesh, mp_policy=policy, reshard_after_forward=False)
        for module in self.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)  # the sum: weights of tokens add up to one over all ranks
                module.set_force_sum_reduction_for_comms(True)

    def forward(self, compute: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """The result of a function that uses the modules."""
        return compute(*args, **kwargs)


def _shard_parts(module: Module, ranks: Ranks, policy: MixedPrecisionPolicy) -> None:
    """Shard the decoder layers of a model one by one, or a value head, which computes in float32."""
    if isinstance(module, torch.nn.Linear):
        fully_shard(module, mesh=ranks.mesh)
        return
    inner: Any = getattr(module, "model", None)
    for layer in getattr(inner, "layers", ()):
        _receive(layer, ranks.device)
        fully_shard(layer, mesh=ranks.mesh, mp_policy=policy)


@torch.no_grad()
def _receive(module: Module, device: torch.device) -> None:
    """Give the tensors of rank 0's module to all ranks, on their devices; what is sharded already is left alone.

    Trained ones become float32.
    """
    done: dict[int, tuple[Tensor, Tensor]] = {}
    """By identity, so that tied tensors stay one, with the tensor itself, so that no other gets its identity."""
    for owner in module.modules():
        kinds: tuple[dict[str, Any], ...] = (owner._parameters, owner._buffers)
        for tensors in kinds:
            for name, tensor in tensors.items():
                if tensor is None or isinstance(tensor, DTensor):
                    continue
                if id(tensor) not in done:
                    done[id(tensor)] = (tensor, _of_root(tensor, device))
                tensors[name] = done[id(tensor)][1]


def _of_root(tensor: Tensor, device: torch.device) -> Tensor:
    data = torch.empty_like(tensor, device=device) if tensor.is_meta else tensor.detach().to(device).contiguous()
    dist.broadcast(data, ROOT)
    if not isinstance(tensor, Parameter):
        return data
    return Parameter(data.float() if tensor.requires_grad else data, tensor.requires_grad)


def whole(tensor: Tensor) -> Tensor:
    """A tensor gathered from all ranks."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def received(tensor: Tensor, like: Tensor | None) -> Tensor:
    """A whole tensor of rank 0, which others have room for, on all ranks; sharded as `like` is."""
    dist.broadcast(tensor, ROOT)
    if isinstance(like, DTensor) and like.shape == tensor.shape:
        return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)
    return tensor


def tied_names(model: Module) -> dict[str, str]:
    """For each name in the state dict the first name of the same tensor; call before sharding."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(tensor), name) for name, tensor in model.state_dict(keep_vars=True).items()}
