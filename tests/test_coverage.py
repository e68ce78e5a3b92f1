"""Stated 95 % intervals cover the truth in 95 % of simulated evaluations, and false verdicts are rare."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr  # type: ignore[import-untyped]

from mage.evaluation.compare.significance import Mark, MetricSample, difference, rank_metrics
from mage.grouped import Units, crossed_mean, grouped_mean, grouped_share
from mage.stats import Estimate, mean, proportion

Values = NDArray[np.float64]
FEW, MANY = 400, 1000
"""Simulated evaluations; a coverage of 95 % has a standard error of 1.1 % and 0.7 %."""
SIZES = [pytest.param(25, 100, marks=pytest.mark.slow), (15, 20), (7, 8)]
METHODS = [2, 6, *(pytest.param(methods, marks=pytest.mark.slow) for methods in (3, 4, 10))]


def thirds(values: Values) -> Values:
    """Scores -1, 0 and 1."""
    return np.where(values > 0.5, 1.0, np.where(values < -0.5, -1.0, 0.0))


def share_covered(estimates: Sequence[Estimate], truth: float | Values) -> float:
    truths = np.broadcast_to(truth, len(estimates))
    return float(np.mean([e.holds(float(t)) for e, t in zip(estimates, truths, strict=True)]))


def drawn_scores(num: int, members: int, trials: int, effect: float, *, is_discrete: bool) -> tuple[Values, list[int]]:
    """Evaluations of members drawn anew, with a mean of 0, and the member of each trial."""
    rng = np.random.default_rng(members)
    values = effect * rng.normal(size=(num, members, 1)) + rng.normal(size=(num, members, trials))
    scores = thirds(values) if is_discrete else values
    return scores.reshape(num, -1), np.repeat(np.arange(members), trials).tolist()


@pytest.mark.parametrize(("members", "trials"), SIZES)
@pytest.mark.parametrize("effect", [0.1, 1.5])
@pytest.mark.parametrize("is_discrete", [True, False])
def test_members_drawn_anew_are_covered(members: int, trials: int, effect: float, is_discrete: bool) -> None:
    num = FEW if trials == 100 else MANY
    scores, of = drawn_scores(num, members, trials, effect, is_discrete=is_discrete)
    found = [grouped_mean(values.tolist(), of, Units.MEMBERS) for values in scores]
    assert 0.93 <= share_covered(found, 0.0) <= 0.98


def test_intervals_over_trials_do_not_cover_members_drawn_anew() -> None:
    scores, _ = drawn_scores(FEW, 25, 100, 1.0, is_discrete=True)
    assert share_covered([mean(values.tolist()) for values in scores], 0.0) < 0.4


def test_members_with_unequal_numbers_of_trials_are_covered() -> None:
    rng = np.random.default_rng(1)
    for members, most in ((15, 40), (7, 16)):
        sizes = rng.integers(2, most, members)
        of = np.repeat(np.arange(members), sizes)
        values = 1.5 * rng.normal(size=(MANY, members))[:, of] + rng.normal(size=(MANY, len(of)))
        found = [grouped_mean(some.tolist(), of.tolist(), Units.MEMBERS) for some in values]
        assert 0.93 <= share_covered(found, 0.0) <= 0.98


@pytest.mark.parametrize(("members", "trials"), SIZES)
def test_paired_differences_over_members_drawn_anew_are_covered(members: int, trials: int) -> None:
    rng = np.random.default_rng(2)
    of = np.repeat(np.arange(members), trials).tolist()
    in_truth, covered = 0.4, 0
    for _ in range(FEW):
        task = rng.normal(size=members * trials)
        a, b = (rng.normal(mu, 1.0, members)[of] + task + rng.normal(size=len(task)) for mu in (in_truth, 0.0))
        found, _ = difference(sample_by_task(a, of, Units.MEMBERS), sample_by_task(b, of, Units.MEMBERS))
        covered += found.estimate.holds(in_truth)
    assert 0.93 <= covered / FEW <= 0.98


@pytest.mark.parametrize(("members", "trials"), SIZES)
@pytest.mark.parametrize("is_discrete", [True, False])
def test_a_fixed_set_of_members_is_covered_over_trials(members: int, trials: int, is_discrete: bool) -> None:
    rng = np.random.default_rng(3)
    middles = rng.normal(0.0, 1.5, members)
    values = middles[:, None] + rng.normal(size=(MANY, members, trials))
    truth = ndtr(middles - 0.5) - ndtr(-middles - 0.5) if is_discrete else middles
    scores = (thirds(values) if is_discrete else values).reshape(MANY, -1)
    of = np.repeat(np.arange(members), trials).tolist()
    found = [grouped_mean(some.tolist(), of, Units.TRIALS) for some in scores]
    assert 0.93 <= share_covered(found, float(truth.mean())) <= 0.98


@pytest.mark.parametrize(("seeds", "members"), [(3, 15), (3, 25), (2, 15), (5, 7)])
@pytest.mark.parametrize("effects", [(1, 0, 0), (0, 1, 0), (1, 1, 0), (1, 0.3, 0.3), (0.3, 1, 0.3), (0, 0, 1)])
def test_seeds_crossed_with_members_are_covered(seeds: int, members: int, effects: tuple[float, ...]) -> None:
    rng = np.random.default_rng(4)
    of_seed, of_member, of_both = effects
    scores = of_seed * rng.normal(size=(2000, seeds, 1)) + of_member * rng.normal(size=(2000, 1, members))
    scores = scores + of_both * rng.normal(size=(2000, seeds, members)) + 0.1 * rng.normal(size=(2000, seeds, members))
    found = [crossed_mean(some.mean(1).tolist(), some.mean(0).tolist()) for some in scores]
    assert share_covered(found, 0.0) >= 0.93


def test_seeds_alone_do_not_cover_other_members() -> None:
    rng = np.random.default_rng(5)
    scores = 0.1 * rng.normal(size=(MANY, 3, 1)) + rng.normal(size=(MANY, 1, 15))
    assert share_covered([mean(some.mean(1).tolist()) for some in scores], 0.0) < 0.7


@pytest.mark.parametrize("num", [5, 10, 30])
@pytest.mark.parametrize("share", [0.006, 0.035, 0.1, 0.5, 0.965, 0.994])
def test_shares_are_covered_near_0_and_1(num: int, share: float) -> None:
    wins = np.random.default_rng(6).binomial(num, share, 2000)
    assert share_covered([proportion(float(won), num) for won in wins], share) >= 0.945


@pytest.mark.parametrize("num", [5, 10, 30])
@pytest.mark.parametrize(("a", "b"), [(0.2, 4.0), (4.0, 0.2), (1.0, 1.0), (0.05, 0.05)])
def test_shares_of_members_drawn_anew_are_covered(num: int, a: float, b: float) -> None:
    rng = np.random.default_rng(7)
    wins = (rng.random((FEW, num, 20)) < rng.beta(a, b, (FEW, num, 1))).astype(float).reshape(FEW, -1)
    of = np.repeat(np.arange(num), 20).tolist()
    found = [grouped_share(some.tolist(), of, Units.MEMBERS) for some in wins]
    assert share_covered(found, a / (a + b)) >= 0.93


def test_equal_values_are_covered_by_the_range_of_the_score() -> None:
    # The hardest case: a rare score at the end of the range, which most samples do not have.
    for num in (3, 15, 100):
        rare = 1 - 0.03 ** (1 / num)
        values = np.where(np.random.default_rng(8).random((2000, num)) < rare, -1.0, 1.0)
        found = [mean(some.tolist(), (-1.0, 1.0)) for some in values if some.min() == some.max()]
        assert share_covered(found, 1 - 2 * rare) == 1.0


# Verdicts against the best.


def sample_by_task(values: Values, members: Sequence[int] = (), units: Units = Units.TRIALS) -> MetricSample:
    of, tasks = list(members) or list(range(len(values))), range(len(values))
    by_task: dict[Hashable, float] = dict(zip(tasks, values.tolist(), strict=True))
    return MetricSample(
        grouped_mean(values.tolist(), of, units), units, by_task=by_task, members=dict(zip(tasks, of, strict=True))
    )


def sample_by_seed(values: Values, first: int = 0) -> MetricSample:
    by_seed = {str(first + seed): value for seed, value in enumerate(values.tolist())}
    return MetricSample(mean(values.tolist()), by_seed=by_seed)


def has_verdict(samples: Sequence[MetricSample]) -> bool:
    return any(rank.mark is Mark.NONE for rank in rank_metrics(samples))


@pytest.mark.parametrize("methods", METHODS)
@pytest.mark.parametrize("spread", ["equal", "one wide", "growing"])
@pytest.mark.parametrize("how", ["by trial", "by member", "by seed", "unpaired"])
def test_equal_methods_are_rarely_told_apart(methods: int, spread: str, how: str) -> None:
    rng = np.random.default_rng([methods, len(spread), len(how)])
    scales = {"equal": np.ones(methods), "one wide": np.r_[3.0, np.ones(methods - 1)]}
    scale = scales.get(spread, np.linspace(0.3, 3.0, methods))[:, None]
    num_units = {"by trial": 40, "by member": 15}.get(how, 3)
    wrong = 0
    for _ in range(MANY):
        noise = scale * rng.normal(size=(methods, num_units))
        if how == "unpaired":
            found = [sample_by_seed(values, 10 * number) for number, values in enumerate(noise)]
        elif how == "by seed":
            found = [sample_by_seed(values) for values in noise + rng.normal(size=num_units)]
        elif how == "by trial":
            found = [sample_by_task(values) for values in noise + 2 * rng.normal(size=num_units)]
        else:
            of = np.repeat(np.arange(num_units), 4)
            trials = noise[:, of] + 2 * rng.normal(size=(num_units,))[of] + 0.5 * rng.normal(size=(methods, len(of)))
            found = [sample_by_task(values, of.tolist(), Units.MEMBERS) for values in trials]
        wrong += has_verdict(found)
    assert wrong / MANY <= 0.065, "5 % and two standard errors"


@pytest.mark.parametrize("gap", [0.3, 0.6, 1.0])
def test_methods_as_good_as_the_best_are_rarely_called_worse_beside_others_that_are(gap: float) -> None:
    rng = np.random.default_rng(9)
    in_truth = np.repeat([0.0, -gap, -5.0], [2, 2, 2])
    wrong = 0
    for _ in range(MANY):
        values = in_truth[:, None] + rng.normal(size=(6, 30)) + rng.normal(size=30)
        ranks = rank_metrics([sample_by_task(some) for some in values])
        best = in_truth[[rank.mark is Mark.BEST for rank in ranks]][0]
        wrong += any(rank.mark is Mark.NONE and in_truth[place] >= best for place, rank in enumerate(ranks))
    assert wrong / MANY <= 0.065


@pytest.mark.parametrize(("methods", "least"), [(2, 0.98), (4, 0.95), (10, 0.9)])
def test_a_method_that_is_clearly_worse_is_found(methods: int, least: float) -> None:
    rng = np.random.default_rng(10)
    found = 0
    for _ in range(200):
        values = rng.normal(size=(methods, 100)) + rng.normal(size=100)
        values[0] -= 0.7
        found += rank_metrics([sample_by_task(some) for some in values])[0].mark is Mark.NONE
    assert found / 200 >= least


def test_a_method_that_is_far_worse_is_found_with_three_seeds() -> None:
    rng = np.random.default_rng(11)
    found = 0
    for _ in range(200):
        values = 0.05 * rng.normal(size=(4, 3))
        values[0] -= 1.0
        found += rank_metrics([sample_by_seed(some) for some in values])[0].mark is Mark.NONE
    assert found / 200 >= 0.8
