"""The optimizer, and master weights: float32 numbers behind a model that computes in fewer bits.

A bfloat16 number has eight bits of precision. An update smaller than a 256th of a weight would be rounded away, and
so would the tail of a sum of gradients. So both are kept in float32, and what the model computes with is rounded
from it after each step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
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
    """The trained parameters in float32 with AdamW, and the way from a model's gradients to them and back."""

    def __init__(self, named: Iterable[tuple[str, Parameter]], *, lr: float, weight_decay: float) -> None:
        self._pairs = [_Pair(name, parameter, _master(parameter)) for name, parameter in named]
        master_weights = [pair.master for pair in self._pairs]
        self._is_fused = all(master.is_cuda for master in master_weights)
        self._optimizer = torch.optim.AdamW(
            master_weights, lr=lr, weight_decay=weight_decay, fused=self._is_fused or None
        )

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for pair in self._pairs:
            pair.parameter.grad = pair.master.grad = None

    @torch.no_grad()
    def accumulate(self) -> None:
        """Add the gradients of a micro-batch to the masters', in float32."""
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
        return torch.nn.utils.clip_grad_norm_(gathered, limit)

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Move the masters along the gradient and round them into the model's own numbers, in place."""
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._optimizer.step()
        for pair in self._pairs:
            if pair.is_copy:
                pair.parameter.copy_(pair.master)
                pair.master.grad = None

    def state(self) -> dict[str, Tensor]:
        """What the model's own numbers do not tell: masters, and the optimizer's moments."""
        tensors = {f"{_MASTER}/{pair.name}": pair.master.detach() for pair in self._pairs if pair.is_copy}
        for pair in self._pairs:
            for key, value in self._optimizer.state.get(pair.master, {}).items():
                tensors[f"{key}/{pair.name}"] = value
        return tensors

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
        """Go on exactly where `state` was taken.

        Masters are those that were saved, else the weights as given, which a float32 run saves as they are.
        """
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
        """A copy where the optimizer looks for it: it counts steps on the device only where it is fused."""
        is_there = key != "step" or self._is_fused
        return tensor.clone().to(pair.master.device if is_there else "cpu")


def _master(parameter: Parameter) -> Parameter:
    return parameter if parameter.dtype is torch.float32 else Parameter(parameter.detach().float())
