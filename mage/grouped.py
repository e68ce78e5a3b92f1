"""Averages over the trials of several members, with intervals over the members or over the trials.

Members of a split that were not met in training are a sample of others: they are the independent units, however many
trials each has. A set that is enumerated is all that is claimed about: its trials are the units, and the members are
strata. Means over training seeds and members are crossed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import StrEnum
from math import fsum

from mage.errors import ConfigError
from mage.stats import (
    Estimate,
    MeanError,
    Range,
    cautious_error,
    clustered_proportion,
    mean,
    mean_error,
    share_with_error,
    summed_error,
    with_interval,
)


class Units(StrEnum):
    """The independent units of an average, which its interval is over."""

    TRIALS = "trials"
    """The members are fixed: the claim is about them alone."""
    MEMBERS = "members"
    """The members are a sample: the claim is about others like them."""


def grouped_mean(
    values: Sequence[float], members: Sequence[Hashable], units: Units, bounds: Range | None = None
) -> Estimate:
    """The mean over trials; `members` names the member of each.

    >>> grouped_mean([0.0, 0.0, 1.0, 1.0], "aabb", Units.MEMBERS) == mean([0.0, 1.0])
    True
    """
    if not values:
        raise ConfigError("a mean needs at least 1 value, not 0")
    error = grouped_error(values, members, units)
    return with_interval(fsum(values) / len(values), error, num_units(members, units), bounds)


def grouped_share(
    shares: Sequence[float], members: Sequence[Hashable], units: Units, num_events: int | None = None
) -> Estimate:
    """The mean of each trial's share of events; by default a trial has one event.

    Over trials the members are not taken as strata, which makes the exact interval a little wide.
    """
    num = len(shares) if num_events is None else num_events
    if units is Units.TRIALS or len(set(members)) < 2:
        return clustered_proportion(shares, num)
    return share_with_error(
        fsum(shares) / len(shares), _cluster_error(_by_member(shares, members)), len(set(members)), num
    )


def grouped_error(values: Sequence[float], members: Sequence[Hashable], units: Units) -> MeanError | None:
    """The error of a mean over trials; None for a single trial.

    A set of one member has its trials as units. So have members with one trial each. Where the chosen units do not vary
    but trials do, the variance is that of all trials.
    """
    groups = _by_member(values, members)
    plain = mean_error(values)
    if plain is None or len(groups) < 2 or len(groups) == len(values):
        return plain
    if units is Units.MEMBERS:
        found = _cluster_error(groups)
        return MeanError(plain.variance, found.freedom) if found.is_zero else found
    if any(len(group) < 2 for group in groups):
        return plain
    found = _strata_error(groups)
    return plain if found.is_zero else found


def num_units(members: Sequence[Hashable], units: Units) -> int:
    """The number of independent units."""
    num = len(set(members))
    return num if units is Units.MEMBERS and num > 1 else len(members)


def crossed_mean(by_seed: Sequence[float], by_member: Sequence[float], bounds: Range | None = None) -> Estimate:
    """The mean over several training seeds, each evaluated on the same members, which are a sample of others.

    Its variance is that over seeds plus that over members. What depends on both is counted twice: it covers too often.

    >>> crossed_mean([0.5, 0.6, 0.7], []) == mean([0.5, 0.6, 0.7])
    True
    """
    if len(by_member) < 2:
        return mean(by_seed, bounds)
    parts = [error for values in (by_seed, by_member) if (error := mean_error(values)) is not None]
    error = cautious_error(parts)
    return with_interval(fsum(by_seed) / len(by_seed), error, min(len(by_seed), len(by_member)), bounds)


def _by_member(values: Sequence[float], members: Sequence[Hashable]) -> list[list[float]]:
    groups: dict[Hashable, list[float]] = {}
    for value, member in zip(values, members, strict=True):
        groups.setdefault(member, []).append(value)
    return list(groups.values())


def _cluster_error(groups: Sequence[Sequence[float]]) -> MeanError:
    """The error of the mean of all values, of groups that are independent units.

    With equal sizes it is that of the groups' means, with one degree of freedom less than there are groups. With sizes
    that differ, squared residuals are scaled so that the variance is unbiased, with the degrees of freedom of that
    estimate (Bell and McCaffrey 2002), for groups' means of equal variance.
    """
    num = sum(map(len, groups))
    middle = fsum(map(fsum, groups)) / num
    weights = [len(group) / num for group in groups]
    squares = fsum(w * w for w in weights)
    scales = [w * w / (1 - 2 * w + squares) for w in weights]
    variance = fsum(s * (fsum(g) / len(g) - middle) ** 2 for s, g in zip(scales, groups, strict=True))
    zero, one, two = (fsum(s * w**power for s, w in zip(scales, weights, strict=True)) for power in range(3))
    lost = squares**2 * zero**2 + 2 * zero * two - 4 * squares * zero * one + 2 * one**2
    lost += fsum(s * s * (1 + 2 * squares - 4 * w) for s, w in zip(scales, weights, strict=True))
    return MeanError(variance, squares**2 / lost)


def _strata_error(groups: Sequence[Sequence[float]]) -> MeanError:
    """The error of the mean of all values, of groups that are fixed: the variance within them."""
    num = sum(map(len, groups))
    parts = [
        MeanError(error.variance * (len(group) / num) ** 2, error.freedom)
        for group in groups
        if (error := mean_error(group)) is not None
    ]
    return summed_error(parts)
