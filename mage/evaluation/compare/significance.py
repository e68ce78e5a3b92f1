"""Significance tests: which method is best, and which are not significantly worse.

Two methods with one report each on the same tasks are paired by trial: the result is about these weights. Two methods
with the same training seeds are paired by seed: the result is about the methods. Everything else (other seeds, a
trained method against a fixed player) uses Welch's unpaired test. Where the members of a split are a sample of those
not met in training, they are the units of every test, beside the seeds.

The best is picked from the same data, so that each verdict is one of all comparisons of two methods: the smallest
p-value of k methods is multiplied by k (k - 1) / 2, the next by (k - 1) (k - 2) / 2, and so on until one fails.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from math import comb

import msgspec

from mage.evaluation.suite.averaging import gap_range
from mage.grouped import Units, grouped_error, num_units
from mage.stats import (
    LEVEL,
    Difference,
    Estimate,
    MeanError,
    Range,
    cautious_error,
    mean_error,
    p_value,
    separation_test,
    sign_test,
    summed_error,
    with_interval,
)

SHARED = 0.9
"""Share of tasks or members that two reports must have in common to be paired; failed tasks are missing."""


class Pairing(StrEnum):
    """How a difference is paired."""

    TRIAL = "paired by trial"
    SEED = "paired by seed"
    MEMBER = "paired by member"
    """Other tasks or seeds, of the same members."""
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
    units: Units = Units.TRIALS
    """The units of each report's average."""
    bounds: Range | None = None
    """The lowest and highest possible value."""
    by_task: Mapping[Hashable, float] = {}
    """By task, for a single report; equal keys are the same task."""
    members: Mapping[Hashable, Hashable] = {}
    """By task its member; a task that is missing is its own."""
    by_seed: Mapping[str, float] = {}
    """By training seed, for a mean over several."""
    by_member: Mapping[Hashable, float] = {}
    """By member, averaged over seeds, where the members are the units."""

    @property
    def has_seeds(self) -> bool:
        """Whether it is a mean over several training seeds."""
        return len(self.by_seed) > 1


class Rank(msgspec.Struct, frozen=True):
    """How a metric compares with the best of its column."""

    mark: Mark
    behind: Difference | None = None
    """The best minus this one, not corrected; None for the best and where nothing is compared."""
    pairing: Pairing = Pairing.NONE
    p_value: float = 1.0
    """Corrected for all comparisons of two methods; the mark is by it."""


def rank_metrics(samples: Sequence[MetricSample], *, is_low_best: bool = False) -> list[Rank]:
    """Mark the best value and all that are not significantly worse; a single value has no mark."""
    if len(samples) < 2:
        return [Rank(Mark.NONE)] * len(samples)
    pick = min if is_low_best else max
    best = pick(range(len(samples)), key=lambda i: samples[i].estimate.value)
    others = [i for i in range(len(samples)) if i != best]
    found = [difference(samples[best], samples[i]) for i in others]
    corrected = correct_for_best([behind.p_value for behind, _ in found])
    result = [Rank(Mark.BEST)] * len(samples)
    for place, (behind, pairing), p in zip(others, found, corrected, strict=True):
        result[place] = Rank(Mark.TIED if p > LEVEL else Mark.NONE, behind, pairing, p)
    return result


def correct_for_best(p_values: Sequence[float]) -> list[float]:
    """p-values of comparisons with the best of the same data, corrected for all pairs of the methods that are left.

    The methods that are in truth no worse than the best are all left when the first of them is tested, so that a false
    verdict needs a pair of them with a p-value below 5 % divided by the number of their pairs.

    >>> correct_for_best([0.01]), correct_for_best([0.01, 0.02])
    ([0.01], [0.03, 0.03])
    """
    corrected, largest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        num_pairs = comb(len(p_values) + 1 - rank, 2)
        corrected[place] = largest = max(largest, min(1.0, num_pairs * p_values[place]))
    return corrected


def difference(a: MetricSample, b: MetricSample) -> tuple[Difference, Pairing]:
    """The mean of a - b, with the best pairing available."""
    tasks = _common(a.by_task, b.by_task)
    if tasks:
        return _paired_by_trial(a, b, tasks), Pairing.TRIAL
    value, parts = a.estimate.value - b.estimate.value, list[MeanError | None]()
    has_same_seeds = a.has_seeds and a.by_seed.keys() == b.by_seed.keys()
    if has_same_seeds:
        parts.append(mean_error([a.by_seed[seed] - b.by_seed[seed] for seed in a.by_seed]))
    else:
        parts += [mean_error(list(sample.by_seed.values())) for sample in (a, b) if sample.has_seeds]
    members = _common(a.by_member, b.by_member)
    if members:
        parts.append(mean_error([a.by_member[member] - b.by_member[member] for member in members]))
    elif not has_same_seeds:
        parts += [_trial_error(sample) for sample in (a, b) if not sample.has_seeds]
    pairing = Pairing.SEED if has_same_seeds else Pairing.MEMBER if members else Pairing.NONE
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return Difference(Estimate(value, None, None), 1.0), pairing
    error = summed_error(known) if pairing is Pairing.NONE else cautious_error(known)
    nums = [round(part.freedom) + 1 for part in known]
    if_equal = separation_test(*nums) if pairing is Pairing.NONE and len(nums) == 2 else sign_test(min(nums))
    return _difference(value, error, min(nums), if_equal, a.bounds), pairing


def _paired_by_trial(a: MetricSample, b: MetricSample, tasks: Sequence[Hashable]) -> Difference:
    gaps = [a.by_task[task] - b.by_task[task] for task in tasks]
    members = [a.members.get(task, task) for task in tasks]
    num = num_units(members, a.units)
    return _difference(sum(gaps) / len(gaps), grouped_error(gaps, members, a.units), num, sign_test(num), a.bounds)


def _difference(value: float, error: MeanError | None, num: int, if_equal: float, bounds: Range | None) -> Difference:
    return Difference(with_interval(value, error, num, gap_range(bounds)), p_value(value, error, if_equal))


def _trial_error(sample: MetricSample) -> MeanError | None:
    """The error of a single report's mean."""
    members = [sample.members.get(task, task) for task in sample.by_task]
    return grouped_error(list(sample.by_task.values()), members, sample.units)


def _common(a: Mapping[Hashable, float], b: Mapping[Hashable, float]) -> list[Hashable]:
    """The keys of both; none where too many are missing from one."""
    common = [key for key in a if key in b]
    return common if len(common) >= SHARED * max(len(a), len(b)) else []
