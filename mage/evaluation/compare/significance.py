"""Significance tests: which method is best, and which are not significantly worse.

Two methods with one report each on the same tasks are paired by trial: the result is about these weights. Two methods
with the same training seeds are paired by seed: the result is about the methods. Everything else (other seeds, a
trained method against a fixed player) uses Welch's unpaired test. With more than three methods the differences from
the best are Holm-corrected.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from math import inf, sqrt

import msgspec

from mage.stats import (
    ROUNDING,
    Z95,
    Difference,
    Estimate,
    holm,
    paired_difference,
    student_paired_difference,
)

LEVEL = 0.05
MOST_UNCORRECTED = 3
"""Most methods that are compared without a correction."""
SHARED = 0.9
"""Share of tasks that two reports must have in common to be paired; failed tasks are missing."""


class Pairing(StrEnum):
    """How a difference is paired."""

    TRIAL = "paired by trial"
    SEED = "paired by seed"
    NONE = "unpaired"


class Mark(StrEnum):
    """The mark of a value in its column."""

    NONE = ""
    """Significantly worse than the best, or not compared."""
    BEST = "best"
    TIED = "tied"
    """Not significantly worse than the best."""


class MetricSample(msgspec.Struct, frozen=True):
    """The values behind one metric of one method."""

    estimate: Estimate
    by_task: Mapping[Hashable, float] = {}
    """By task, for a single report; equal keys are the same task."""
    by_seed: Mapping[str, float] = {}
    """By training seed, for a mean over several."""


class Rank(msgspec.Struct, frozen=True):
    """How a metric compares with the best of its column."""

    mark: Mark
    behind: Difference | None = None
    """The best minus this one; None for the best and where nothing is compared."""
    pairing: Pairing = Pairing.NONE


def rank_metrics(samples: Sequence[MetricSample], *, is_low_best: bool = False) -> list[Rank]:
    """Mark the best value and all that are not significantly worse; a single value has no mark."""
    if len(samples) < 2:
        return [Rank(Mark.NONE)] * len(samples)
    pick = min if is_low_best else max
    best = pick(range(len(samples)), key=lambda i: samples[i].estimate.value)
    others = [i for i in range(len(samples)) if i != best]
    found = [difference(samples[best], samples[i]) for i in others]
    p_values = [behind.p_value for behind, _ in found]
    is_corrected = len(samples) > MOST_UNCORRECTED
    worse = holm(p_values, LEVEL) if is_corrected else [p_value <= LEVEL for p_value in p_values]
    result = [Rank(Mark.BEST)] * len(samples)
    for place, (behind, pairing), is_worse in zip(others, found, worse, strict=True):
        result[place] = Rank(Mark.NONE if is_worse else Mark.TIED, behind, pairing)
    return result


def difference(a: MetricSample, b: MetricSample) -> tuple[Difference, Pairing]:
    """The mean of a - b, with the best pairing available."""
    common = [task for task in a.by_task if task in b.by_task]
    if common and len(common) >= SHARED * max(len(a.by_task), len(b.by_task)):
        return paired_difference(*([sample.by_task[task] for task in common] for sample in (a, b))), Pairing.TRIAL
    seeds = sorted(a.by_seed)
    if len(seeds) > 1 and seeds == sorted(b.by_seed):
        values = ([sample.by_seed[seed] for seed in seeds] for sample in (a, b))
        return student_paired_difference(*values), Pairing.SEED
    return _unpaired(a, b), Pairing.NONE


def _unpaired(a: MetricSample, b: MetricSample) -> Difference:
    """The difference of two unpaired means (Welch 1947); p = 1 where a mean has no interval."""
    from scipy.special import stdtr, stdtrit  # type: ignore[import-untyped]  # slow to import, needed here alone

    value = a.estimate.value - b.estimate.value
    errors = [_error(sample) for sample in (a, b)]
    if None in errors:
        return Difference(Estimate(value, None, None), 1.0)
    squares = [(error**2, freedom) for error, freedom in filter(None, errors)]
    total = sum(square for square, _ in squares)
    if total < ROUNDING**2:
        return Difference(Estimate(value, value, value), float(abs(value) < ROUNDING))
    lost = sum(square**2 / freedom for square, freedom in squares)
    freedom, error = total**2 / lost if lost else inf, sqrt(total)
    reach = float(stdtrit(freedom, 1 - LEVEL / 2)) * error
    return Difference(Estimate(value, value - reach, value + reach), 2 * float(stdtr(freedom, -abs(value) / error)))


def _error(sample: MetricSample) -> tuple[float, float] | None:
    """Standard error of a mean and its degrees of freedom, taken as infinite over trials."""
    from scipy.special import stdtrit

    low, high = sample.estimate.low, sample.estimate.high
    if low is None or high is None:
        return None
    freedom = float(len(sample.by_seed) - 1) if len(sample.by_seed) > 1 else inf
    num_errors = Z95 if freedom == inf else float(stdtrit(freedom, 1 - LEVEL / 2))
    return (high - low) / 2 / num_errors, freedom
