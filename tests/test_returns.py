"""Returns under the five objectives: golden vectors, cases worked by hand, and an independent backward loop."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.credit.returns import ReturnSpec, discounted, trial_returns
from mage.errors import ConfigError
from mage.types import Objective

LOSS, WIN = [0.0, 0.0, -10.0], [0.0, 0.0, 10.0]
HALF = 0.5


def returns(
    objective: Objective, rewards: list[list[float]], scores: list[float] | None = None, turn: float = HALF
) -> list[list[float]]:
    scores = [sum(turns) for turns in rewards] if scores is None else scores
    return trial_returns(rewards, scores, ReturnSpec(objective, turn, HALF)).plays


GOLDEN = {
    Objective.CUMULATIVE: (
        [[-11.27, -11.86, -12.48], [-4.14, -4.36, -4.59], [9.03, 9.50, 10.00]],
        [-4.14, 9.03],
        0.0051,
    ),
    Objective.CUMULATIVE_PAPER: (
        [[-11.191, -11.666, -12.166], [-3.610, -4.085, -4.585], [9.025, 9.5, 10.0]],
        [-3.610, 9.025],
        1e-9,
    ),
    Objective.DIFFERENTIAL: (
        [[-3.73, -3.93, -4.14], [9.77, 10.29, 10.83], [18.05, 19.00, 20.00]],
        [9.77, 18.05],
        0.0051,
    ),
    # Each episode alone: 10 x 0.95^2, 10 x 0.95, 10.
    Objective.SINGLE: ([[-9.025, -9.5, -10.0], [-9.025, -9.5, -10.0], [9.025, 9.5, 10.0]], [-9.025, 9.025], 1e-9),
    Objective.FINAL: ([[10.0] * 3] * 3, [10.0, 10.0], 0.0),
}


@pytest.mark.parametrize("objective", Objective)
def test_loss_loss_win_with_the_papers_discounts(objective: Objective) -> None:
    plays, reflections, within = GOLDEN[objective]
    found = trial_returns([LOSS, LOSS, WIN], [-10.0, -10.0, 10.0], ReturnSpec(objective, 0.95, 0.6))
    for turns, expected in zip(found.plays, plays, strict=True):
        assert turns == pytest.approx(expected, abs=within)
    assert found.starts[1:] == pytest.approx(reflections, abs=within)


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        (Objective.SINGLE, (1.0, 0.0, 0.0)),
        (Objective.CUMULATIVE, (1.0, 0.6, 0.36)),
        (Objective.CUMULATIVE_PAPER, (1.0, 0.6, 0.36)),
        (Objective.DIFFERENTIAL, (0.40, 0.24, 0.36)),
        (Objective.FINAL, (0.0, 0.0, 1.0)),
    ],
)
def test_what_each_score_weighs_in_the_first_turn(objective: Objective, expected: tuple[float, ...]) -> None:
    for index, weight in enumerate(expected):
        scores = [float(index == k) for k in range(3)]
        found = trial_returns([[0.0, s] for s in scores], scores, ReturnSpec(objective, 1.0, 0.6))
        assert found.plays[0][0] == pytest.approx(weight)


def test_undiscounted_improvement_is_the_final_score_less_what_was_reached_before() -> None:
    found = trial_returns([[3.0], [5.0], [4.0]], [3.0, 5.0, 4.0], ReturnSpec(Objective.DIFFERENTIAL, 1.0, 1.0))
    # R_2 = 4; R_2 - R_0 = 1; R_2 - R_1 = -1: not `final`, even without discounts.
    assert found.plays == [[4.0], [1.0], [-1.0]]


def test_cumulative_takes_turn_rewards_as_they_are_paid() -> None:
    # Episode 1: 1 + 1/2 x 1 = 1.5, 1. Episode 0: -1 + 1/2 x 1.5 = -0.25, then 1 + 1/2 x -0.25 = 0.875.
    assert returns(Objective.CUMULATIVE, [[1.0, -1.0], [1.0, 1.0]]) == [[0.875, -0.25], [1.5, 1.0]]
    # The paper: own 1 - 1/2 = 0.5 and -1, each plus 1/2 x 1.5.
    assert returns(Objective.CUMULATIVE_PAPER, [[1.0, -1.0], [1.0, 1.0]]) == [[1.25, -0.25], [1.5, 1.0]]
    assert returns(Objective.SINGLE, [[1.0, -1.0], [1.0, 1.0]]) == [[0.5, -1.0], [1.5, 1.0]]


def test_differential_and_final_pay_at_the_end_whatever_was_paid_midway() -> None:
    # Scores 0 and 2, so d = (0, 2). Episode 1: 1/2 x 2 = 1, 2. Episode 0: 1/2 x 1 = 0.5, then 0.25.
    assert returns(Objective.DIFFERENTIAL, [[1.0, -1.0], [1.0, 1.0]]) == [[0.25, 0.5], [1.0, 2.0]]
    assert returns(Objective.FINAL, [[1.0, -1.0], [1.0, 1.0]]) == [[2.0, 2.0], [2.0, 2.0]]


def test_an_early_stop_ends_the_trial_where_it_was_stopped() -> None:
    played = [[-1.0], [1.0]]  # of three episodes; the second was won
    assert returns(Objective.SINGLE, played) == [[-1.0], [1.0]]
    assert returns(Objective.CUMULATIVE, played) == [[-0.5], [1.0]]
    assert returns(Objective.DIFFERENTIAL, played) == [[0.0], [2.0]]
    assert returns(Objective.FINAL, played) == [[1.0], [1.0]]


def test_episodes_of_unequal_length() -> None:
    # One turn, then three: the boundary costs one episode discount, whatever the lengths.
    # Episode 1: 0.25 x 4 = 1, 2, 4. Episode 0: 2 + 1/2 x 1.
    assert returns(Objective.CUMULATIVE, [[2.0], [0.0, 0.0, 4.0]]) == [[2.5], [1.0, 2.0, 4.0]]
    # d = (4, -2). Episode 1: -2. Episode 0: 4 - 1 = 3, 1.5, 0.75.
    assert returns(Objective.DIFFERENTIAL, [[0.0, 0.0, 4.0], [2.0]]) == [[0.75, 1.5, 3.0], [-2.0]]


@pytest.mark.parametrize("objective", [o for o in Objective if o is not Objective.FINAL])
def test_one_episode_has_nothing_to_cross(objective: Objective) -> None:
    assert returns(objective, [[0.0, 0.0, 4.0]]) == [[1.0, 2.0, 4.0]]


def test_one_episode_under_final_is_its_score_on_every_turn() -> None:
    assert returns(Objective.FINAL, [[1.0, 0.0, 3.0]]) == [[4.0, 4.0, 4.0]]


@pytest.mark.parametrize(
    ("objective", "plays", "starts"),
    [
        (Objective.SINGLE, [[2.0], [], [8.0]], [2.0, 4.0, 8.0]),
        # 8; the turn nobody made: 4 + 1/2 x 8 = 8; 2 + 1/2 x 8 = 6.
        (Objective.CUMULATIVE, [[6.0], [], [8.0]], [6.0, 8.0, 8.0]),
        (Objective.CUMULATIVE_PAPER, [[6.0], [], [8.0]], [6.0, 8.0, 8.0]),
        # d = (2, 2, 4): 4; 2 + 2 = 4; 2 + 2 = 4.
        (Objective.DIFFERENTIAL, [[4.0], [], [4.0]], [4.0, 4.0, 4.0]),
        (Objective.FINAL, [[8.0], [], [8.0]], [8.0, 8.0, 8.0]),
    ],
)
def test_an_episode_without_a_turn_still_counts(
    objective: Objective, plays: list[list[float]], starts: list[float]
) -> None:
    found = trial_returns([[2.0], [], [8.0]], [2.0, 4.0, 8.0], ReturnSpec(objective, HALF, HALF))
    assert (found.plays, found.starts) == (plays, starts)


def test_a_first_or_last_episode_without_a_turn() -> None:
    # Nobody acted before episode 0, but episode 1 is measured against its score.
    assert returns(Objective.DIFFERENTIAL, [[], [3.0]], [1.0, 3.0]) == [[], [2.0]]
    assert returns(Objective.CUMULATIVE, [[1.0], []], [1.0, 5.0]) == [[3.5], []]
    assert returns(Objective.DIFFERENTIAL, [[1.0], []], [1.0, 5.0]) == [[3.0], []]
    assert returns(Objective.FINAL, [[1.0], []], [1.0, 5.0]) == [[5.0], []]
    assert returns(Objective.SINGLE, [[1.0], []], [1.0, 5.0]) == [[1.0], []]


@pytest.mark.parametrize("objective", Objective)
def test_a_trial_without_episodes_has_no_returns(objective: Objective) -> None:
    assert returns(objective, []) == []


amounts = st.integers(-20, 20).map(lambda n: n / 4)
share = st.sampled_from([0.0, 0.5, 0.6, 0.95, 1.0])


@settings(deadline=None)
@given(st.lists(st.lists(amounts, min_size=1, max_size=4), min_size=1, max_size=4), share, share)
def test_the_recursion_as_the_papers_write_it(rewards: list[list[float]], turn: float, episode: float) -> None:
    """Backwards over the seat's turns, branch by branch: what the formula must equal."""
    scores = [sum(turns) for turns in rewards]
    paid = [[0.0] * (len(turns) - 1) + [s - b] for turns, s, b in zip(rewards, scores, [0.0, *scores], strict=False)]
    for objective, stream in ((Objective.CUMULATIVE, rewards), (Objective.DIFFERENTIAL, paid)):
        expected: list[list[float]] = []
        for turns in reversed(stream):
            found: list[float] = []
            for reward in reversed(turns):
                if found:
                    found.insert(0, reward + turn * found[0])
                else:
                    found.insert(0, reward + episode * expected[0][0] if expected else reward)
            expected.insert(0, found)
        got = trial_returns(rewards, scores, ReturnSpec(objective, turn, episode))
        for mine, theirs in zip(got.plays, expected, strict=True):
            assert mine == pytest.approx(theirs, abs=1e-9)
        assert got.starts == pytest.approx([turns[0] for turns in expected], abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.lists(amounts, min_size=1, max_size=3), min_size=1, max_size=4), amounts)
def test_returns_are_linear_in_what_was_paid(rewards: list[list[float]], factor: float) -> None:
    for objective in Objective:
        once = returns(objective, rewards)
        scaled = returns(objective, [[factor * r for r in turns] for turns in rewards])
        for mine, theirs in zip(scaled, once, strict=True):
            assert mine == pytest.approx([factor * r for r in theirs], abs=1e-9)


def test_discounted_ignores_the_discount_of_the_last() -> None:
    assert discounted([1.0, 1.0], [0.5, 123.0]) == [1.5, 1.0]
    assert discounted([], []) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"turn": 1.5}, "discount turn = 1.5: allowed are 0 to 1"),
        ({"episode": -0.1}, "discount episode = -0.1"),
        ({"turn": float("nan")}, "discount turn = nan"),
        ({"invalid": -0.5}, "penalty invalid = -0.5: allowed are numbers from 0; it is subtracted"),
        ({"overlong": float("inf")}, "penalty overlong = inf"),
        ({"length": -0.1}, "penalty length = -0.1"),
    ],
)
def test_a_goal_that_makes_no_sense_is_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ReturnSpec(**{"objective": Objective.FINAL, "turn": 1.0, "episode": 1.0, **values})  # type: ignore[arg-type]
