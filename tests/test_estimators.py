"""Estimators: their contract, and literal returns with literal advantages."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from mage.checks.estimators import check_estimator
from mage.credit.dead_groups import is_dead, split_dead, trained_groups
from mage.credit.estimators import ESTIMATORS, Advantages, Estimator, make_estimator
from mage.credit.estimators.agent_specific import AgentSpecific, Scale
from mage.credit.estimators.gigpo import Anchors, Gigpo
from mage.credit.estimators.grpo import Grpo
from mage.credit.estimators.ppo import Ppo
from mage.credit.estimators.reinforce import Reinforce
from mage.credit.estimators.rloo import Rloo
from mage.credit.group_baselines import Unit
from mage.credit.running_stats import EMPTY, StatKey, Stats
from mage.credit.steps import CreditGroup, Step
from mage.errors import ConfigError
from mage.types import DeadGroups
from tests.credited import ALL, COMPARING, JUDGING, PLAY, REFLECT, bandit, evaluated, firsts, group, step

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


@pytest.mark.parametrize("estimator", JUDGING, ids=str)
def test_better_is_positive(estimator: Estimator) -> None:
    won = step(1.0, reward=1.0)
    lost = step(-1.0, reward=-1.0)
    better, worse = firsts(evaluated(estimator, group([won], [lost])))
    assert better > 0 > worse


@pytest.mark.parametrize("estimator", COMPARING, ids=str)
def test_equal_siblings_are_dead_and_so_is_one_alone(estimator: Estimator) -> None:
    alike = bandit(0.1 + 0.2, 0.3, 0.3)  # the same score, added up in another order
    advantages = evaluated(estimator, alike, bandit(5.0), bandit(), bandit(1.0, 0.0))
    assert split_dead(advantages) == ((3,), (0, 1, 2))
    assert firsts(advantages) == [0.0, 0.0, 0.0]


def test_dead_means_zero_on_every_step_of_every_trial() -> None:
    assert is_dead(((0.0, 1e-13), (0.0,)))
    assert not is_dead(((0.0, 0.0), (0.0, -1e-9)))
    assert is_dead(())
    assert split_dead([]) == ((), ())


@pytest.mark.parametrize(("rule", "trained"), [("drop", [1]), ("resample", [1]), ("keep", [0, 1, 2])])
def test_dead_groups_are_trained_on_only_where_they_are_kept(rule: str, trained: list[int]) -> None:
    assert trained_groups((1,), (0, 2), DeadGroups(rule)) == trained
    assert trained_groups((), (0, 1), DeadGroups(rule)) == ([0, 1] if rule == "keep" else [])


@pytest.mark.parametrize("estimator", [Grpo(), Rloo(), Gigpo(), Ppo(), Reinforce(), AgentSpecific(scale=Scale.NONE)])
def test_groups_are_judged_apart(estimator: Estimator) -> None:
    low, high = bandit(1.0, 0.0), bandit(101.0, 100.0)
    together = evaluated(estimator, low, high)
    assert together == (*evaluated(estimator, low), *evaluated(estimator, high))
    if not isinstance(estimator, Ppo | Reinforce):
        assert firsts(together, 0) == firsts(together, 1)


# Siblings


def test_grpo_by_hand() -> None:
    # Mean 1/4; squares 9/16 + 3/16 = 3/4 over 3 is 1/4, its root 1/2.
    assert firsts(evaluated(Grpo(), bandit(1.0, 0.0, 0.0, 0.0))) == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-5)
    assert firsts(evaluated(Grpo(divide=False), bandit(1.0, 0.0, 0.0, 0.0))) == [0.75, -0.25, -0.25, -0.25]


def test_rloo_by_hand() -> None:
    # 1 - 0; 0 - (1 + 0)/2, twice. A baseline that held the trial itself would give 2/3, -1/3, -1/3.
    assert firsts(evaluated(Rloo(), bandit(1.0, 0.0, 0.0))) == [1.0, -0.5, -0.5]
    assert firsts(evaluated(Rloo(), bandit(3.0, 1.0))) == [2.0, -2.0]


EPISODES = group(
    [step(4.0), step(9.0, turn=1), step(6.0, phase=REFLECT), step(6.0, episode=1), step(1.0, episode=1, turn=1)],
    [step(1.0), step(2.0, phase=REFLECT), step(2.0, episode=1)],
    [step(1.0), step(5.0, turn=1)],  # stopped early
)


def test_an_episode_is_judged_by_its_first_turn_and_a_reflection_by_the_other_reflections() -> None:
    # Episode 0: 4 - 1 = 3; 1 - 5/2 = -3/2 twice. Reflection and episode 1: 6 - 2 = 4 and -4, between the two there.
    assert evaluated(Rloo(), EPISODES) == (((3.0, 3.0, 4.0, 4.0, 4.0), (-1.5, -4.0, -4.0), (-1.5, -1.5)),)


def test_with_unit_turn_every_turn_is_judged_by_itself() -> None:
    # Second turns of episode 0: 9 - 5 = 4 and -4. The second turn of episode 1 is alone.
    expected = (((3.0, 4.0, 4.0, 4.0, 0.0), (-1.5, -4.0, -4.0), (-1.5, -4.0)),)
    assert evaluated(Rloo(unit=Unit.TURN), EPISODES) == expected


def test_play_and_reflection_of_one_episode_are_never_mixed() -> None:
    trials = [[step(0.0), step(10.0, phase=REFLECT)], [step(2.0), step(12.0, phase=REFLECT)]]
    assert evaluated(Rloo(), group(*trials)) == (((-2.0, -2.0), (2.0, 2.0)),)


@pytest.mark.parametrize("estimator", ALL, ids=str)
def test_untrained_steps_take_no_part(estimator: Estimator) -> None:
    def trials(reflection: float) -> list[list[Step]]:
        return [[step(return_), step(return_ * reflection, phase=REFLECT, trained=False)] for return_ in (1.0, -1.0)]

    quiet, loud = group(*trials(0.0)), group(*trials(99.0))
    assert estimator.estimate([quiet], EMPTY) == estimator.estimate([loud], EMPTY)
    assert [trial[1] for trial in evaluated(estimator, loud)[0]] == [0.0, 0.0]


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
    third = evaluated(estimator, bandit(1.0), bandit(1.0, agent="new"), stats=stats)
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
    assert stats.table()[StatKey("main", "rock", 0, 0, PLAY)].mean == 1.0


def test_reinforce_baselines_differ_by_agent_and_seat() -> None:
    past = [bandit(1.0), bandit(3.0, seat=1), bandit(5.0, agent="paper"), bandit(7.0, learner="second")]
    _, stats = Reinforce().estimate(past, EMPTY)
    assert evaluated(Reinforce(), *past, stats=stats) == ((((0.0,),),) * 4)


# GiGPO


def test_gigpo_adds_the_step_term_where_states_meet() -> None:
    trials = [[step(1.0), step(2.0, turn=1, key="a")], [step(0.0), step(5.0, turn=1, key="b")]]
    # Episode terms 1/2 and -1/2; in state s step terms 1/2 and -1/2; a and b were met once.
    assert evaluated(Gigpo(), group(*trials)) == (((1.0, 0.5), (-1.0, -0.5)),)
    assert evaluated(Gigpo(weight=3.0), group(*trials)) == (((2.0, 0.5), (-2.0, -0.5)),)
    assert evaluated(Gigpo(weight=0.0), group(*trials)) == evaluated(Grpo(divide=False), group(*trials))


def test_gigpo_pools_states_over_episodes_or_not() -> None:
    trials = [[step(1.0), step(3.0, episode=1)], [step(0.0), step(4.0, episode=1)]]
    # Episode terms 1/2, -1/2 | -1/2, 1/2. Pooled mean of 1, 3, 0, 4 is 2: step terms -1, 1 | -2, 2.
    assert evaluated(Gigpo(), group(*trials)) == (((-0.5, 0.5), (-2.5, 2.5)),)
    # Apart, the step terms equal the episode terms.
    assert evaluated(Gigpo(anchors=Anchors.EPISODE), group(*trials)) == (((1.0, -1.0), (-1.0, 1.0)),)


def test_gigpo_reflections_share_one_anchor_and_moves_never_join_it() -> None:
    def trial(first: float, second: float) -> list[Step]:
        return [
            step(0.0, key="note"),
            step(first, phase=REFLECT, key="note"),
            step(second, episode=1, phase=REFLECT, key="note"),
        ]

    # Reflections 1, 3 | 0, 4 as the states above; the moves, though their key is the same, stay at 0.
    assert evaluated(Gigpo(), group(trial(1.0, 3.0), trial(0.0, 4.0))) == (((0.0, -0.5, 0.5), (0.0, -2.5, 2.5)),)


# PPO


def test_ppo_by_hand() -> None:
    steps = [step(1.0, discount=1.0, reward=0.0, value=0.5), step(1.0, turn=1, discount=0.0, reward=1.0, value=0.25)]
    # Surprises 0 + 1/4 - 1/2 = -1/4 and 1 - 1/4 = 3/4.
    assert evaluated(Ppo(lam=0.5), group(steps)) == (((-0.25 + 0.5 * 0.75, 0.75),),)
    assert evaluated(Ppo(lam=0.0), group(steps)) == (((-0.25, 0.75),),)
    assert evaluated(Ppo(lam=1.0), group(steps)) == (((0.5, 0.75),),)


def test_ppo_crosses_a_boundary_by_the_discount_of_the_step_before_it() -> None:
    def trial(discount: float) -> list[Step]:
        return [step(0.0, discount=discount, value=1.0), step(0.0, episode=1, reward=2.0, value=1.0)]

    # Surprise 1 after the boundary. Discount 1/2: 1/2 x 1 - 1 = -1/2, plus 1/2 x 1/2 x 1.
    assert evaluated(Ppo(lam=0.5), group(trial(0.5))) == (((-0.25, 1.0),),)
    assert evaluated(Ppo(lam=0.5), group(trial(0.0))) == (((-1.0, 1.0),),)


# By name


def test_estimators_are_built_from_plain_values() -> None:
    built = make_estimator("agent-specific", {"scale": "batch", "s_min": 1})
    assert built == AgentSpecific(scale=Scale.BATCH, s_min=1.0)
    assert make_estimator("gigpo", {"anchors": "episode"}) == Gigpo(anchors=Anchors.EPISODE)
    assert make_estimator("mine", {}, {**ESTIMATORS, "mine": Careless}) == Careless()


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "grop",
            {},
            r"unknown estimator 'grop'; did you mean grpo\? known: agent-specific, cloning, gigpo, .*, rloo",
        ),
        ("agent-specific", {"scale": "grup"}, r"Invalid enum value 'grup'.*scale=opponent\|group\|batch\|none"),
        ("agent-specific", {"skale": "group"}, "unknown field `skale`.*it takes scale="),
        ("agent-specific", {"s_min": 0.0}, "s_min"),
        ("ppo", {"lam": 1.5}, "'lam': 1.5.*<= 1.0.*lam=0.95"),
    ],
)
def test_what_cannot_be_built_is_said_in_one_line(name: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        make_estimator(name, parameters)
    assert "\n" not in str(error.value)
