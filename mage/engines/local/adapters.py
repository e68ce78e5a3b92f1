"""Several LoRA adapters in one forward pass: stacked matrices and a mask that selects each token's adapter.

An adapter adds (x A) B to a projection. The A of all adapters are stacked in one matrix and the B in another; zeroing
the columns of other adapters between the two products is exact, needs no gather, and one CUDA graph serves any mix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from mage.errors import EngineError
from mage.weights import LowRank


class AdapterCapacity(NamedTuple):
    """How many adapters can be served at once, and of which rank at most."""

    places: int
    rank: int


class StackedLowRank(NamedTuple):
    """The matrices of all adapters for one projection; each fused module has its own columns."""

    a_KD: Tensor
    b_FK: Tensor

    def add_to(self, y_TF: Tensor, x_TD: Tensor, mask_TK: Tensor) -> Tensor:
        """Add the output of each token's adapter on `x` to `y`, in place."""
        inner_TK = functional.linear(x_TD, self.a_KD) * mask_TK[:, : len(self.a_KD)]
        return y_TF.addmm_(inner_TK, self.b_FK.t())


class _ModuleSlot(NamedTuple):
    """Where the matrices of one module are in the stacked ones."""

    low: StackedLowRank
    part: int
    first: int
    num_out: int


class Adapters:
    """The stacked adapter matrices of all projections of a model."""

    def __init__(self, capacity: AdapterCapacity, like: Tensor) -> None:
        self.capacity = capacity
        self._like = like
        self._adapter_of_column_K = torch.arange(capacity.places, device=like.device).repeat_interleave(capacity.rank)
        """For as many fused modules as the widest projection has; others use its first columns."""
        self._places: dict[str, _ModuleSlot] = {}

    def add(self, names: Sequence[str], num_in: int, nums_out: Sequence[int]) -> StackedLowRank:
        """Allocate the matrices for one projection of fused modules."""
        columns = self.capacity.places * self.capacity.rank
        width = columns * len(names)
        if width > len(self._adapter_of_column_K):
            self._adapter_of_column_K = self._adapter_of_column_K[:columns].repeat(len(names))
        low = StackedLowRank(self._like.new_zeros(width, num_in), self._like.new_zeros(sum(nums_out), width))
        for part, (name, num_out) in enumerate(zip(names, nums_out, strict=True)):
            self._places[name] = _ModuleSlot(low, part, sum(nums_out[:part]), num_out)
        return low

    def owner_mask(self, adapters_T: Tensor) -> Tensor:
        """A mask (T, K): one where a column belongs to the token's adapter, else zero."""
        return (adapters_T[:, None] == self._adapter_of_column_K).to(self._like.dtype)

    @torch.no_grad()
    def load(self, number: int, factors: Mapping[str, LowRank]) -> None:
        """Write an adapter's matrices into its slot; modules that it leaves out are set to zero."""
        assert 0 <= number < self.capacity.places
        self._check(factors)
        for name, place in self._places.items():
            found = factors.get(name)
            start = (place.part * self.capacity.places + number) * self.capacity.rank
            a_RD = place.low.a_KD[start : start + self.capacity.rank].zero_()
            b_FR = place.low.b_FK[place.first : place.first + place.num_out, start : start + self.capacity.rank].zero_()
            if found is not None:
                a_RD[: len(found.a_RI)] = found.a_RI
                b_FR[:, : len(found.a_RI)] = found.scaling * found.b_OR

    def _check(self, factors: Mapping[str, LowRank]) -> None:
        for name, (a_RI, b_OR, _) in factors.items():
            if name not in self._places:
                raise EngineError(f"the engine has no room for an adapter in the module {name!r}")
            if len(a_RI) > self.capacity.rank:
                raise EngineError(
                    f"the adapter's rank is {len(a_RI)} in {name}; the engine has room for {self.capacity.rank}"
                )
            place = self._places[name]
            found, needed = (a_RI.shape[1], len(b_OR)), (place.low.a_KD.shape[1], place.num_out)
            if found != needed:
                raise EngineError(f"the adapter goes from {found[0]} to {found[1]} numbers in {name}, not {needed}")
        if factors and not torch.stack([t.isfinite().all() for f in factors.values() for t in f[:2]]).all():
            # The mask is a product with zero, and 0 x inf is nan: it would reach the rows of all other adapters.
            raise EngineError("the adapter's numbers are not all finite; its training may have diverged")
