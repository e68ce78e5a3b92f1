"""The positions of a micro-batch: `learner.token_budget`, halved where memory runs out, or fitted to it with `auto`.

With `auto` on a GPU, memory is measured in the updates themselves, not in passes made for it: the peak of one update
says how large the micro-batches of the next may be. On a CPU there is nothing to fill, and `auto` is a fixed number.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Literal, Protocol

import torch

from mage.learners.settings import AUTO_BUDGET, AUTO_SHARE

MAX_GROWTH = 4
"""The budget grows at most by this factor from one update to the next."""
_KEEP = (0.9, 1.25)
"""A budget stays as it is while the one that would fill the share is within these factors of it."""
_LIMIT = 0.75
"""After memory ran out, the budget stays below this share of what was tried."""
_SET = "token_budget_set"
"""The counter that says with which setting the number was found; 0 is auto."""


class DeviceMemory(Protocol):
    """What is read of a device's memory, in bytes."""

    def free(self) -> int:
        """What this process could still allocate."""

    def allocated(self) -> int:
        """What its tensors take now."""

    def peak(self) -> int:
        """The most that they took since `reset_peak`."""

    def reset_peak(self) -> None:
        """Begin a new peak."""


class CudaMemory:
    """The memory of a CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def free(self) -> int:
        unused = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
        return int(torch.cuda.mem_get_info(self._device)[0]) + unused

    def allocated(self) -> int:
        return torch.cuda.memory_allocated(self._device)

    def peak(self) -> int:
        return torch.cuda.max_memory_allocated(self._device)

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)


class BudgetTuner:
    """Chooses the budget of the next update from the memory that the last one took.

    An update takes a constant (gradients) and an amount for each position of its largest micro-batch. Scaled by the
    share of the free memory that was taken, the budget rises to the one that fills the share and does not pass it.
    """

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._is_first = True
        self._free = self._allocated = 0
        self._limit: int | None = None

    def begin(self) -> None:
        """Call before an update."""
        self._free, self._allocated = self._memory.free(), self._memory.allocated()
        self._memory.reset_peak()

    def ran_out(self, tried: int) -> None:
        """Memory ran out in a micro-batch of so many positions; the update begins again."""
        self._limit = int(_LIMIT * tried)
        self._memory.reset_peak()

    def next_budget(self, budget: int, tried: int) -> int:
        """The budget after an update whose largest micro-batch had `tried` positions.

        The first update of a process says nothing: in it the optimizer's moments are made, and layers are compiled.
        Neither does one whose micro-batches were far smaller than the budget: there were no more samples.
        """
        taken = self._memory.peak() - self._allocated
        is_first, self._is_first = self._is_first, False
        if is_first or 2 * tried < budget or taken <= 0:
            return budget
        return next_budget(budget, tried, taken, self._free, self._limit)


def next_budget(budget: int, tried: int, taken: int, free: int, limit: int | None) -> int:
    """The budget with which an update would take `AUTO_SHARE` of the free bytes, where `tried` positions took `taken`.

    >>> [next_budget(4096, 4096, taken, 100, None) for taken in (10, 40, 70)]
    [16384, 8192, 4096]
    >>> next_budget(4096, 4096, 10, 100, 9000), next_budget(4096, 4096, 160, 100, None)
    (9000, 2048)
    """
    filling = tried * AUTO_SHARE * free / taken
    least, most = _KEEP
    if least * budget <= filling <= most * budget:
        return budget
    grown = min(int(filling), MAX_GROWTH * budget)
    return max(1, grown if limit is None else min(grown, limit))


class TokenBudget:
    """The most positions of a micro-batch now, for one learner."""

    def __init__(self, setting: Literal["auto"] | int, device: torch.device) -> None:
        is_tuned = setting == "auto" and device.type == "cuda"
        self.tuner = BudgetTuner(CudaMemory(device)) if is_tuned else None
        """What fits the number to the memory; None for a fixed one."""
        self._begin_with(setting)

    def _begin_with(self, setting: Literal["auto"] | int) -> None:
        self._setting = setting
        self.value = AUTO_BUDGET if setting == "auto" else setting
        self._largest = 0

    def begin(self) -> None:
        """Call before an update."""
        self._largest = 0
        if self.tuner is not None:
            self.tuner.begin()

    def note(self, largest: int) -> None:
        """The largest micro-batch of an optimizer step has so many positions."""
        self._largest = max(self._largest, largest)

    def end(self) -> None:
        """Call after an update: the next one may have another number."""
        if self.tuner is not None:
            self.value = self.tuner.next_budget(self.value, self._largest)

    def halve(self, largest: int) -> None:
        """Memory ran out in an optimizer step whose largest micro-batch has so many positions."""
        before, self.value = self.value, max(1, min(self.value, largest) // 2)
        self._largest = 0
        if self.tuner is not None:
            self.tuner.ran_out(largest)
        warnings.warn(
            f"out of memory with learner.token_budget = {before}; the step begins again with {self.value}",
            stacklevel=3,
        )

    def metrics(self) -> dict[str, float]:
        """The number where it is not the setting."""
        return {} if self.value == self._setting else {"learner/token_budget": self.value}

    def numbers(self) -> dict[str, float]:
        """The counters of a learner's state; none where the number is the setting."""
        return {} if self.value == self._setting else {"token_budget": self.value, _SET: _as_number(self._setting)}

    def restore(self, numbers: Mapping[str, float], setting: Literal["auto"] | int) -> None:
        """Go on with the number of a state, unless it was found with another setting than there is now."""
        self._begin_with(setting)
        if "token_budget" in numbers and numbers.get(_SET, _as_number(setting)) == _as_number(setting):
            self.value = int(numbers["token_budget"])


def _as_number(setting: Literal["auto"] | int) -> int:
    return 0 if setting == "auto" else setting
