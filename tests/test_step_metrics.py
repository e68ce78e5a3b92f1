"""Figures of trials made up by hand: results, second chances, recovery, exploitation and regret."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import comb

import msgspec
import pytest

from mage.evaluation.exact import References
from mage.evaluation.suite.averaging import Averaging
from mage.evaluation.suite.metrics import independent_pass_at_k, outcome_rates, pass_at_k, trial_metrics
from mage.evaluation.suite.regret import exploitation, regret
from mage.evaluation.suite.switch_recovery import measure_recovery
from mage.grouped import Units, grouped_mean
from mage.opponents.enumerate import active_spec, switch_episodes
from mage.spec import parse_spec
from mage.stats import Estimate, mean, proportion
from mage.types import Ending, Trial
from tests.paid import INFO, TASK, call, ended, move

N6 = "switch(copy,always(rock),at={at})"


def scored(*scores: float, opponent: str = "copy", seed: int = 0) -> Trial:
    """A trial with these scores for seat 0."""
    task = msgspec.structs.replace(TASK, opponents=(opponent,), seed=seed, episodes=len(scores))
    return Trial(task, 0, INFO, tuple(ended([], score) for score in scores), (), (), ())


def switched(*scores: float, at: object = 2) -> Trial:
    return scored(*scores, opponent=N6.format(at=at))


def test_results_are_counted_by_episode() -> None:
    found = outcome_rates([scored(1.0, 0.0), scored(0.0, 0.0), scored(-1.0, 0.0), scored(0.5, 0.0)])
    assert (found[0].win, found[0].draw, found[0].loss) == (proportion(2, 4), proportion(1, 4), proportion(1, 4))
    assert (found[1].win.value, found[1].draw.value, found[1].loss.value) == (0.0, 1.0, 0.0)


def test_results_are_those_of_the_agents_seat() -> None:
    trial = scored(1.0, -1.0)
    task = msgspec.structs.replace(trial.task, seat=1)
    first, second = outcome_rates([msgspec.structs.replace(trial, task=task)])
    assert (first.loss.value, second.win.value) == (1.0, 1.0)


def against_two(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> list[Trial]:
    return [scored(*s, opponent="copy") for s in first] + [scored(*s, opponent="cycle") for s in second]


def test_pass_at_k_stands_beside_independent_repetition() -> None:
    # Against the first opponent two of four first episodes are won, against the second none.
    trials = against_two([(1, 0), (1, 1), (0, 1), (-1, -1)], [(0, 1), (0, 0), (-1, -1), (-1, -1)])
    once, twice = pass_at_k(trials)
    assert once.solved == proportion(2, 8)
    assert once.independent is not None
    assert once.independent.value == once.solved.value
    assert once.over_independent == mean([0.0] * 8, (-1.0, 1.0))
    assert twice.solved == proportion(4, 8)
    # Of the 6 pairs of four trials with two wins 5 hold a win; the other opponent has none. (5/6 + 0) / 2.
    assert twice.independent is not None
    assert twice.over_independent is not None
    assert twice.independent.value == pytest.approx(5 / 12)
    assert twice.over_independent.value == pytest.approx(1 / 2 - 5 / 12)

    def over_trials(values: Sequence[float]) -> Estimate:
        return grouped_mean(values, "aaaabbbb", Units.TRIALS)

    by_trial = [7 / 6, 7 / 6, 1 / 2, 1 / 2, 0, 0, 0, 0]
    assert twice.independent.high == pytest.approx(over_trials(by_trial).high)
    assert twice.over_independent.low == pytest.approx(
        over_trials([a - b for a, b in zip([1, 1, 1, 0, 1, 0, 0, 0], by_trial, strict=True)]).low
    )
    one_rate_for_all = 1 - comb(6, 2) / comb(8, 2)
    assert twice.independent.value < one_rate_for_all, "which repetition would not reach"


def test_opponents_that_are_always_or_never_beaten_gain_nothing_by_repetition() -> None:
    trials = against_two([(1, 1, 1)] * 4, [(0, 0, 1)] * 4)
    for found in pass_at_k(trials):
        assert found.independent is not None
        assert found.independent.value == 0.5
    last = pass_at_k(trials)[2]
    assert last.solved.value == 1.0
    assert last.over_independent is not None
    assert last.over_independent.is_over(0.0)


def test_repetition_cannot_be_told_from_fewer_trials_than_repetitions() -> None:
    once, twice, thrice = pass_at_k([*against_two([(1, 0, 0)] * 3, [(0, 0, 0)] * 2)])
    assert once.independent is not None
    assert twice.independent is not None
    assert (thrice.independent, thrice.over_independent) == (None, None)
    assert thrice.solved == proportion(3, 5)


@pytest.mark.parametrize(("num", "k"), [(4, 1), (4, 3), (5, 2), (3, 3)])
def test_the_estimate_of_repetition_is_unbiased(num: int, k: int) -> None:
    chance = 0.3
    expected = sum(
        comb(num, wins)
        * chance**wins
        * (1 - chance) ** (num - wins)
        * sum(independent_pass_at_k([i < wins for i in range(num)], k))
        for wins in range(num + 1)
    )
    assert expected / num == pytest.approx(1 - (1 - chance) ** k)


def test_the_interval_of_repetition_covers_as_often_as_it_says() -> None:
    rng = random.Random(3)
    covered = 0
    for _ in range(400):
        trials = [scored(float(rng.random() < 0.3), 0.0, 0.0) for _ in range(60)]
        independent = pass_at_k(trials)[2].independent
        assert independent is not None
        covered += independent.holds(1 - 0.7**3)
    assert 365 <= covered <= 392


def test_luck_alone_is_a_tie_with_repetition() -> None:
    rng = random.Random(4)
    trials = [
        scored(*(float(rng.random() < 0.3) for _ in range(3)), opponent=name) for name in "abc" for _ in range(40)
    ]
    for found in pass_at_k(trials):
        assert found.over_independent is not None
        assert found.over_independent.holds(0.0)


def test_who_plays_when_is_read_from_the_spec() -> None:
    spec = parse_spec("switch(copy,switch(always(rock),cycle,at=4),at=2)")
    assert [str(active_spec(spec, k)) for k in range(6)] == ["copy"] * 2 + ["always(rock)"] * 2 + ["cycle"] * 2
    assert switch_episodes(str(spec), 6) == (2, 4)
    assert switch_episodes(str(spec), 4) == (2,)
    assert switch_episodes("switch(copy,cycle)", 3) == (1,), "a switch without an episode comes at the second"
    assert switch_episodes("switch(copy,copy,at=2)", 6) == (), "nobody could tell"


def test_recovery_takes_two_episodes() -> None:
    found = measure_recovery(
        [switched(0, 1, -1, 0, 1, 1), switched(0, 0.5, 1, 0, 1, 1, at=3), scored(0, 0, 0, 0, 0, 0)] * 3
    )
    # The third has no switch. Before: 1 and 1. After: -1, 0, 1 (and 1) and 0, 1, 1.
    assert found is not None
    assert found.before == Estimate(1.0, None, None), "all are equal, and their range is not given"
    assert [e.value for e in found.after] == [-0.5, 0.5, 1.0]
    assert found.recovered == 2
    # Less 0.9: -1.9 and -0.9, then -0.9 and 0.1 (mean -0.4 ± 0.57), then 0.1 twice.
    assert (found.recovered_earliest, found.recovered_latest) == (1, 2)


def test_recovery_may_be_immediate_or_never_come() -> None:
    at_once = measure_recovery([switched(0, 1, 0.95, 0), switched(0, 1, 0.85, 0)])
    never = measure_recovery([switched(0, 1, 0.8, 0.8), switched(0, 1, 0.8, 0.8)])
    assert at_once is not None
    assert never is not None
    assert at_once.recovered == 0
    assert at_once.recovered_latest is None, "one of two was below"
    assert (never.recovered, never.recovered_earliest, never.recovered_latest) == (None, None, None)
    assert measure_recovery([scored(0.0, 1.0)]) is None


def test_of_a_negative_score_a_tenth_more_may_be_lost() -> None:
    found = measure_recovery([switched(0, -1, -1.2, -1.1)])
    assert found is not None
    assert (found.before.value, found.recovered) == (-1.0, 1)
    assert (found.recovered_earliest, found.recovered_latest) == (1, 1), "one trial has no interval to doubt it by"


def test_only_episodes_up_to_the_next_switch_count() -> None:
    twice = scored(0, 1, 0, 0, 1, 1, opponent="switch(copy,always(rock),cycle,at=[2,4])")
    found = measure_recovery([twice, switched(0, 1, 0, 0, 1, 1)])
    assert found is not None
    assert len(found.after) == 2
    assert found.recovered is None


def exact(**changes: object) -> References:
    base = References(
        best_response={"copy": 1.0, "cycle": 0.5, "cfr": 0.0},
        equilibrium=0.0,
        memoryless=0.25,
        bayes_last=0.75,
        bayes_sum=1.0,
        bayes_sum_split=(0.0, 1.0),
        opponents=(("copy", 0.5), ("cycle", 0.25), ("cfr", 0.25)),
        missing={},
    )
    return msgspec.structs.replace(base, **changes)


def test_exploitation_is_the_share_of_what_could_be_gained() -> None:
    copy = [scored(0.0, 1.0), scored(0.0, 0.0)]
    cycle = [scored(0.0, 0.5, opponent="cycle")]
    cfr = [scored(0.0, 0.25, opponent="cfr")]
    table = {0: exact()}
    assert exploitation(copy, table) == mean([1.0, 0.0])
    assert exploitation(cycle, table) == Estimate(1.0, None, None)
    assert exploitation(cfr, table) is None, "nothing can be gained"
    everyone = exploitation(copy + cycle + cfr, table)
    assert everyone is not None
    # (1 + 0 + 1/2 + 1/4) / 4 gained of (1 + 1 + 1/2 + 0) / 4.
    assert everyone.value == pytest.approx(1.75 / 2.5)
    assert everyone.low == pytest.approx(mean([1.6, 0.0, 0.8, 0.4]).low)


def test_exploitation_counts_from_the_equilibrium_of_the_seat() -> None:
    first = scored(0.0, 0.5)
    task = msgspec.structs.replace(first.task, seat=1)
    second = msgspec.structs.replace(first, task=task)  # seat 1 scores -0.5
    table = {0: exact(equilibrium=-0.5), 1: exact(equilibrium=0.5, best_response={"copy": 1.0})}
    assert exploitation([first], table) == Estimate(1.0 / 1.5, None, None)
    assert exploitation([second], table) == Estimate(-1.0 / 0.5, None, None)
    both = exploitation([first, second], table)
    assert both is not None
    assert both.value == pytest.approx((1.0 - 1.0) / (1.5 + 0.5))


def test_exploitation_needs_every_exact_value() -> None:
    trials = [scored(0.0, 1.0), scored(0.0, 0.5, opponent="cycle")]
    assert exploitation(trials, {0: exact(best_response={"copy": 1.0})}) is None
    assert exploitation(trials[:1], {0: exact(equilibrium=None)}) is None


def test_regret_is_what_is_left_to_the_limit() -> None:
    trials = [scored(0.0, 1.0), scored(0.0, 0.0)]
    assert regret(trials, {0: exact()}) == mean([-0.25, 0.75])
    assert regret(trials, {0: exact(bayes_last=None)}) is None


def test_all_figures_of_a_trial() -> None:
    calls = (call(), call(problem="no action"), call(truncated=True, length=7))
    turns = [move(0, 0, 0.0, calls=calls), move(0, 0, 0.0, seat=1, calls=calls)]
    trial = msgspec.structs.replace(
        scored(0.0, 1.0),
        episodes=(ended(turns, -1.0, Ending.FORFEITED), ended([], 1.0)),
        streams=((1, 2, 3), (4, 5)),
        overflows=(1,),
    )
    found = trial_metrics([trial, trial])
    assert (found.replies, found.invalid, found.truncated, found.forfeits, found.overflows) == (6, 2, 2, 2, 2)
    assert (found.tokens_sampled, found.tokens_read) == (18, 10), "the opponent's calls are not the agent's"
    assert found.scores_by_trial == ((-1.0, 1.0), (-1.0, 1.0))
    assert found.adaptation == Estimate(2.0, None, None)
    assert trial_metrics([trial] * 3, Averaging(score_range=(-1.0, 1.0))).adaptation == mean([2.0] * 3, (-2.0, 2.0))
    assert found.recovery is None
    assert [p.solved.value for p in found.passes] == [0.0, 1.0]
