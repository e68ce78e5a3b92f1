"""Who leads, and how many kinds of members there are: ratings and diversity on tables solved by hand."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mage.errors import ConfigError
from mage.league.members import learner
from mage.league.payoffs import MatchScore
from tests.leagued import anchor, league, snap


def test_learners_that_met_the_same_opponents_differ_by_their_mean_difference() -> None:
    made = league(
        [anchor("x"), anchor("y"), learner(0), learner(1)],
        {"learner-0": {"x": [1.0], "y": [0.5]}, "learner-1": {"x": [0.5], "y": [-0.5]}},
    )
    # Rows have means 0.75 and 0, columns 0.75 and 0; learners are 0.375 above the anchors; all sum to 0.
    assert made.ratings() == pytest.approx({"x": -0.5625, "y": 0.1875, "learner-0": 0.5625, "learner-1": -0.1875})
    assert made.leader().id == "learner-0"


def test_each_cell_counts_once_however_often_it_was_played() -> None:
    members = [anchor("x"), anchor("y"), learner(0)]
    few = league(members, {"learner-0": {"x": [1.0], "y": [0.0]}})
    many = league(members, {"learner-0": {"x": [1.0] * 50, "y": [0.0]}})
    assert many.ratings() == pytest.approx(few.ratings())


def test_both_sides_of_a_meeting_count() -> None:
    made = league([learner(0), learner(1)], {"learner-0": {"learner-1": [0.6]}, "learner-1": {"learner-0": [-0.4]}})
    assert made.ratings() == pytest.approx({"learner-0": 0.25, "learner-1": -0.25})


def test_a_chain_adds_up_and_strangers_stand_at_zero() -> None:
    made = league(
        [learner(0), learner(1), learner(2), snap(0, 1)],
        {"learner-0": {"learner-1": [0.3]}, "learner-1": {"learner-0@1": [0.6]}},
    )
    expected = {"learner-0": 0.4, "learner-1": 0.1, "learner-2": 0.0, "learner-0@1": -0.5}
    assert made.ratings() == pytest.approx(expected)


def test_parts_that_never_met_have_mean_zero_each() -> None:
    made = league(
        [anchor("x"), anchor("y"), learner(0), learner(1)], {"learner-0": {"x": [1.0]}, "learner-1": {"y": [2.0]}}
    )
    assert made.ratings() == pytest.approx({"x": -0.5, "y": -1.0, "learner-0": 0.5, "learner-1": 1.0})


def test_a_circle_leaves_everybody_equal_and_the_first_leads() -> None:
    circle = {f"learner-{i}": {f"learner-{(i + 1) % 3}": [1.0]} for i in range(3)}
    made = league([learner(i) for i in range(3)], circle)
    assert made.ratings() == pytest.approx({f"learner-{i}": 0.0 for i in range(3)}, abs=1e-12)


def test_before_any_result_the_first_learner_leads() -> None:
    assert league([anchor("x"), learner(0), learner(1)]).leader().id == "learner-0"


def test_the_retired_are_not_rated() -> None:
    made = league([learner(0), snap(0, 1)], {"learner-0": {"learner-0@1": [1.0]}}).retire(["learner-0@1"], 2)
    assert made.ratings() == {"learner-0": 0.0}
    late = [MatchScore("learner-0", "learner-0@1", 1.0), MatchScore("learner-9", "learner-0", 1.0)]
    assert made.with_results(late, 3, 8.0).ratings() == {"learner-0": 0.0}


def test_nobody_leads_a_league_without_learners() -> None:
    with pytest.raises(ConfigError, match="without learners has no leader"):
        league([anchor("x")]).leader()


@given(st.lists(st.integers(-8, 8), min_size=3, max_size=6))
def test_a_table_of_differences_gives_the_strengths_back(strengths: list[int]) -> None:
    names = [f"learner-{i}" for i in range(len(strengths))]
    scores = {
        a: {b: [(x - y) / 8] for b, y in zip(names, strengths, strict=True) if b != a}
        for a, x in zip(names, strengths, strict=True)
    }
    middle = sum(strengths) / len(strengths)
    expected = {name: (x - middle) / 8 for name, x in zip(names, strengths, strict=True)}
    assert league([learner(i) for i in range(len(names))], scores).ratings() == pytest.approx(expected, abs=1e-9)


def test_members_that_pay_alike_are_one() -> None:
    made = league([anchor("x"), anchor("y"), learner(0)], {"learner-0": {"x": [0.5], "y": [0.5]}})
    assert made.diversity() == pytest.approx(1.0)


def test_members_half_alike_are_four_thirds() -> None:
    made = league([anchor("x"), anchor("y"), learner(0)], {"learner-0": {"x": [0.0], "y": [0.7]}})
    assert made.diversity(alike=0.7 / log(2)) == pytest.approx(4 / 3)


def test_two_alike_and_one_that_cannot_be_compared() -> None:
    made = league(
        [anchor("x"), anchor("y"), anchor("z"), learner(0), learner(1)],
        {"learner-0": {"x": [0.5], "y": [0.5]}, "learner-1": {"z": [0.5]}},
    )
    assert made.diversity() == pytest.approx((27 / 4) ** (1 / 3))


def test_who_was_never_met_does_not_count() -> None:
    assert league([anchor("x"), learner(0)]).diversity() == 0.0
    assert league([anchor("x"), anchor("y"), learner(0)], {"learner-0": {"x": [1.0]}}).diversity() == 1.0


@given(st.lists(st.lists(st.integers(-8, 8), min_size=2, max_size=2), min_size=1, max_size=6))
def test_diversity_lies_between_one_and_the_number_of_members(columns: list[list[int]]) -> None:
    names = [f"anchor-{i}" for i in range(len(columns))]
    scores = {
        f"learner-{row}": {name: [column[row] / 8] for name, column in zip(names, columns, strict=True)}
        for row in range(2)
    }
    made = league([*map(anchor, names), learner(0), learner(1)], scores)
    assert 1.0 - 1e-9 <= made.diversity() <= len(columns) + 1e-9
    assert made.diversity(alike=1e-6) == pytest.approx(_distinct(columns), abs=1e-6)


def _distinct(columns: list[list[int]]) -> float:
    """Without likeness between different ones, exp of the entropy of how often each column occurs."""
    num = len(columns)
    product = 1.0
    for column in columns:
        product *= (num / columns.count(column)) ** (1 / num)
    return product
