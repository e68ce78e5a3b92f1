"""AdamW with float32 master weights for a model that computes in bfloat16.

A bfloat16 number has eight bits of precision: an update smaller than a 256th of a weight would be rounded away, and
so would late terms of a gradient sum. Weights and gradients are kept in float32, and the model's weights are rounded
from them after each step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn import Parameter

_MASTER = "master"


class _Pair(NamedTuple):
    name: str
    parameter: Parameter
    master: Parameter
    """The parameter itself where it is float32 already."""

    @property
    def is_copy(self) -> bool:
        return self.master is not self.parameter


class MasterWeights:
    """The trained parameters in float32 with AdamW, kept in step with the model's parameters."""

    def __init__(self, named: Iterable[tuple[str, Parameter]], *, lr: float, weight_decay: float) -> None:
        self._pairs = [_Pair(name, parameter, _master(parameter)) for name, parameter in named]
        master_weights = [pair.master for pair in self._pairs]
        self._is_fused = all(master.is_cuda for master in master_weights)
        self._optimizer = torch.optim.AdamW(
            master_weights, lr=lr, weight_decay=weight_decay, fused=self._is_fused or None
        )

    def zero_grad(self) -> None:
        """Clear all gradients."""
        for pair in self._pairs:
            pair.parameter.grad = pair.master.grad = None

    @torch.no_grad()
    def accumulate(self) -> None:
        """Add the gradients of a micro-batch to the master weights' gradients, in float32."""
        for pair in self._pairs:
            gradient = pair.parameter.grad
            if not pair.is_copy or gradient is None:
                continue
            if pair.master.grad is None:
                pair.master.grad = gradient.float()
            else:
                pair.master.grad.add_(gradient)
            pair.parameter.grad = None

    def clip(self, limit: float) -> Tensor:
        """Scale the gradient down to a norm of at most `limit`; return the norm it had."""
        gathered = [pair.master for pair in self._pairs if pair.master.grad is not None]
        return _whole(torch.nn.utils.clip_grad_norm_(gathered, limit))

    @torch.no_grad()
    def norm(self) -> Tensor:
        """The norm of all trained parameters together; it stays on their device."""
        return _whole(torch.nn.utils.get_total_norm([pair.master for pair in self._pairs]))

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Update the master weights and round them into the model's parameters, in place."""
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._optimizer.step()
        for pair in self._pairs:
            if pair.is_copy:
                pair.parameter.copy_(pair.master)
                pair.master.grad = None

    def state(self) -> dict[str, Tensor]:
        """The master weights and the optimizer's moments."""
        tensors = {f"{_MASTER}/{pair.name}": pair.master.detach() for pair in self._pairs if pair.is_copy}
        for pair in self._pairs:
            for key, value in self._optimizer.state.get(pair.master, {}).items():
                tensors[f"{key}/{pair.name}"] = value
        return tensors

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned; parameters without a saved master weight take `weights`."""
        self._optimizer.state.clear()
        saved: defaultdict[str, dict[str, Tensor]] = defaultdict(dict)
        for path, tensor in tensors.items():
            key, _, name = path.partition("/")
            saved[name][key] = tensor
        for pair in self._pairs:
            moments = saved[pair.name]
            source = moments.pop(_MASTER, weights.get(pair.name))
            if source is not None:
                pair.master.copy_(source)
                pair.parameter.copy_(pair.master)
            if moments:
                self._optimizer.state[pair.master] = {key: self._placed(key, t, pair) for key, t in moments.items()}

    def _placed(self, key: str, tensor: Tensor, pair: _Pair) -> Tensor:
        """A copy on the device where AdamW expects it: its step counter is on the GPU only where it is fused."""
        is_there = key != "step" or self._is_fused
        return tensor.clone().to(pair.master.device if is_there else "cpu")


def _whole(norm: Tensor) -> Tensor:
    """A norm as it is on one device; that of sharded tensors is computed by all ranks together."""
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def _master(parameter: Parameter) -> Parameter:
    return parameter if parameter.dtype is torch.float32 else Parameter(parameter.detach().float())
