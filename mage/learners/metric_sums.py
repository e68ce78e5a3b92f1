"""Sums of metrics over the micro-batches of one update. `docs/metrics.md` defines every key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor


class MetricSums:
    """Sums and counts by name; `report` turns them into means over all rows.

    Sums of tensors stay on their device until the report, so that adding to them never waits for a GPU.
    """

    def __init__(self) -> None:
        self._totals: Counter[str] = Counter()
        self._sums: list[tuple[str, float | Tensor, int]] = []

    def add(self, name: str, amount: float) -> None:
        """Add to a total."""
        self._totals[name] += amount  # type: ignore[assignment]

    def mean(self, name: str, total: float, count: int) -> None:
        """Add `count` rows that sum to `total` to a mean."""
        self._sums.append((name, total, count))

    def tensor(self, name: str, values_N: Tensor) -> None:
        """Add the rows of a tensor to a mean."""
        if len(values_N):
            self._sums.append((name, values_N.detach().sum(), len(values_N)))

    def engine_gap(self, difference_N: Tensor) -> None:
        """Add the metrics of the learner's minus the engine's log-probabilities, before the weights change."""
        ratio_N = difference_N.exp()
        self.tensor("gap/mean_ratio", ratio_N)
        self.tensor("gap/mean_difference", difference_N.abs())
        self.tensor("gap/outside_0.9_1.1", ((ratio_N < 0.9) | (ratio_N > 1.1)).float())
        self.tensor("gap/outside_0.8_1.25", ((ratio_N < 0.8) | (ratio_N > 1.25)).float())

    def merge(self, other: MetricSums) -> None:
        """Add all sums of another."""
        self._totals.update(other._totals)
        self._sums += other._sums

    def report(self) -> dict[str, float]:
        """All metrics, sorted by name."""
        totals, sums = self.numbers()
        means = {name: total / count for name, (total, count) in sums.items()}
        return dict(sorted({**means, **totals}.items()))

    def numbers(self) -> tuple[dict[str, float], dict[str, tuple[float, int]]]:
        """Totals by name, and of each mean the sum and the count; waits for the device."""
        sums: dict[str, tuple[float, int]] = {}
        waiting = [total for _, total, _ in self._sums if isinstance(total, Tensor)]
        arrived = iter(torch.stack(waiting).tolist() if waiting else [])
        for name, total, count in self._sums:
            before, num = sums.get(name, (0.0, 0))
            sums[name] = (before + (next(arrived) if isinstance(total, Tensor) else total), num + count)
        return dict(self._totals), sums

    @classmethod
    def of(cls, totals: Mapping[str, float], sums: Mapping[str, tuple[float, int]]) -> MetricSums:
        """The sums that `numbers` returned."""
        made = cls()
        made._totals.update(totals)
        made._sums = [(name, total, count) for name, (total, count) in sums.items()]
        return made
