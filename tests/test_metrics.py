"""Figures with intervals, against numbers worked by hand or known from tables."""

from __future__ import annotations

import random

import pytest

from mage.errors import ConfigError
from mage.evaluate.metrics import Estimate, Verdict, clustered_proportion, mean, proportion, verdict


def test_the_mean_and_its_interval_by_hand() -> None:
    # Mean 2, sample variance ((1-2)² + 0 + 0 + (3-2)²) / 3 = 2/3, standard error √(2/3/4) = 0.408248.
    figure = mean([1.0, 2.0, 2.0, 3.0])
    assert figure.value == 2.0
    assert figure.high - 2.0 == pytest.approx(1.96 * 0.4082483)
    assert 2.0 - figure.low == pytest.approx(1.96 * 0.4082483)


def test_no_spread_is_no_width_and_one_value_is_refused() -> None:
    assert mean([0.5] * 10) == Estimate(0.5, 0.5, 0.5)
    with pytest.raises(ConfigError, match="at least 2 values, not 1"):
        mean([1.0])


def test_wilson_agrees_with_published_values() -> None:
    # Newcombe (1998), table I, method 3: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    for successes, num, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        figure = proportion(successes, num)
        assert (round(figure.low, 4), round(figure.high, 4)) == (low, high)


def test_rates_of_clusters_lie_between_trials_and_games() -> None:
    rng = random.Random(0)
    independent = [sum(rng.random() < 0.3 for _ in range(4)) / 4 for _ in range(500)]
    alike = [float(rng.random() < 0.3) for _ in range(500)]
    width = {name: f.high - f.low for name, f in {
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
            covered[kind] += figure.low <= 0.4 <= figure.high
    assert all(920 <= c <= 980 for c in covered)


def test_verdicts_compare_seats() -> None:
    assert verdict((0.0, 0.0), 0) is Verdict.DRAW
    assert verdict((2.2, 1.4), 0) is Verdict.WIN, "in games where everybody gains, more is a win"
    assert verdict((2.2, 1.4), 1) is Verdict.LOSS
    assert [verdict((1.0, 1.0, -2.0), s) for s in range(3)] == [Verdict.DRAW, Verdict.DRAW, Verdict.LOSS]
    assert verdict((0.1 + 0.2, 0.3), 0) is Verdict.DRAW, "rounding makes no winner"
    assert [verdict((x,), 0) for x in (1.0, 0.0, -1.0)] == [Verdict.WIN, Verdict.DRAW, Verdict.LOSS]
