"""Agent-specific normalisation: what divides an advantage, from the first step to agents known for long.

Four siblings scored (x, 0, 0, 0) have mean x/4, squares (9 + 3) x²/16 and variance x²/4, so their standard deviation is
x/2; against the others they stand at x and -x/3.
"""

from __future__ import annotations

from math import sqrt

import pytest

from mage.credit.estimators.agent_specific import AgentSpecific, Scale
from mage.credit.running_stats import EMPTY, RunningMean, Stats
from tests.credited import REFLECT, bandit, evaluated, firsts, group, key, one_of_four, step

HALVING = AgentSpecific(scale=Scale.OPPONENT, decay=0.5)


def test_the_first_step_is_scaled_by_all_its_groups() -> None:
    # Variances 1 and 49, mean 25: s = 5.
    advantages, stats = HALVING.estimate([one_of_four(2.0), one_of_four(14.0, "paper")], EMPTY)
    assert firsts(advantages, 0) == pytest.approx([2 / 5, -2 / 15, -2 / 15, -2 / 15])
    assert firsts(advantages, 1) == pytest.approx([14 / 5, -14 / 15, -14 / 15, -14 / 15])
    assert stats.table() == {key("rock"): RunningMean(1.0, 1.0, 1), key("paper"): RunningMean(49.0, 1.0, 1)}


def test_the_second_step_is_scaled_by_what_the_first_left_behind() -> None:
    _, stats = HALVING.estimate([one_of_four(2.0), one_of_four(14.0, "paper")], EMPTY)
    second = [one_of_four(6.0), one_of_four(6.0, "paper"), one_of_four(6.0, "never met")]
    advantages, after = HALVING.estimate(second, stats)
    # Pooled s = 5; one group of five: 1/5 x 1 + 4/5 x 5 = 4.2 and 1/5 x 7 + 4/5 x 5 = 5.4. This step's own 9 counts
    # for nothing yet.
    assert firsts(advantages, 0)[:2] == pytest.approx([6 / 4.2, -2 / 4.2])
    assert firsts(advantages, 1)[:2] == pytest.approx([6 / 5.4, -2 / 5.4])
    assert firsts(advantages, 2)[:2] == pytest.approx([6 / 5, -2 / 5])
    # 1/2 x 1 + 9 = 9.5 over 1/2 + 1 = 1.5; 1/2 x 49 + 9 = 33.5.
    assert after.table() == {
        key("rock"): RunningMean(9.5, 1.5, 2),
        key("paper"): RunningMean(33.5, 1.5, 2),
        key("never met"): RunningMean(9.0, 1.0, 1),
    }


def test_from_five_groups_on_an_agent_has_its_own_scale() -> None:
    def after(count: int) -> Stats:
        return Stats(
            ((key("paper"), RunningMean(64.0 * 5, 5.0, 5)), (key("rock"), RunningMean(4.0 * count, count, count)))
        )

    # Rock's own s is 2; the pool is (5 x 64 + 5 x 4) / 10 = 34, then (320 + 16) / 9 = 112/3.
    assert firsts(evaluated(HALVING, one_of_four(6.0), stats=after(5)))[0] == pytest.approx(6 / 2)
    assert firsts(evaluated(HALVING, one_of_four(6.0), stats=after(50)))[0] == pytest.approx(6 / 2)
    s = 4 / 5 * 2 + 1 / 5 * sqrt(112 / 3)
    assert firsts(evaluated(HALVING, one_of_four(6.0), stats=after(4)))[0] == pytest.approx(6 / s)


def test_no_agent_drowns_the_others() -> None:
    """The same play against one who pays a hundredfold has the same advantages once both are known."""
    stats, advantages = EMPTY, None
    for _ in range(6):
        advantages, stats = AgentSpecific(scale=Scale.OPPONENT).estimate(
            [one_of_four(2.0), one_of_four(200.0, "banker")], stats
        )
    assert advantages is not None
    assert firsts(advantages, 0) == pytest.approx([2.0, -2 / 3, -2 / 3, -2 / 3])
    assert firsts(advantages, 1) == pytest.approx(firsts(advantages, 0))


def test_groups_of_one_step_use_old_statistics_and_are_merged_in_order() -> None:
    small, large = one_of_four(2.0), one_of_four(6.0)  # variances 1 and 9, the same agent
    old = Stats(((key(), RunningMean(8.0, 2.0, 5)),))  # s = 2
    forward, forward_stats = HALVING.estimate([small, large], old)
    backward, backward_stats = HALVING.estimate([large, small], old)
    assert forward == tuple(reversed(backward))
    assert firsts(forward, 0)[0] == 1.0
    assert firsts(forward, 1)[0] == 3.0
    # 8 -> 4 + 1 = 5 -> 2.5 + 9 = 11.5, or 8 -> 4 + 9 = 13 -> 6.5 + 1 = 7.5; weights 2 -> 2 -> 2.
    assert forward_stats.table() == {key(): RunningMean(11.5, 2.0, 7)}
    assert backward_stats.table() == {key(): RunningMean(7.5, 2.0, 7)}


def test_dead_groups_count_and_lonely_trials_do_not() -> None:
    _, stats = HALVING.estimate([one_of_four(2.0), bandit(3.0, 3.0), bandit(7.0)], EMPTY)
    # 1 -> 1/2 + 0, weight 1 -> 1.5; the trial alone has no variance.
    assert stats.table() == {key(): RunningMean(0.5, 1.5, 2)}


def test_seats_learners_and_episodes_have_scales_of_their_own() -> None:
    late = group(*([step(return_, episode=1)] for return_ in (8.0, 0.0, 0.0, 0.0)))
    groups = [one_of_four(2.0), one_of_four(4.0, seat=1), one_of_four(6.0, learner="second"), late]
    _, stats = HALVING.estimate(groups, EMPTY)
    assert {k: r.mean for k, r in stats.entries} == {
        key(): 1.0,
        key(seat=1): 4.0,
        key(learner="second"): 9.0,
        key(episode=1): 16.0,
    }
    # A new agent borrows from its learner and episode: (1 + 4)/2, 9 and 16.
    newcomers = [
        one_of_four(3.0, "new"),
        one_of_four(3.0, "new", learner="second"),
        group(*([step(return_, episode=1)] for return_ in (3.0, 0.0, 0.0, 0.0)), agent="new"),
    ]
    advantages = evaluated(HALVING, *newcomers, stats=stats)
    assert [firsts(advantages, i)[0] for i in range(3)] == pytest.approx([3 / sqrt(2.5), 3 / 3, 3 / 4])


def test_a_reflection_shares_the_scale_of_the_episode_it_looks_back_on() -> None:
    trials = [[step(a), step(b, phase=REFLECT)] for a, b in ((2.0, 14.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))]
    advantages, stats = HALVING.estimate([group(*trials)], EMPTY)
    # Squares 3 + 147 over 3 + 3: variance 25, s = 5.
    assert advantages[0][0] == pytest.approx((2 / 5, 14 / 5))
    assert stats.table() == {key(): RunningMean(25.0, 1.0, 1)}


def test_the_divisor_has_a_floor() -> None:
    beaten = Stats(((key(), RunningMean(0.0, 5.0, 9)),))
    assert firsts(evaluated(AgentSpecific(scale=Scale.OPPONENT), bandit(1.0, 0.0), stats=beaten)) == pytest.approx(
        [10.0, -10.0]
    )
    assert firsts(evaluated(AgentSpecific(scale=Scale.OPPONENT, s_min=0.5), bandit(1.0, 0.0), stats=beaten)) == [
        2.0,
        -2.0,
    ]


@pytest.mark.parametrize(
    ("scale", "rock", "paper"),
    [
        (Scale.GROUP, 2 / 1, 14 / 7),
        (Scale.BATCH, 2 / 5, 14 / 5),
        (Scale.NONE, 2.0, 14.0),
        (Scale.OPPONENT, 2 / 2, 14 / 3),
    ],
)
def test_the_four_scales(scale: Scale, rock: float, paper: float) -> None:
    """This step's variances are 1 and 49, their mean 25; the agents' remembered ones 4 and 9."""
    old = Stats(((key("paper"), RunningMean(9.0, 1.0, 5)), (key("rock"), RunningMean(4.0, 1.0, 5))))
    estimator = AgentSpecific(scale=scale)
    advantages, stats = estimator.estimate([one_of_four(2.0), one_of_four(14.0, "paper")], old)
    assert firsts(advantages, 0)[0] == pytest.approx(rock)
    assert firsts(advantages, 1)[0] == pytest.approx(paper)
    assert stats == AgentSpecific().estimate([one_of_four(2.0), one_of_four(14.0, "paper")], old)[1]
