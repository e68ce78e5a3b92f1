"""Eviction on tables worked by hand: what pays alike goes, families stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mage.errors import ConfigError
from mage.league.eviction import choose_evictions
from mage.league.members import MemberKind, learner
from mage.league.state import League
from tests.leagued import anchor, league, snap


def pool(columns: dict[tuple[int, int], list[float]], num_learners: int = 2) -> League:
    """Snapshots by learner and step, each with what learner-0, learner-1 … score against it."""
    members = [snap(*born) for born in columns]
    scores = {
        f"learner-{row}": {m.id: [column[row]] for m, column in zip(members, columns.values(), strict=True)}
        for row in range(num_learners)
    }
    return league([anchor("copy"), *map(learner, range(num_learners)), *members], scores)


FOUR = pool({(0, 10): [0.0, 0.0], (0, 20): [1.0, 1.0], (0, 30): [0.9, 0.9], (0, 40): [0.0, 0.3]})
"""20 and 30 are 0.1 apart, 10 and 40 sqrt(0.09 / 2) = 0.212; all others at least 0.6."""


def test_the_older_of_the_nearest_two_goes_again_and_again() -> None:
    assert choose_evictions(FOUR, 3) == [("learner-0@20", "pays like learner-0@30 (0.100 apart), which is younger")]
    assert choose_evictions(FOUR, 2) == [
        ("learner-0@20", "pays like learner-0@30 (0.100 apart), which is younger"),
        ("learner-0@10", "pays like learner-0@40 (0.212 apart), which is younger"),
    ]
    assert [name for name, _ in choose_evictions(FOUR, 1)] == ["learner-0@20", "learner-0@10", "learner-0@30"]


def test_nobody_goes_while_there_is_room() -> None:
    assert choose_evictions(FOUR, 4) == []
    assert choose_evictions(league([learner(0)]), 0) == []


def test_the_last_of_a_family_stays_whatever_the_number() -> None:
    assert len(choose_evictions(FOUR, 0)) == 3
    made = pool({(0, 10): [0.0, 0.0], (1, 10): [0.0, 0.0]})
    assert choose_evictions(made, 0) == []
    assert choose_evictions(made, 1) == []


def test_the_younger_goes_where_the_older_is_the_last_of_its_family() -> None:
    made = pool({(0, 10): [0.0, 0.0], (1, 20): [0.1, 0.1], (1, 30): [0.8, 0.8]})
    assert choose_evictions(made, 2) == [
        ("learner-1@20", "pays like learner-0@10 (0.100 apart), which is older but the last of learner-0")
    ]


def test_a_pair_of_last_ones_is_passed_over() -> None:
    made = pool({(0, 10): [0.0, 0.0], (1, 10): [0.0, 0.0], (2, 10): [0.5, 0.5], (2, 20): [0.9, 0.9]})
    assert [name for name, _ in choose_evictions(made, 3)] == ["learner-2@10"]


def test_among_equals_the_earliest_born_goes() -> None:
    made = pool({(0, 30): [0.5, 0.5], (0, 5): [0.5, 0.5], (0, 20): [0.5, 0.5]})
    assert [name for name, _ in choose_evictions(made, 1)] == ["learner-0@5", "learner-0@20"]


def test_those_that_cannot_be_compared_go_last_and_by_age() -> None:
    made = league(
        [learner(0), snap(0, 10), snap(0, 20), snap(0, 30)],
        {"learner-0": {"learner-0@20": [1.0], "learner-0@30": [-1.0]}},
    )
    assert choose_evictions(made, 1) == [
        ("learner-0@20", "pays like learner-0@30 (2.000 apart), which is younger"),
        ("learner-0@10", "no learner met learner-0@30 too, which is younger"),
    ]


def test_those_that_have_just_been_born_are_spared_while_others_can_go() -> None:
    made = pool({(0, 10): [0.0, 0.9], (1, 10): [0.9, 0.0], (0, 20): [0.5, 0.5], (1, 20): [0.5, 0.5]})
    assert [name for name, _ in choose_evictions(made, 3)] == ["learner-0@10"]
    young = pool({(0, 10): [1.0, 1.0], (0, 20): [0.5, 0.5], (1, 20): [0.5, 0.5], (1, 10): [-1.0, -1.0]})
    left = young.retire(["learner-0@10", "learner-1@10"], 20)
    assert choose_evictions(left, 1) == []  # each is the last of its family


def test_two_of_one_age_say_so() -> None:
    made = pool({(0, 10): [0.0, 0.9], (1, 10): [0.1, 0.9], (1, 20): [-1.0, -1.0], (0, 20): [1.0, 1.0]})
    assert choose_evictions(made, 3) == [("learner-0@10", "pays like learner-1@10 (0.071 apart), which is as old")]


def test_the_retired_are_gone_already() -> None:
    left = FOUR.retire(["learner-0@20"], 50)
    assert choose_evictions(left, 3) == []
    assert [name for name, _ in choose_evictions(left, 2)] == ["learner-0@10"]


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most -1 snapshots: takes 0 or more"):
        choose_evictions(FOUR, -1)


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 2), st.integers(1, 5)),
        st.lists(st.integers(-4, 4).map(lambda n: n / 4), min_size=3, max_size=3),
        max_size=9,
    ),
    st.integers(0, 6),
)
def test_what_stays_is_few_and_of_every_family(columns: dict[tuple[int, int], list[float]], most: int) -> None:
    made = pool(columns, 3)
    leaving = [name for name, _ in choose_evictions(made, most)]
    left = made.retire(leaving, 9)
    families = {m.family for m in made.snapshots}
    assert {m.family for m in left.snapshots} == families
    assert len(left.snapshots) == min(len(made.snapshots), max(most, len(families)))
    assert all(made.member(name).kind is MemberKind.SNAPSHOT for name in leaving)
    assert choose_evictions(left, most) == []
