"""Returns to go: what was settled before a turn is left out, and nothing else."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.credit.returns import Returns, ReturnSpec, trial_returns
from mage.errors import ConfigError
from mage.types import Objective

numbers = st.integers(-8, 8).map(float)
played = st.lists(st.lists(numbers, min_size=0, max_size=3), min_size=1, max_size=4)
alike = st.integers(1, 3).flatmap(
    lambda num: st.lists(st.lists(numbers, min_size=num, max_size=num), min_size=1, max_size=4)
)
"""Rewards of trials whose episodes all have the same number of turns."""
shares = st.sampled_from([0.0, 0.25, 0.6, 1.0])


def returns(
    rewards: list[list[float]], return_spec: ReturnSpec, *, to_go: bool, num_episodes: int | None = None
) -> Returns:
    scores = [sum(turns) for turns in rewards]
    return trial_returns(rewards, scores, msgspec.structs.replace(return_spec, to_go=to_go), num_episodes)


def stopped(rewards: list[list[float]], episode: int, turn: int) -> list[list[float]]:
    """The same trial if nothing more were won from a turn on."""
    return [[r if (k, i) < (episode, turn) else 0.0 for i, r in enumerate(turns)] for k, turns in enumerate(rewards)]


@settings(deadline=None)
@given(alike, st.sampled_from(Objective), shares, shares)
def test_what_is_left_out_is_what_would_be_paid_if_nothing_more_were_won(
    rewards: list[list[float]], objective: Objective, turn: float, episode: float
) -> None:
    return_spec = ReturnSpec(objective, turn, episode, turns=len(rewards[0]))
    whole, to_go = returns(rewards, return_spec, to_go=False), returns(rewards, return_spec, to_go=True)
    for k, turns in enumerate(rewards):
        for i in range(len(turns)):
            settled = returns(stopped(rewards, k, i), return_spec, to_go=False).plays[k][i]
            assert to_go.plays[k][i] == pytest.approx(whole.plays[k][i] - settled)
        settled = returns(stopped(rewards, k, 0), return_spec, to_go=False).starts[k]
        assert to_go.starts[k] == pytest.approx(whole.starts[k] - settled)


@settings(deadline=None)
@given(played, st.sampled_from([Objective.SINGLE, Objective.CUMULATIVE, Objective.CUMULATIVE_PAPER]), shares, shares)
def test_objectives_that_pay_for_nothing_settled_are_left_as_they_are(
    rewards: list[list[float]], objective: Objective, turn: float, episode: float
) -> None:
    return_spec = ReturnSpec(objective, turn, episode)
    assert returns(rewards, return_spec, to_go=True) == returns(rewards, return_spec, to_go=False)


@settings(deadline=None)
@given(played.filter(all), st.data(), st.sampled_from([Objective.DIFFERENTIAL, Objective.FINAL]), shares, shares)
def test_what_is_left_out_depends_on_the_past_alone(
    rewards: list[list[float]], data: st.DataObject, objective: Objective, turn: float, episode: float
) -> None:
    """Two trials that are the same before a turn, and then differ in rewards, lengths and an early stop."""
    k = data.draw(st.integers(0, len(rewards) - 1))
    i = data.draw(st.integers(0, len(rewards[k]) - 1))
    other = [*rewards[:k], [*rewards[k][:i], *data.draw(st.lists(numbers, min_size=1, max_size=3))]]
    other += data.draw(st.lists(st.lists(numbers, min_size=0, max_size=3), max_size=3))
    return_spec = ReturnSpec(objective, turn, episode)
    left_out: list[float] = []
    for trial in (rewards, other):
        whole, rest = (returns(trial, return_spec, to_go=to_go, num_episodes=7) for to_go in (False, True))
        left_out += [whole.plays[k][i] - rest.plays[k][i]]
    assert left_out[0] == pytest.approx(left_out[1])


def test_improvement_by_hand() -> None:
    """Scores 2 (1 + 1), then 5 (3 + 2), discounts 1/2 across, 1 inside.

    Episode 2 pays 5 - 2 = 3 to both turns; of it 2 - 2 is settled before the second turn won its 2, and -2 before the
    first. Episode 1 pays 2 + 1/2 x 3 = 3.5; its second turn finds 1 settled, which the next episode would lose again by
    half: 1 - 1/2.
    """
    return_spec = ReturnSpec(Objective.DIFFERENTIAL, 1.0, 0.5)
    rewards = [[1.0, 1.0], [3.0, 2.0]]
    assert returns(rewards, return_spec, to_go=False) == Returns([[3.5, 3.5], [3.0, 3.0]], [3.5, 3.0])
    assert returns(rewards, return_spec, to_go=True) == Returns([[3.5, 3.0], [5.0, 2.0]], [3.5, 5.0])


def test_final_to_go_is_the_last_episodes_rewards_to_go() -> None:
    return_spec = ReturnSpec(Objective.FINAL, 1.0, 1.0)
    assert returns([[1.0], [3.0, 2.0]], return_spec, to_go=True) == Returns([[5.0], [5.0, 2.0]], [5.0, 5.0])


@settings(deadline=None)
@given(alike, st.data())
def test_the_past_of_a_trial_moves_no_return_of_its_future(rewards: list[list[float]], data: st.DataObject) -> None:
    """With returns to go, and episodes of equal length, siblings that differ in an earlier episode alone are equal from
    there on."""
    other = [data.draw(st.lists(numbers, min_size=len(rewards[0]), max_size=len(rewards[0]))), *rewards[1:]]
    return_spec = ReturnSpec(Objective.DIFFERENTIAL, 0.95, 0.6)
    mine, theirs = returns(rewards, return_spec, to_go=True), returns(other, return_spec, to_go=True)
    for turns, others in zip(mine.plays[1:], theirs.plays[1:], strict=True):
        assert turns == pytest.approx(others)


def test_a_discount_out_of_range_is_still_refused() -> None:
    with pytest.raises(ConfigError, match="discount turn = 2"):
        ReturnSpec(Objective.DIFFERENTIAL, 2.0, 0.5, to_go=True)
