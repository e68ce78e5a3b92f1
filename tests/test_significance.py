"""Ties: the pairing that figures allow, and the correction for many methods, on numbers worked by hand."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec
import pytest
from scipy.stats import ttest_1samp, ttest_ind, ttest_rel  # type: ignore[import-untyped]

from mage.evaluation.compare.significance import (
    Mark,
    MetricSample,
    Pairing,
    correct_for_best,
    difference,
    rank_metrics,
)
from mage.grouped import Units
from mage.stats import Estimate, mean


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


def test_without_scatter_the_better_one_is_better_if_there_are_enough() -> None:
    # Of the orders of two and two values one of three separates them, of three and three 1 of 10, of four 1 of 35.
    found, pairing = difference(by_trial([0.5] * 3), by_trial([0.4] * 3, first=9))
    assert (found.p_value, found.estimate.low, pairing) == (0.1, None, Pairing.NONE)
    assert marks(by_trial([0.5, 0.5]), by_trial([0.4, 0.4], first=9)) == [Mark.BEST, Mark.TIED]
    assert marks(by_trial([0.5] * 4), by_trial([0.4] * 4, first=9)) == [Mark.BEST, Mark.NONE]
    assert marks(by_trial([0.5, 0.5]), by_trial([0.5, 0.5], first=9)) == [Mark.BEST, Mark.TIED]


def test_rounding_makes_nobody_worse() -> None:
    found, pairing = difference(by_trial([1 - 1 / 3] * 9), by_trial([2 / 3] * 9, first=9))
    assert (found.is_tie, found.p_value, pairing) == (True, 1.0, Pairing.NONE)


def test_the_best_may_be_the_lowest() -> None:
    assert marks(by_trial([1.0] * 6), by_trial([0.0] * 6), is_low_best=True) == [Mark.NONE, Mark.BEST]


def test_one_method_alone_has_no_mark() -> None:
    assert marks(by_trial([1.0, 2.0])) == [Mark.NONE]
    assert marks() == []


def test_verdicts_are_corrected_for_all_pairs_of_the_methods_that_are_left() -> None:
    best, close, far, farther = behind(0.0), behind(2.1), behind(4.0), behind(5.0)
    nothing = by_trial([0.0] * 100)
    assert difference(nothing, close)[0].p_value == pytest.approx(0.0383, abs=1e-4)
    assert marks(nothing, close) == [Mark.BEST, Mark.NONE], "two methods have one difference"
    assert marks(nothing, close, far) == [Mark.BEST, Mark.NONE, Mark.NONE], "one pair is left for it"
    assert marks(nothing, close, far, farther) == [Mark.BEST, Mark.NONE, Mark.NONE, Mark.NONE]
    assert marks(nothing, close, best, far) == [Mark.BEST, Mark.TIED, Mark.TIED, Mark.NONE], "three pairs are left"
    ranks = rank_metrics([nothing, close, best, far])
    assert ranks[1].p_value == pytest.approx(3 * 0.0383, abs=1e-3)
    assert correct_for_best([0.001, 0.04, 0.02]) == pytest.approx([0.006, 0.06, 0.06])


def members_of(values: Sequence[float], num: int = 4) -> dict[Hashable, Hashable]:
    return {number: number // num for number in range(len(values))}


def test_trials_on_members_that_stand_for_others_are_paired_over_members() -> None:
    a, b = [1.0] * 8 + [0.0] * 4, [0.0] * 8 + [0.5] * 4
    samples = [
        msgspec.structs.replace(by_trial(values), members=members_of(values), units=Units.MEMBERS) for values in (a, b)
    ]
    found, pairing = difference(*samples)
    assert pairing is Pairing.TRIAL
    by_hand = msgspec.structs.astuple(mean([1.0, 1.0, -0.5]))
    assert msgspec.structs.astuple(found.estimate) == pytest.approx(by_hand)
    assert found.p_value == pytest.approx(ttest_1samp([1.0, 1.0, -0.5], 0.0).pvalue)


def test_seeds_and_members_both_count_and_members_are_paired_where_seeds_are_not() -> None:
    members = {"x": 0.1, "y": 0.9, "z": 0.8}
    worse = {name: score - 0.3 for name, score in members.items()}
    a = msgspec.structs.replace(by_seed(0.5, 0.6, 0.7), units=Units.MEMBERS, by_member=members)
    same, other = by_seed(0.2, 0.3, 0.4), by_seed(0.2, 0.3, 0.4, first=5)
    kinds = [msgspec.structs.replace(b, units=Units.MEMBERS, by_member=worse) for b in (same, other)]
    found = [difference(a, b) for b in kinds]
    assert [pairing for _, pairing in found] == [Pairing.SEED, Pairing.MEMBER]
    assert found[0][0].p_value == 0.25, "three seeds and three members that all differ by the same"
    mixed = msgspec.structs.replace(kinds[0], by_member={"x": 0.4, "y": 0.1, "z": 0.4})
    alone = difference(by_seed(0.5, 0.6, 0.8), same)[0]
    both = difference(msgspec.structs.replace(a, by_seed={"0": 0.5, "1": 0.6, "2": 0.8}), mixed)[0]
    assert both.p_value > alone.p_value
