"""Figures with intervals, against numbers worked by hand or known from tables."""

from __future__ import annotations

import random

import msgspec
import pytest

from mage.errors import ConfigError
from mage.stats import (
    Estimate,
    Verdict,
    clustered_proportion,
    holm,
    mean,
    paired_difference,
    proportion,
    verdict,
)


def ends(figure: Estimate) -> tuple[float, float]:
    assert figure.low is not None
    assert figure.high is not None
    return figure.low, figure.high


def test_the_mean_and_its_interval_by_hand() -> None:
    # Mean 2, sample variance ((1-2)² + 0 + 0 + (3-2)²) / 3 = 2/3, standard error √(2/3/4) = 0.408248.
    figure = mean([1.0, 2.0, 2.0, 3.0])
    reach = 3.182446 * 0.4082483  # Student's t with 3 degrees of freedom
    assert msgspec.structs.astuple(figure) == pytest.approx((2.0, 2.0 - reach, 2.0 + reach))


def test_equal_values_have_an_exact_interval_where_their_range_is_known_and_one_value_has_none() -> None:
    # Ten values can miss a share of 1 - 0.025^(1/10) = 0.3085 of the others with a probability of 2.5 %.
    assert msgspec.structs.astuple(mean([0.5] * 10, (-1.0, 1.0))) == pytest.approx((0.5, 0.0372, 0.6542), abs=1e-4)
    assert ends(mean([1.0] * 3, (0.0, 1.0))) == pytest.approx((0.025 ** (1 / 3), 1.0))
    assert mean([1.0] * 8, (0.0, 1.0)).low == pytest.approx(proportion(8, 8).low), "as a share has"
    assert mean([0.5] * 10) == Estimate(0.5, None, None), "their range is not known"
    assert mean([0.5]) == mean([0.5], (0.0, 1.0)) == Estimate(0.5, None, None)
    with pytest.raises(ConfigError, match="at least 1 value, not 0"):
        mean([])


def test_an_interval_holds_its_ends_and_is_over_what_lies_below_it() -> None:
    figure = Estimate(0.5, 0.25, 0.75)
    assert [figure.holds(x) for x in (0.2, 0.25, 0.5, 0.75, 0.8)] == [False, True, True, True, False]
    assert [figure.is_over(x) for x in (0.2, 0.25, 0.5)] == [True, False, False]
    alone = Estimate(0.5, None, None)
    assert not alone.holds(0.5)
    assert not alone.is_over(0.0)


def test_shares_agree_with_published_values() -> None:
    # Newcombe (1998), table I, method 5 (Clopper-Pearson): 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    for successes, num, low, high in (
        (81, 263, 0.2527, 0.3676),
        (15, 148, 0.0578, 0.1617),
        (0, 20, 0.0, 0.1684),
        (1, 29, 0.0009, 0.1776),
    ):
        figure = proportion(successes, num)
        assert ends(figure) == pytest.approx((low, high), abs=5e-5)


def test_rates_of_clusters_lie_between_trials_and_games() -> None:
    rng = random.Random(0)
    independent = [sum(rng.random() < 0.3 for _ in range(4)) / 4 for _ in range(500)]
    alike = [float(rng.random() < 0.3) for _ in range(500)]
    width = {name: ends(f)[1] - ends(f)[0] for name, f in {
        "independent": clustered_proportion(independent, 2000),
        "all games": proportion(600, 2000),
        "alike": clustered_proportion(alike, 2000),
        "all trials": proportion(150, 500),
    }.items()}  # fmt: skip
    assert width["independent"] == pytest.approx(width["all games"], rel=0.1)
    assert width["alike"] == pytest.approx(width["all trials"], rel=0.1)
    assert clustered_proportion([1.0] * 5, 20) == proportion(5, 5), "no scatter: count the trials, not the games"


def test_intervals_cover_as_often_as_they_say() -> None:
    rng = random.Random(1)
    covered = [0, 0]
    for _ in range(1000):
        values = [float(rng.random() < 0.4) for _ in range(60)]
        for kind, figure in enumerate((mean(values), proportion(sum(values), 60))):
            covered[kind] += figure.holds(0.4)
    assert all(920 <= c <= 980 for c in covered)


def test_verdicts_compare_seats() -> None:
    assert verdict((0.0, 0.0), 0) is Verdict.DRAW
    assert verdict((2.2, 1.4), 0) is Verdict.WIN, "in games where everybody gains, more is a win"
    assert verdict((2.2, 1.4), 1) is Verdict.LOSS
    assert [verdict((1.0, 1.0, -2.0), s) for s in range(3)] == [Verdict.DRAW, Verdict.DRAW, Verdict.LOSS]
    assert verdict((0.1 + 0.2, 0.3), 0) is Verdict.DRAW, "rounding makes no winner"
    assert [verdict((x,), 0) for x in (1.0, 0.0, -1.0)] == [Verdict.WIN, Verdict.DRAW, Verdict.LOSS]


def test_a_paired_difference_by_hand() -> None:
    # Differences 1, 0, 2, 1: mean 1, variance 2/3, standard error sqrt(1/6), so 2.449 errors from zero.
    found = paired_difference([3.0, 1.0, 2.0, 0.0], [2.0, 1.0, 0.0, -1.0])
    assert found.estimate == mean([1.0, 0.0, 2.0, 1.0])
    assert found.p_value == pytest.approx(0.09172, abs=1e-5), "t = 2.449 with 3 degrees of freedom"
    assert found.is_tie
    back = paired_difference([2.0, 1.0, 0.0, -1.0], [3.0, 1.0, 2.0, 0.0])
    assert (back.estimate.value, back.p_value) == (-1.0, found.p_value)


def test_a_difference_of_few_is_students() -> None:
    # The example of R's t.test(extra ~ group, data = sleep, paired = TRUE): t = -4.0621, p = 0.002833.
    one = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    two = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = paired_difference(one, two)
    assert found.estimate.value == pytest.approx(-1.58)
    assert ends(found.estimate) == pytest.approx((-2.4598858, -0.7001142))
    assert found.p_value == pytest.approx(0.002833, abs=5e-7)


def test_differences_without_scatter_or_company() -> None:
    difference = paired_difference
    same = difference([1.0, 2.0], [1.0, 2.0])
    assert (same.estimate, same.p_value, same.is_tie) == (Estimate(0.0, None, None), 1.0, True)
    few = difference([1.0, 2.0, 3.0], [0.0, 1.0, 2.0])
    assert (few.estimate, few.p_value, few.is_tie) == (Estimate(1.0, None, None), 0.25, True), "2 * 0.5^3"
    many = difference([1.0] * 10, [0.0] * 10, (-1.0, 1.0))
    assert (many.estimate, many.p_value, many.is_tie) == (mean([1.0] * 10, (-1.0, 1.0)), 2 * 0.5**10, False)
    assert ends(many.estimate) == pytest.approx((1 - 2 * (1 - 0.025**0.1), 1.0))
    alone = difference([1.0], [0.0])
    assert (alone.estimate, alone.p_value, alone.is_tie) == (Estimate(1.0, None, None), 1.0, True)
    with pytest.raises(ConfigError, match="as many values on both sides, not 2 and 1"):
        difference([1.0, 2.0], [1.0])


def test_a_tie_is_what_the_p_value_says_too() -> None:
    rng = random.Random(5)
    for _ in range(300):
        values = [rng.gauss(0.3, 1.0) for _ in range(30)]
        found = paired_difference(values, [0.0] * 30)
        assert found.is_tie == (found.p_value > 0.05)


def test_holm_steps_down_until_one_fails() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == [True, False, False, True], "0.03 is over 0.05 / 2, and ends it"
    assert holm([0.04]) == [True]
    assert holm([0.04, 0.04]) == [False, False]
    assert holm([0.024, 0.05]) == [True, True]
    assert holm([]) == []
    assert holm([0.01, 0.02], level=0.01) == [False, False]
    assert holm([0.005, 0.02], level=0.02) == [True, True]


def test_holm_rarely_claims_what_is_not_there() -> None:
    rng = random.Random(6)
    wrong = sum(any(holm([rng.random() for _ in range(6)])) for _ in range(2000))
    assert 70 <= wrong <= 130, "about one family in twenty"


def test_rounding_is_no_difference() -> None:
    a, b = [1 - 1 / 3] * 5 + [0.3] * 3, [2 / 3 - 0.0] * 5 + [0.1 + 0.2] * 3
    assert a != b, "though they mean the same"
    found = paired_difference(a, b)
    assert found.is_tie
    assert found.p_value == 1.0
    assert not mean([x - y for x, y in zip(a[:5], b[:5], strict=True)]).is_over(0.0), "no evidence of anything"


def test_clusters_that_are_all_alike_count_all_their_games() -> None:
    for share in (1 / 3, 0.1, 0.5, 0.7):
        for num in (4, 10, 49):
            found, games = clustered_proportion([share] * num, 10 * num), proportion(share * 10 * num, 10 * num)
            assert msgspec.structs.astuple(found) == pytest.approx(msgspec.structs.astuple(games))
    assert clustered_proportion([1.0] * 10, 30) == proportion(10, 10), "games that are all won may hang together"
    assert clustered_proportion([1 / 3], 3) == proportion(1 / 3, 1), "and one trial does not tell"
