"""Means, proportions and paired differences with 95 % intervals and p-values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from math import erfc, fsum, sqrt

import msgspec

from mage.errors import ConfigError
from mage.types import Result

Z95 = 1.96
"""Standard errors to either side in a 95 % interval."""
ROUNDING = 1e-9
"""Differences below this are rounding errors."""


class Verdict(StrEnum):
    """The result of a seat, derived from the returns."""

    WIN = "win"
    DRAW = "draw"
    LOSS = "loss"


class Estimate(msgspec.Struct, frozen=True):
    """A value and its 95 % interval, which a single observation does not have."""

    value: float
    low: float | None
    high: float | None

    def holds(self, value: float) -> bool:
        """Whether the interval contains a value; false without an interval."""
        if self.low is None or self.high is None:
            return False
        return self.low - ROUNDING <= value <= self.high + ROUNDING

    def is_over(self, bound: float) -> bool:
        """Whether the whole interval is above a bound; false without an interval."""
        return self.low is not None and self.low > bound + ROUNDING


class Difference(msgspec.Struct, frozen=True):
    """A difference of means with its p-value."""

    estimate: Estimate
    p_value: float
    """Two-sided, of the test that the interval belongs to; 1 for a single pair."""

    @property
    def is_tie(self) -> bool:
        """Whether the interval contains zero, or there is none."""
        return self.estimate.low is None or self.estimate.holds(0.0)


def verdict(returns: Sequence[float], seat: int) -> Verdict:
    """A win is the single highest return, a draw shares it, anything less is a loss; with one seat, above 0 is a win.

    Comparing seats, not signs, also fits games that are not zero-sum.

    >>> [verdict((1.0, -1.0), 0), verdict((3.0, 3.0), 1), verdict((1.0, 2.0, -3.0), 0)]
    [<Verdict.WIN: 'win'>, <Verdict.DRAW: 'draw'>, <Verdict.LOSS: 'loss'>]
    """
    best_other = max((r for s, r in enumerate(returns) if s != seat), default=0.0)
    lead = returns[seat] - best_other
    if abs(lead) < ROUNDING:
        return Verdict.DRAW
    return Verdict.WIN if lead > 0 else Verdict.LOSS


def result_verdict(result: Result, seat: int) -> Verdict:
    """A win is a success where the world says which episodes are; elsewhere the returns decide."""
    if result.successes:
        return Verdict.WIN if result.is_success(seat) else Verdict.LOSS
    return verdict(result.returns, seat)


def mean(values: Sequence[float]) -> Estimate:
    """The mean of independent values, with the normal interval.

    >>> mean([1.0, 1.0, 1.0]), mean([1.0])
    (Estimate(value=1.0, low=1.0, high=1.0), Estimate(value=1.0, low=None, high=None))
    """
    return _mean(values, Z95)


def student_mean(values: Sequence[float]) -> Estimate:
    """The mean of a few independent values, such as training seeds, with Student's interval.

    >>> [round(x, 3) for x in msgspec.structs.astuple(student_mean([1.0, 2.0, 3.0]))]
    [2.0, -0.484, 4.484]
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # slow to import, needed here alone

    return _mean(values, float(stdtrit(len(values) - 1, 0.975)))


def proportion(successes: float, num: float) -> Estimate:
    """A share of `num` independent events, with Wilson's interval, which is valid near 0 and 1 too.

    >>> [round(x, 4) for x in msgspec.structs.astuple(proportion(0, 10))]
    [0.0, 0.0, 0.2775]
    """
    if num <= 0:
        raise ConfigError(f"a share needs at least 1 event, not {num}")
    share, square = successes / num, Z95 * Z95
    centre = (share + square / (2 * num)) / (1 + square / num)
    reach = Z95 * sqrt(share * (1 - share) / num + square / (4 * num * num)) / (1 + square / num)
    return Estimate(share, min(share, max(0.0, centre - reach)), max(share, min(1.0, centre + reach)))


def clustered_proportion(shares: Sequence[float], num_events: int) -> Estimate:
    """A share of events in clusters of similar size (the episodes of a trial), as the mean of the clusters' shares.

    Wilson's interval with the effective number of independent events, between the number of clusters and of events.
    Where all events are equal, or there is one cluster, the correlation is unknown and each cluster counts once.

    >>> clustered_proportion([1.0, 0.0, 0.0, 0.0], 4) == proportion(1, 4)
    True
    """
    if not shares:
        raise ConfigError("a share needs at least 1 event, not 0")
    num, share = len(shares), fsum(shares) / len(shares)
    effective, variance = float(num), share * (1 - share)
    if num > 1 and variance > 0:
        most = max(num, num_events)
        effective = max(effective, variance / max(_variance(shares) / num, variance / most))
    return proportion(share * effective, effective)


def paired_difference(a: Sequence[float], b: Sequence[float]) -> Difference:
    """The mean of a - b over pairs that share a task, with the normal interval and p-value.

    >>> paired_difference([1.0, 0.0], [1.0, 0.0])
    Difference(estimate=Estimate(value=0.0, low=0.0, high=0.0), p_value=1.0)
    """
    gaps = _gaps(a, b)
    return Difference(mean(gaps), _p_value(gaps, lambda errors: erfc(errors / sqrt(2))))


def student_paired_difference(a: Sequence[float], b: Sequence[float]) -> Difference:
    """The mean of a - b over a few pairs, such as training seeds, with Student's interval and p-value.

    >>> found = student_paired_difference([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])
    >>> round(found.p_value, 4), found.is_tie
    (0.0742, True)
    """
    from scipy.special import stdtr  # slow to import, needed here alone

    gaps = _gaps(a, b)
    return Difference(student_mean(gaps), _p_value(gaps, lambda errors: 2 * float(stdtr(len(gaps) - 1, -errors))))


def holm(p_values: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which of several differences are significant with Holm's correction (1979), in the order given.

    The smallest p-value is compared with level / m, the next with level / (m - 1), and so on until one fails.

    >>> holm([0.01, 0.04, 0.03, 0.005])
    [True, False, False, True]
    """
    stands = [False] * len(p_values)
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[place] > level / (len(p_values) - rank):
            break
        stands[place] = True
    return stands


def _gaps(a: Sequence[float], b: Sequence[float]) -> list[float]:
    if len(a) != len(b):
        raise ConfigError(f"a paired difference needs as many values on both sides, not {len(a)} and {len(b)}")
    return [x - y for x, y in zip(a, b, strict=True)]


def _p_value(gaps: Sequence[float], two_sided: Callable[[float], float]) -> float:
    """Two-sided p-value of the mean; 1 or 0 where all differences are equal."""
    if len(gaps) == 1:
        return 1.0
    middle, error = fsum(gaps) / len(gaps), sqrt(_variance(gaps) / len(gaps))
    if error < ROUNDING:
        return float(abs(middle) < ROUNDING)
    return two_sided(abs(middle) / error)


def _mean(values: Sequence[float], num_errors: float) -> Estimate:
    """The mean, and `num_errors` standard errors to either side."""
    if not values:
        raise ConfigError("a mean needs at least 1 value, not 0")
    middle = fsum(values) / len(values)
    if len(values) == 1:
        return Estimate(middle, None, None)
    reach = num_errors * sqrt(_variance(values) / len(values))
    return Estimate(middle, middle - reach, middle + reach)


def _variance(values: Sequence[float]) -> float:
    """The unbiased sample variance."""
    middle = fsum(values) / len(values)
    return fsum((v - middle) ** 2 for v in values) / (len(values) - 1)
