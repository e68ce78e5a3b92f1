"""Estimators: literal returns with literal advantages, properties, and statistics that outlive a step."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.credit.check import check_estimator
from mage.credit.dead import is_dead, split_dead
from mage.credit.estimators import ESTIMATORS, Advantages, Estimator, make_estimator
from mage.credit.estimators.agent import AgentNormalised, Scale
from mage.credit.estimators.gigpo import Anchors, Gigpo
from mage.credit.estimators.grpo import Grpo
from mage.credit.estimators.ppo import Ppo
from mage.credit.estimators.reinforce import Reinforce
from mage.credit.estimators.rloo import Rloo
from mage.credit.siblings import Unit
from mage.credit.stats import EMPTY, Key, Running, Stats, merge, pooled
from mage.credit.steps import CreditGroup, Step
from mage.errors import ConfigError
from mage.types import Phase

PLAY, REFLECT = Phase.PLAY, Phase.REFLECT


def step(
    ret: float,
    episode: int = 0,
    phase: Phase = PLAY,
    turn: int = 0,
    key: str = "s",
    trained: bool = True,
    **more: float,
) -> Step:
    return Step(episode, phase, turn, key, trained, ret, **{"discount": 0.0, "reward": 0.0, "value": 0.0, **more})


def group(*trials: Sequence[Step], agent: str = "rock", seat: int = 0, learner: str = "main") -> CreditGroup:
    return CreditGroup(agent, seat, learner, tuple(tuple(trial) for trial in trials))


def bandit(*returns: float, agent: str = "rock", seat: int = 0, learner: str = "main") -> CreditGroup:
    """Siblings of one turn each."""
    return group(*([step(ret)] for ret in returns), agent=agent, seat=seat, learner=learner)


def judged(estimator: Estimator, *groups: CreditGroup, stats: Stats = EMPTY) -> Advantages:
    return estimator.estimate(groups, stats)[0]


def firsts(advantages: Advantages, number: int = 0) -> list[float]:
    """The first advantage of each trial of a group."""
    return [trial[0] for trial in advantages[number]]


ALL = [
    *(make_estimator(name, {}) for name in ESTIMATORS),
    Grpo(divide=False),
    *(AgentNormalised(scale=scale) for scale in Scale),
    *(kind(unit=Unit.TURN) for kind in (Grpo, Rloo, AgentNormalised)),
    Gigpo(anchors=Anchors.EPISODE),
]
COMPARING = [e for e in ALL if not isinstance(e, Ppo | Reinforce)]


# Every estimator


@pytest.mark.parametrize("estimator", ALL, ids=str)
def test_every_estimator_keeps_the_contract(estimator: Estimator) -> None:
    check_estimator(estimator)


class Careless(msgspec.Struct, frozen=True):
    """Judges steps that are not trained."""

    def estimate(self, groups: Sequence[CreditGroup], stats: Stats) -> tuple[Advantages, Stats]:
        return tuple(tuple(tuple(1.0 for _ in trial) for trial in g.trials) for g in groups), stats


class Forgetful(msgspec.Struct, frozen=True):
    """Leaves out a group."""

    def estimate(self, groups: Sequence[CreditGroup], stats: Stats) -> tuple[Advantages, Stats]:
        return Rloo().estimate(groups[1:], stats)


@pytest.mark.parametrize(("estimator", "why"), [(Careless(), "untrained"), (Forgetful(), "one entry for each group")])
def test_the_check_finds_broken_estimators(estimator: Estimator, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check_estimator(estimator)


@pytest.mark.parametrize("estimator", ALL, ids=str)
def test_better_is_positive(estimator: Estimator) -> None:
    won = step(1.0, reward=1.0)
    lost = step(-1.0, reward=-1.0)
    better, worse = firsts(judged(estimator, group([won], [lost])))
    assert better > 0 > worse


@pytest.mark.parametrize("estimator", COMPARING, ids=str)
def test_equal_siblings_are_dead_and_so_is_one_alone(estimator: Estimator) -> None:
    alike = bandit(0.1 + 0.2, 0.3, 0.3)  # the same score, added up in another order
    advantages = judged(estimator, alike, bandit(5.0), bandit(), bandit(1.0, 0.0))
    assert split_dead(advantages) == ((3,), (0, 1, 2))
    assert firsts(advantages) == [0.0, 0.0, 0.0]


def test_dead_means_zero_on_every_step_of_every_trial() -> None:
    assert is_dead(((0.0, 1e-13), (0.0,)))
    assert not is_dead(((0.0, 0.0), (0.0, -1e-9)))
    assert is_dead(())
    assert split_dead([]) == ((), ())


@pytest.mark.parametrize("estimator", [Grpo(), Rloo(), Gigpo(), Ppo(), Reinforce(), AgentNormalised(scale=Scale.NONE)])
def test_groups_are_judged_apart(estimator: Estimator) -> None:
    low, high = bandit(1.0, 0.0), bandit(101.0, 100.0)
    together = judged(estimator, low, high)
    assert together == (*judged(estimator, low), *judged(estimator, high))
    if not isinstance(estimator, Ppo | Reinforce):
        assert firsts(together, 0) == firsts(together, 1)


# Siblings


def test_grpo_by_hand() -> None:
    # Mean 1/4; squares 9/16 + 3/16 = 3/4 over 3 is 1/4, its root 1/2.
    assert firsts(judged(Grpo(), bandit(1.0, 0.0, 0.0, 0.0))) == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-5)
    assert firsts(judged(Grpo(divide=False), bandit(1.0, 0.0, 0.0, 0.0))) == [0.75, -0.25, -0.25, -0.25]


def test_rloo_by_hand() -> None:
    # 1 - 0; 0 - (1 + 0)/2, twice. A baseline that held the trial itself would give 2/3, -1/3, -1/3.
    assert firsts(judged(Rloo(), bandit(1.0, 0.0, 0.0))) == [1.0, -0.5, -0.5]
    assert firsts(judged(Rloo(), bandit(3.0, 1.0))) == [2.0, -2.0]


EPISODES = group(
    [step(4.0), step(9.0, turn=1), step(6.0, phase=REFLECT), step(6.0, episode=1), step(1.0, episode=1, turn=1)],
    [step(1.0), step(2.0, phase=REFLECT), step(2.0, episode=1)],
    [step(1.0), step(5.0, turn=1)],  # stopped early
)


def test_an_episode_is_judged_by_its_first_turn_and_a_reflection_by_the_other_reflections() -> None:
    # Episode 0: 4 - 1 = 3; 1 - 5/2 = -3/2 twice. Reflection and episode 1: 6 - 2 = 4 and -4, between the two there.
    assert judged(Rloo(), EPISODES) == (((3.0, 3.0, 4.0, 4.0, 4.0), (-1.5, -4.0, -4.0), (-1.5, -1.5)),)


def test_with_unit_turn_every_turn_is_judged_by_itself() -> None:
    # Second turns of episode 0: 9 - 5 = 4 and -4. The second turn of episode 1 is alone.
    expected = (((3.0, 4.0, 4.0, 4.0, 0.0), (-1.5, -4.0, -4.0), (-1.5, -4.0)),)
    assert judged(Rloo(unit=Unit.TURN), EPISODES) == expected


def test_play_and_reflection_of_one_episode_are_never_mixed() -> None:
    trials = [[step(0.0), step(10.0, phase=REFLECT)], [step(2.0), step(12.0, phase=REFLECT)]]
    assert judged(Rloo(), group(*trials)) == (((-2.0, -2.0), (2.0, 2.0)),)


@pytest.mark.parametrize("estimator", ALL, ids=str)
def test_untrained_steps_take_no_part(estimator: Estimator) -> None:
    def trials(reflection: float) -> list[list[Step]]:
        return [[step(ret), step(ret * reflection, phase=REFLECT, trained=False)] for ret in (1.0, -1.0)]

    quiet, loud = group(*trials(0.0)), group(*trials(99.0))
    assert estimator.estimate([quiet], EMPTY) == estimator.estimate([loud], EMPTY)
    assert [trial[1] for trial in judged(estimator, loud)[0]] == [0.0, 0.0]


# Agent-specific normalisation. Four siblings scored (x, 0, 0, 0): mean x/4, squares (9 + 3) x²/16, variance x²/4,
# so their standard deviation is x/2; against the others they stand at x and -x/3.


def one_of_four(x: float, agent: str = "rock", seat: int = 0, learner: str = "main") -> CreditGroup:
    return bandit(x, 0.0, 0.0, 0.0, agent=agent, seat=seat, learner=learner)


def key(agent: str = "rock", seat: int = 0, episode: int = 0, learner: str = "main") -> Key:
    return Key(learner, agent, seat, episode, None)


HALVING = AgentNormalised(decay=0.5)


def test_the_first_step_is_scaled_by_all_its_groups() -> None:
    # Variances 1 and 49, mean 25: s = 5.
    advantages, stats = HALVING.estimate([one_of_four(2.0), one_of_four(14.0, "paper")], EMPTY)
    assert firsts(advantages, 0) == pytest.approx([2 / 5, -2 / 15, -2 / 15, -2 / 15])
    assert firsts(advantages, 1) == pytest.approx([14 / 5, -14 / 15, -14 / 15, -14 / 15])
    assert stats.table() == {key("rock"): Running(1.0, 1.0, 1), key("paper"): Running(49.0, 1.0, 1)}


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
        key("rock"): Running(9.5, 1.5, 2),
        key("paper"): Running(33.5, 1.5, 2),
        key("never met"): Running(9.0, 1.0, 1),
    }


def test_from_five_groups_on_an_agent_has_its_own_scale() -> None:
    def after(count: int) -> Stats:
        return Stats(((key("paper"), Running(64.0 * 5, 5.0, 5)), (key("rock"), Running(4.0 * count, count, count))))

    # Rock's own s is 2; the pool is (5 x 64 + 5 x 4) / 10 = 34, then (320 + 16) / 9 = 112/3.
    assert firsts(judged(HALVING, one_of_four(6.0), stats=after(5)))[0] == pytest.approx(6 / 2)
    assert firsts(judged(HALVING, one_of_four(6.0), stats=after(50)))[0] == pytest.approx(6 / 2)
    s = 4 / 5 * 2 + 1 / 5 * sqrt(112 / 3)
    assert firsts(judged(HALVING, one_of_four(6.0), stats=after(4)))[0] == pytest.approx(6 / s)


def test_no_agent_drowns_the_others() -> None:
    """The same play against one who pays a hundredfold has the same advantages once both are known."""
    stats, advantages = EMPTY, None
    for _ in range(6):
        advantages, stats = AgentNormalised().estimate([one_of_four(2.0), one_of_four(200.0, "banker")], stats)
    assert advantages is not None
    assert firsts(advantages, 0) == pytest.approx([2.0, -2 / 3, -2 / 3, -2 / 3])
    assert firsts(advantages, 1) == pytest.approx(firsts(advantages, 0))


def test_groups_of_one_step_use_old_statistics_and_are_merged_in_order() -> None:
    small, large = one_of_four(2.0), one_of_four(6.0)  # variances 1 and 9, the same agent
    old = Stats(((key(), Running(8.0, 2.0, 5)),))  # s = 2
    forward, forward_stats = HALVING.estimate([small, large], old)
    backward, backward_stats = HALVING.estimate([large, small], old)
    assert forward == tuple(reversed(backward))
    assert firsts(forward, 0)[0] == 1.0
    assert firsts(forward, 1)[0] == 3.0
    # 8 -> 4 + 1 = 5 -> 2.5 + 9 = 11.5, or 8 -> 4 + 9 = 13 -> 6.5 + 1 = 7.5; weights 2 -> 2 -> 2.
    assert forward_stats.table() == {key(): Running(11.5, 2.0, 7)}
    assert backward_stats.table() == {key(): Running(7.5, 2.0, 7)}


def test_dead_groups_count_and_lonely_trials_do_not() -> None:
    _, stats = HALVING.estimate([one_of_four(2.0), bandit(3.0, 3.0), bandit(7.0)], EMPTY)
    # 1 -> 1/2 + 0, weight 1 -> 1.5; the trial alone has no variance.
    assert stats.table() == {key(): Running(0.5, 1.5, 2)}


def test_seats_learners_and_episodes_have_scales_of_their_own() -> None:
    late = group(*([step(ret, episode=1)] for ret in (8.0, 0.0, 0.0, 0.0)))
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
        group(*([step(ret, episode=1)] for ret in (3.0, 0.0, 0.0, 0.0)), agent="new"),
    ]
    advantages = judged(HALVING, *newcomers, stats=stats)
    assert [firsts(advantages, i)[0] for i in range(3)] == pytest.approx([3 / sqrt(2.5), 3 / 3, 3 / 4])


def test_a_reflection_shares_the_scale_of_the_episode_it_looks_back_on() -> None:
    trials = [[step(a), step(b, phase=REFLECT)] for a, b in ((2.0, 14.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))]
    advantages, stats = HALVING.estimate([group(*trials)], EMPTY)
    # Squares 3 + 147 over 3 + 3: variance 25, s = 5.
    assert advantages[0][0] == pytest.approx((2 / 5, 14 / 5))
    assert stats.table() == {key(): Running(25.0, 1.0, 1)}


def test_the_divisor_has_a_floor() -> None:
    beaten = Stats(((key(), Running(0.0, 5.0, 9)),))
    assert firsts(judged(AgentNormalised(), bandit(1.0, 0.0), stats=beaten)) == pytest.approx([10.0, -10.0])
    assert firsts(judged(AgentNormalised(s_min=0.5), bandit(1.0, 0.0), stats=beaten)) == [2.0, -2.0]


@pytest.mark.parametrize(
    ("scale", "rock", "paper"),
    [(Scale.GROUP, 2 / 1, 14 / 7), (Scale.BATCH, 2 / 5, 14 / 5), (Scale.NONE, 2.0, 14.0), (Scale.AGENT, 2 / 2, 14 / 3)],
)
def test_the_four_scales(scale: Scale, rock: float, paper: float) -> None:
    """This step's variances are 1 and 49, their mean 25; the agents' remembered ones 4 and 9."""
    old = Stats(((key("paper"), Running(9.0, 1.0, 5)), (key("rock"), Running(4.0, 1.0, 5))))
    estimator = AgentNormalised(scale=scale)
    advantages, stats = estimator.estimate([one_of_four(2.0), one_of_four(14.0, "paper")], old)
    assert firsts(advantages, 0)[0] == pytest.approx(rock)
    assert firsts(advantages, 1)[0] == pytest.approx(paper)
    assert stats == AgentNormalised().estimate([one_of_four(2.0), one_of_four(14.0, "paper")], old)[1]


# REINFORCE


def test_reinforce_by_hand() -> None:
    estimator = Reinforce(decay=0.5)
    first, stats = estimator.estimate([bandit(1.0, 0.0)], EMPTY)
    assert firsts(first) == [1.0, 0.0]  # no history: raw returns
    # The group's mean was 1/2.
    second, stats = estimator.estimate([bandit(2.0, 0.0), bandit(4.0, agent="new")], stats)
    assert firsts(second, 0) == [1.5, -0.5]
    assert firsts(second, 1) == [3.5]  # never met: the mean of all agents there
    # Rock: 1/2 x 1/2 + 1 = 1.25 over 1.5 is 5/6. New: 4.
    third = judged(estimator, bandit(1.0), bandit(1.0, agent="new"), stats=stats)
    assert firsts(third, 0) == pytest.approx([1 / 6])
    assert firsts(third, 1) == [-3.0]


def test_reinforce_judges_turns_one_by_one_and_a_group_counts_once() -> None:
    trials = [[step(3.0), step(1.0, turn=1), step(8.0, phase=REFLECT), step(5.0, episode=1)], [step(2.0)]]
    advantages, stats = Reinforce(decay=1.0).estimate([group(*trials)], EMPTY)
    assert advantages == (((3.0, 1.0, 8.0, 5.0), (2.0,)),)
    assert {(k.episode, k.phase): r.mean for k, r in stats.entries} == {
        (0, PLAY): 2.0,
        (0, REFLECT): 8.0,
        (1, PLAY): 5.0,
    }
    assert {r.count for _, r in stats.entries} == {1}
    # (2 + 0 x anything): one more group of one trial pulls as hard as the group of two did.
    _, stats = Reinforce(decay=1.0).estimate([bandit(0.0)], stats)
    assert stats.table()[Key("main", "rock", 0, 0, PLAY)].mean == 1.0


def test_reinforce_baselines_differ_by_agent_and_seat() -> None:
    past = [bandit(1.0), bandit(3.0, seat=1), bandit(5.0, agent="paper"), bandit(7.0, learner="second")]
    _, stats = Reinforce().estimate(past, EMPTY)
    assert judged(Reinforce(), *past, stats=stats) == ((((0.0,),),) * 4)


# GiGPO


def test_gigpo_adds_the_step_term_where_states_meet() -> None:
    trials = [[step(1.0), step(2.0, turn=1, key="a")], [step(0.0), step(5.0, turn=1, key="b")]]
    # Episode terms 1/2 and -1/2; in state s step terms 1/2 and -1/2; a and b were met once.
    assert judged(Gigpo(), group(*trials)) == (((1.0, 0.5), (-1.0, -0.5)),)
    assert judged(Gigpo(weight=3.0), group(*trials)) == (((2.0, 0.5), (-2.0, -0.5)),)
    assert judged(Gigpo(weight=0.0), group(*trials)) == judged(Grpo(divide=False), group(*trials))


def test_gigpo_pools_states_over_episodes_or_not() -> None:
    trials = [[step(1.0), step(3.0, episode=1)], [step(0.0), step(4.0, episode=1)]]
    # Episode terms 1/2, -1/2 | -1/2, 1/2. Pooled mean of 1, 3, 0, 4 is 2: step terms -1, 1 | -2, 2.
    assert judged(Gigpo(), group(*trials)) == (((-0.5, 0.5), (-2.5, 2.5)),)
    # Apart, the step terms equal the episode terms.
    assert judged(Gigpo(anchors=Anchors.EPISODE), group(*trials)) == (((1.0, -1.0), (-1.0, 1.0)),)


def test_gigpo_reflections_share_one_anchor_and_moves_never_join_it() -> None:
    def trial(first: float, second: float) -> list[Step]:
        return [
            step(0.0, key="note"),
            step(first, phase=REFLECT, key="note"),
            step(second, episode=1, phase=REFLECT, key="note"),
        ]

    # Reflections 1, 3 | 0, 4 as the states above; the moves, though their key is the same, stay at 0.
    assert judged(Gigpo(), group(trial(1.0, 3.0), trial(0.0, 4.0))) == (((0.0, -0.5, 0.5), (0.0, -2.5, 2.5)),)


# PPO


def test_ppo_by_hand() -> None:
    steps = [step(1.0, discount=1.0, reward=0.0, value=0.5), step(1.0, turn=1, discount=0.0, reward=1.0, value=0.25)]
    # Surprises 0 + 1/4 - 1/2 = -1/4 and 1 - 1/4 = 3/4.
    assert judged(Ppo(lam=0.5), group(steps)) == (((-0.25 + 0.5 * 0.75, 0.75),),)
    assert judged(Ppo(lam=0.0), group(steps)) == (((-0.25, 0.75),),)
    assert judged(Ppo(lam=1.0), group(steps)) == (((0.5, 0.75),),)


def test_ppo_crosses_a_boundary_by_the_discount_of_the_step_before_it() -> None:
    def trial(discount: float) -> list[Step]:
        return [step(0.0, discount=discount, value=1.0), step(0.0, episode=1, reward=2.0, value=1.0)]

    # Surprise 1 after the boundary. Discount 1/2: 1/2 x 1 - 1 = -1/2, plus 1/2 x 1/2 x 1.
    assert judged(Ppo(lam=0.5), group(trial(0.5))) == (((-0.25, 1.0),),)
    assert judged(Ppo(lam=0.5), group(trial(0.0))) == (((-1.0, 1.0),),)


# Properties

scores = st.integers(-400, 400).map(lambda n: n / 8)
shapes = st.lists(st.tuples(scores, scores, scores), min_size=2, max_size=6)


def trials_of(rows: Sequence[tuple[float, float, float]]) -> list[list[Step]]:
    """A move, a reflection and a move in the second episode, in one of two states."""
    return [
        [step(a), step(b, phase=REFLECT), step(c, episode=1, key="s" if a > 0 else "t", reward=c, value=b)]
        for a, b, c in rows
    ]


def close(mine: Advantages, theirs: Advantages, tolerance: float = 1e-6) -> bool:
    flat = [[a for g in found for trial in g for a in trial] for found in (mine, theirs)]
    return flat[0] == pytest.approx(flat[1], abs=tolerance, rel=tolerance)


@settings(deadline=None)
@given(shapes, st.randoms(use_true_random=False))
def test_permuting_siblings_permutes_advantages(rows: list[tuple[float, float, float]], rng: Any) -> None:
    order = list(range(len(rows)))
    rng.shuffle(order)
    for estimator in ALL:
        plain, stats = estimator.estimate([group(*trials_of(rows))], EMPTY)
        mixed, mixed_stats = estimator.estimate([group(*trials_of([rows[i] for i in order]))], EMPTY)
        assert close(mixed, (tuple(plain[0][i] for i in order),))
        for (one, running), (other, mixed_running) in zip(stats.entries, mixed_stats.entries, strict=True):
            assert one == other
            assert running.mean == pytest.approx(mixed_running.mean)


@settings(deadline=None)
@given(shapes, scores)
def test_a_constant_on_all_returns_changes_nothing(rows: list[tuple[float, float, float]], constant: float) -> None:
    plain = group(*trials_of(rows))
    trials = [[msgspec.structs.replace(s, ret=s.ret + constant) for s in trial] for trial in plain.trials]
    for estimator in COMPARING:
        mine, mine_stats = estimator.estimate([group(*trials)], EMPTY)
        theirs, their_stats = estimator.estimate([plain], EMPTY)
        assert close(mine, theirs)
        assert [k for k, _ in mine_stats.entries] == [k for k, _ in their_stats.entries]


@settings(deadline=None)
@given(shapes, st.sampled_from([0.25, 3.0, 40.0]))
def test_scaling_returns(rows: list[tuple[float, float, float]], factor: float) -> None:
    """Differences scale with returns; what is divided by a spread does not."""
    plain = group(*trials_of(rows))
    large = group(*([msgspec.structs.replace(s, ret=s.ret * factor) for s in trial] for trial in plain.trials))
    for estimator in (Rloo(), Grpo(divide=False), Gigpo(), AgentNormalised(scale=Scale.NONE)):
        scaled = tuple(tuple(tuple(a * factor for a in trial) for trial in g) for g in judged(estimator, plain))
        assert close(judged(estimator, large), scaled)
    for estimator in (AgentNormalised(s_min=1e-9), AgentNormalised(scale=Scale.GROUP, s_min=1e-9)):
        assert close(judged(estimator, large), judged(estimator, plain))
    assert close(judged(Grpo(), large), judged(Grpo(), plain), tolerance=1e-4)


@settings(deadline=None)
@given(shapes, scores)
def test_leave_one_out_baselines_do_not_move_with_their_own_trial(
    rows: list[tuple[float, float, float]], gain: float
) -> None:
    raised = [(rows[0][0] + gain, *rows[0][1:]), *rows[1:]]
    for estimator in (Rloo(), AgentNormalised(scale=Scale.NONE)):
        before = firsts(judged(estimator, group(*trials_of(rows))))
        after = firsts(judged(estimator, group(*trials_of(raised))))
        assert after[0] - before[0] == pytest.approx(gain, abs=1e-6)
        for mine, theirs in zip(after[1:], before[1:], strict=True):
            assert mine - theirs == pytest.approx(-gain / (len(rows) - 1), abs=1e-6)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["rock", "paper"]), shapes), max_size=4))
def test_statistics_survive_a_checkpoint_and_make_runs_equal(
    drawn: list[tuple[str, list[tuple[float, float, float]]]],
) -> None:
    groups = [group(*trials_of(rows), agent=agent) for agent, rows in drawn]
    for estimator in (AgentNormalised(), Reinforce()):
        stats = estimator.estimate(groups, EMPTY)[1]
        restored = msgspec.json.decode(msgspec.json.encode(stats), type=Stats)
        assert restored == stats
        assert estimator.estimate(groups, restored) == estimator.estimate(groups, stats)


@settings(deadline=None)
@given(st.lists(scores, max_size=6), st.sampled_from([0.5, 0.99, 1.0]))
def test_a_running_mean_is_the_weighted_mean_of_all_it_saw(values: list[float], decay: float) -> None:
    stats = merge(EMPTY, ((key(), value) for value in values), decay)
    weights = [decay ** (len(values) - 1 - i) for i in range(len(values))]
    expected = [sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)] if values else []
    assert [running.mean for _, running in stats.entries] == pytest.approx(expected, abs=1e-9)
    one_by_one = EMPTY
    for value in values:
        one_by_one = merge(one_by_one, [(key(), value)], decay)
    assert one_by_one == stats


def test_pooled_means_weigh_by_groups() -> None:
    stats = Stats(((key("a"), Running(1.0, 1.0, 1)), (key("b"), Running(5.0, 1.0, 3))))
    assert pooled(stats) == {("main", 0, None): 4.0}


# By name


def test_estimators_are_built_from_plain_values() -> None:
    assert make_estimator("agent", {"scale": "batch", "s_min": 1}) == AgentNormalised(scale=Scale.BATCH, s_min=1.0)
    assert make_estimator("gigpo", {"anchors": "episode"}) == Gigpo(anchors=Anchors.EPISODE)
    assert make_estimator("mine", {}, {**ESTIMATORS, "mine": Careless}) == Careless()


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("grop", {}, "unknown estimator 'grop'; known: agent, gigpo, grpo, ppo, reinforce, rloo"),
        ("agent", {"scale": "grup"}, r"Invalid enum value 'grup'.*scale=agent\|group\|batch\|none"),
        ("agent", {"skale": "group"}, "unknown field `skale`.*it takes scale="),
        ("agent", {"s_min": 0.0}, "s_min"),
        ("ppo", {"lam": 1.5}, "'lam': 1.5.*<= 1.0.*lam=0.95"),
    ],
)
def test_what_cannot_be_built_is_said_in_one_line(name: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        make_estimator(name, parameters)
    assert "\n" not in str(error.value)
