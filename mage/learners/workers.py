"""Gradients of micro-batches, computed side by side in threads and added in the order of the micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import Parameter

from mage.learners.metric_sums import MetricSums

T = TypeVar("T")
LossOf = Callable[[T, MetricSums], Tensor]
"""The loss of a micro-batch; its metrics are added to the sums."""


class GradientWorkers:
    """Threads that compute gradients; their number has no effect on the sums, not even on the last bit.

    PyTorch releases Python's lock in its operations, and computes the backward pass of a CPU in the calling thread.
    """

    def __init__(self, parameters: Sequence[Parameter], num: int) -> None:
        self._parameters = parameters
        self._pool = ThreadPoolExecutor(num, thread_name_prefix="gradient")

    def accumulate(self, batches: Iterable[T], loss_of: LossOf[T], sums: MetricSums) -> list[Tensor]:
        """Add the gradients of all micro-batches to those of the parameters, and return the losses."""

        def compute(batch: T) -> tuple[Tensor, MetricSums, tuple[Tensor | None, ...]]:
            own = MetricSums()
            loss = loss_of(batch, own)
            return loss.detach(), own, torch.autograd.grad(loss, self._parameters, allow_unused=True)

        losses: list[Tensor] = []
        for loss, own, gradients in self._pool.map(compute, batches):
            losses.append(loss)
            sums.merge(own)
            for parameter, gradient in zip(self._parameters, gradients, strict=True):
                if gradient is not None:
                    parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        return losses
