"""Ties: the pairing that figures allow, and the correction for many methods, on numbers worked by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scipy.stats import ttest_ind, ttest_rel  # type: ignore[import-untyped]

from mage.evaluation.compare.significance import Mark, MetricSample, Pairing, difference, rank_metrics
from mage.stats import Estimate, mean, mean


def by_trial(values: Sequence[float], first: int = 0) -> MetricSample:
    return MetricSample(mean(values), by_task={number + first: value for number, value in enumerate(values)})


def by_seed(*values: float, first: int = 0) -> MetricSample:
    return MetricSample(mean(values), by_seed={str(seed + first): value for seed, value in enumerate(values)})


def behind(num_errors: float) -> MetricSample:
    """So many standard errors under 100 trials that all score 0."""
    sign = [1.0, -1.0] * 50
    error = (sum(s * s for s in sign) / 99 / 100) ** 0.5
    return by_trial([s - num_errors * error for s in sign])


def marks(*samples: MetricSample, is_low_best: bool = False) -> list[Mark]:
    return [standing.mark for standing in rank_metrics(samples, is_low_best=is_low_best)]


def test_trials_of_the_same_tasks_are_paired() -> None:
    found, pairing = difference(by_trial([1.0, 3.0, 2.0]), by_trial([0.0, 2.0, 0.0]))
    assert pairing is Pairing.TRIAL
    assert found.estimate == mean([1.0, 1.0, 2.0])


def test_tasks_that_failed_for_one_method_are_left_out_of_the_pairs() -> None:
    full, lacking = by_trial([0.5] * 20), by_trial([0.25] * 19, first=1)
    found, pairing = difference(full, lacking)
    assert (pairing, found.estimate.value) == (Pairing.TRIAL, 0.25)
    assert difference(full, by_trial([0.25] * 20, first=10))[1] is Pairing.NONE, "half of the tasks are others"


def test_the_same_seeds_are_paired_by_students_t() -> None:
    a, b = (0.5, 0.6, 0.9), (0.4, 0.3, 0.5)
    found, pairing = difference(by_seed(*a), by_seed(*b))
    assert pairing is Pairing.SEED
    assert found.p_value == pytest.approx(ttest_rel(a, b).pvalue)


def test_other_seeds_are_compared_by_welchs_t() -> None:
    a, b = (0.5, 0.6, 0.9), (0.4, 0.3, 0.5, 0.1)
    found, pairing = difference(by_seed(*a), by_seed(*b, first=3))
    expected = ttest_ind(a, b, equal_var=False)
    interval = expected.confidence_interval()
    assert pairing is Pairing.NONE
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((interval.low, interval.high))


def test_a_trained_method_keeps_the_error_of_its_seeds_beside_a_fixed_player() -> None:
    player = by_trial([0.0, 1.0] * 50)
    found, pairing = difference(by_seed(0.6, 0.9, 0.9), player)
    assert pairing is Pairing.NONE
    assert found.estimate.value == pytest.approx(0.3)
    assert found.p_value > difference(by_trial([0.8] * 100, first=200), player)[0].p_value


def test_one_value_alone_proves_nothing() -> None:
    alone = MetricSample(Estimate(0.1, None, None))
    assert marks(by_trial([0.9, 0.9]), alone) == [Mark.BEST, Mark.TIED]


def test_without_scatter_the_better_one_is_better() -> None:
    assert marks(by_trial([0.5, 0.5]), by_trial([0.4, 0.4], first=9)) == [Mark.BEST, Mark.NONE]
    assert marks(by_trial([0.5, 0.5]), by_trial([0.5, 0.5], first=9)) == [Mark.BEST, Mark.TIED]


def test_rounding_makes_nobody_worse() -> None:
    one, other = Estimate(1 - 1 / 3, 1 - 1 / 3, 1 - 1 / 3), Estimate(2 / 3, 2 / 3, 2 / 3)
    found, pairing = difference(MetricSample(one), MetricSample(other))
    assert (found.is_tie, found.p_value, pairing) == (True, 1.0, Pairing.NONE)


def test_the_best_may_be_the_lowest() -> None:
    assert marks(by_trial([1.0] * 3), by_trial([0.0] * 3), is_low_best=True) == [Mark.NONE, Mark.BEST]


def test_one_method_alone_has_no_mark() -> None:
    assert marks(by_trial([1.0, 2.0])) == [Mark.NONE]
    assert marks() == []


def test_more_than_three_methods_are_corrected() -> None:
    best, close, far, farther = behind(0.0), behind(2.1), behind(4.0), behind(5.0)
    nothing = by_trial([0.0] * 100)
    assert difference(nothing, close)[0].p_value == pytest.approx(0.0357, abs=1e-4)
    assert marks(nothing, close, far) == [Mark.BEST, Mark.NONE, Mark.NONE]
    assert marks(nothing, close, far, farther) == [Mark.BEST, Mark.NONE, Mark.NONE, Mark.NONE], (
        "0.05 / 1 is left for it"
    )
    assert marks(nothing, close, best, far) == [Mark.BEST, Mark.TIED, Mark.TIED, Mark.NONE], "0.05 / 2 is not enough"
