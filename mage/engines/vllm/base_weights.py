"""Which base weights vLLM has below the adapters, so that they are sent only where they are other ones."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class BaseWeights:
    """The base weights that vLLM has, known by sums over each tensor; unknown until they are compared first."""

    def __init__(self) -> None:
        self._sums: list[float] | None = None
        self._tensors: object = None
        """The tensors that were compared last, and their state: those of a learner stay where they are."""

    def differ(self, weights: Mapping[str, Tensor]) -> bool:
        """Whether these weights are other ones than vLLM has; from now on it is taken to have them.

        >>> base = BaseWeights()
        >>> one = {"weight": torch.ones(2)}
        >>> [base.differ(given) for given in (one, one, {"weight": torch.ones(2)}, {"weight": torch.zeros(2)})]
        [True, False, False, True]
        """
        tensors = [(tensor.data_ptr(), tensor._version) for tensor in weights.values()]
        if tensors == self._tensors:
            return False
        before, self._sums, self._tensors = self._sums, _sums(weights), tensors
        return before != self._sums

    def forget_tensors(self) -> None:
        """Compare sums the next time: other tensors may come to lie in the same place."""
        self._tensors = None


@torch.no_grad()
def _sums(weights: Mapping[str, Tensor]) -> list[float]:
    """The sum and the sum of squares of each tensor."""
    found: list[Tensor] = []
    for tensor in weights.values():
        numbers = tensor.detach().float()
        found += (numbers.sum(), numbers.square().sum())
    sums: list[float] = torch.stack(found).tolist()
    return sums
