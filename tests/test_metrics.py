"""Figures with intervals, against numbers worked by hand or known from tables."""

from __future__ import annotations

import random

import msgspec
import pytest

from mage.errors import ConfigError
from mage.evaluate.metrics import Estimate, Verdict, clustered_proportion, mean, mean_of_few, proportion, verdict


def ends(figure: Estimate) -> tuple[float, float]:
    assert figure.low is not None
    assert figure.high is not None
    return figure.low, figure.high


def test_the_mean_and_its_interval_by_hand() -> None:
    # Mean 2, sample variance ((1-2)² + 0 + 0 + (3-2)²) / 3 = 2/3, standard error √(2/3/4) = 0.408248.
    figure = mean([1.0, 2.0, 2.0, 3.0])
    reach = 1.96 * 0.4082483
    assert msgspec.structs.astuple(figure) == pytest.approx((2.0, 2.0 - reach, 2.0 + reach))


def test_no_spread_is_no_width_and_one_value_has_no_interval() -> None:
    assert mean([0.5] * 10) == Estimate(0.5, 0.5, 0.5)
    assert mean([0.5]) == mean_of_few([0.5]) == Estimate(0.5, None, None)
    with pytest.raises(ConfigError, match="at least 1 value, not 0"):
        mean([])


def test_an_interval_holds_its_ends_and_is_over_what_lies_below_it() -> None:
    figure = Estimate(0.5, 0.25, 0.75)
    assert [figure.holds(x) for x in (0.2, 0.25, 0.5, 0.75, 0.8)] == [False, True, True, True, False]
    assert [figure.is_over(x) for x in (0.2, 0.25, 0.5)] == [True, False, False]
    alone = Estimate(0.5, None, None)
    assert not alone.holds(0.5)
    assert not alone.is_over(0.0)


def test_wilson_agrees_with_published_values() -> None:
    # Newcombe (1998), table I, method 3: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    for successes, num, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
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
