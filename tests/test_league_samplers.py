"""Samplers against distributions worked by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.errors import ConfigError
from mage.league.members import learner
from mage.league.payoffs import MatchScore
from mage.league.samplers import NAMES, PLAIN, Anchored, draw_member, make_sampler, meta_strategy
from mage.league.state import League
from tests.leagued import anchor, league, snap
from tests.tree import ROOT

Options = Mapping[str, bool | int | float | str]
X, Y, Z, ZERO, ONE = anchor("x"), anchor("y"), anchor("z"), learner(0), learner(1)


def odds(made: League, name: str, options: Options, who: str = "learner-0", itself: bool = False) -> dict[str, float]:
    return make_sampler(name, options).odds(made, who, made.opponents_of(who, with_itself=itself))


def test_uniform_is_the_same_for_all() -> None:
    made = league([X, Y, ZERO, ONE], {"learner-0": {"x": [1.0]}})
    assert odds(made, "uniform", {}) == pytest.approx({"x": 1 / 3, "y": 1 / 3, "learner-1": 1 / 3})


def test_weighted_follows_the_weights_of_members() -> None:
    made = league([anchor("x", 3.0), anchor("y", 0.5), ZERO, ONE, snap(0, 1)])
    expected = {"x": 6 / 11, "y": 1 / 11, "learner-1": 2 / 11, "learner-0@1": 2 / 11}
    assert odds(made, "weighted", {}) == pytest.approx(expected)


SEEN = league([X, Y, Z, ZERO], {"learner-0": {"x": [1.0, 1.0, 1.0], "y": [0.0]}})
"""With one observation of prior: hard p = 3/4, 1/4, 0; even p = 7/8, 1/2, 1/2."""


def test_hard_opponents_come_first_and_the_unseen_before_all() -> None:
    assert odds(SEEN, "prioritised", {"floor": 0.0}) == pytest.approx({"x": 1 / 26, "y": 9 / 26, "z": 16 / 26})
    assert odds(SEEN, "prioritised", {"floor": 0.0, "power": 1.0}) == pytest.approx(
        {"x": 1 / 8, "y": 3 / 8, "z": 4 / 8}
    )
    assert odds(SEEN, "prioritised", {"floor": 0.0, "power": 0.0}) == pytest.approx(
        {"x": 1 / 3, "y": 1 / 3, "z": 1 / 3}
    )


def test_even_opponents_come_first() -> None:
    expected = {"x": 7 / 39, "y": 16 / 39, "z": 16 / 39}
    assert odds(SEEN, "prioritised", {"kind": "even", "floor": 0.0}) == pytest.approx(expected)


def test_the_floor_is_spread_evenly() -> None:
    expected = {name: 0.7 * odd + 0.1 for name, odd in {"x": 1 / 26, "y": 9 / 26, "z": 16 / 26}.items()}
    assert odds(SEEN, "prioritised", {"floor": 0.3}) == pytest.approx(expected)


def test_more_prior_draws_further_to_the_first_guess() -> None:
    # p of x is 3/6, p of y 0.5/4, p of z 0; power 1.
    expected = {"x": 4 / 19, "y": 7 / 19, "z": 8 / 19}
    assert odds(SEEN, "prioritised", {"floor": 0.0, "power": 1.0, "prior": 3.0}) == pytest.approx(expected)


def test_the_score_range_is_the_games() -> None:
    made = league([X, Y, ZERO], {"learner-0": {"x": [2.0], "y": [-2.0]}})
    sampler = make_sampler("prioritised", {"floor": 0.0, "power": 1.0}, score_range=(-2.0, 2.0))
    assert sampler.odds(made, "learner-0", (X, Y)) == pytest.approx({"x": 1 / 3, "y": 2 / 3})
    clipped = make_sampler("prioritised", {"floor": 0.0, "power": 1.0, "highest": 1.0}, score_range=(-2.0, 2.0))
    assert clipped.odds(made, "learner-0", (X, Y)) == pytest.approx({"x": 1 / 3, "y": 2 / 3})


def test_where_nobody_has_priority_all_are_alike() -> None:
    made = league([X, Y, ZERO], {"learner-0": {"x": [1.0] * 2, "y": [1.0] * 3}})
    # (1 - p) is 1/3 and 1/4, and nothing is left of either to the power of a million.
    assert odds(made, "prioritised", {"power": 1e6, "floor": 0.0}) == {"x": 0.5, "y": 0.5}


def test_a_learner_is_its_own_equal() -> None:
    made = league([X, ZERO], {"learner-0": {"x": [1.0]}})
    expected = {"x": 1 / 2, "learner-0": 1 / 2}  # p of x is (1 + 0) / 2
    assert odds(made, "prioritised", {"floor": 0.0}, itself=True) == pytest.approx(expected)


def test_rows_of_other_learners_do_not_matter_to_priorities() -> None:
    made = league([X, Y, ZERO, ONE], {"learner-1": {"x": [-1.0], "y": [1.0]}, "learner-0": {"x": [1.0], "y": [1.0]}})
    found = make_sampler("prioritised", {}).odds(made, "learner-0", (X, Y))
    assert found == {"x": 0.5, "y": 0.5}


def test_anchors_have_their_share_and_the_inner_sampler_the_rest() -> None:
    made = league([X, Y, ZERO, ONE, snap(0, 1)], {"learner-0": {"learner-1": [1.0], "learner-0@1": [-1.0]}})
    options: Options = {"share": 0.25, "inner": "prioritised", "power": 1.0, "floor": 0.0}
    # Among the others p is 1/2 and 0: a third and two thirds of what is left.
    expected = {"x": 0.125, "y": 0.125, "learner-1": 0.25, "learner-0@1": 0.5}
    found = odds(made, "anchored", options)
    assert found == pytest.approx(expected)
    assert list(found) == [m.id for m in made.opponents_of("learner-0")]


def test_anchors_alone_or_others_alone_have_it_all() -> None:
    assert odds(league([X, Y, ZERO]), "anchored", {}) == {"x": 0.5, "y": 0.5}
    assert odds(league([ZERO, ONE, snap(0, 1)]), "anchored", {"inner": "uniform"}) == {
        "learner-1": 0.5,
        "learner-0@1": 0.5,
    }


@pytest.mark.parametrize("name", NAMES)
def test_nobody_to_meet_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match="learner-0 has no opponents to draw"):
        odds(league([ZERO]), name, {})


def test_weights_of_zero_are_nobody() -> None:
    with pytest.raises(ConfigError, match=r"no opponents to draw: their weights are \{'x': 0.0\}"):
        odds(league([anchor("x", 0.0), ZERO]), "weighted", {})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("best", {}, "unknown sampler 'best'; known: anchored, prioritised, psro, uniform, weighted"),
        ("uniform", {"floor": 0.1}, "sampler 'uniform' with {'floor': 0.1}: .*it takes no options"),
        ("prioritised", {"kind": "soft"}, "Invalid enum value 'soft'.*it takes kind=hard|even, power=2.0"),
        ("prioritised", {"floor": 2.0}, "`float` <= 1"),
        ("prioritised", {"lowest": 1.0}, "scores from 1.0 to 1.0: the lowest must be under the highest"),
        ("psro", {"iterations": 0}, "`int` >= 1.*it takes floor=0.2, iterations=200"),
        ("anchored", {"share": -0.5}, "sampler 'anchored' .* it takes share=0.25, inner=prioritised"),
        ("anchored", {"inner": "anchored"}, "unknown inner sampler of anchored 'anchored'; known: prioritised"),
        (
            "anchored",
            {"inner": "uniform", "power": 1.0},
            "sampler 'uniform' with {'power': 1.0}: .*it takes no options",
        ),
    ],
)
def test_what_cannot_be_used_is_one_line(name: str, options: Options, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make_sampler(name, options)
    text = str(raised.value)
    position = 0
    for piece in message.split(".*"):
        position = text.index(piece, position)
    assert "\n" not in text


def test_members_are_drawn_by_their_odds() -> None:
    points = [0.0, 0.24, 0.26, 0.99]
    assert [draw_member({"a": 0.25, "b": 0.0, "c": 0.75}, p) for p in points] == ["a", "a", "c", "c"]


RPS = {"x": (0.0, 1.0, -1.0), "y": (-1.0, 0.0, 1.0), "z": (1.0, -1.0, 0.0)}
"""What each of three learners, who play rock, paper and scissors, scores against rock, paper and scissors."""


def pure(columns: Mapping[str, tuple[float, ...]]) -> League:
    num = len(next(iter(columns.values())))
    scores = {f"learner-{i}": {name: [column[i]] for name, column in columns.items()} for i in range(num)}
    return league([*map(anchor, columns), *(learner(i) for i in range(num))], scores)


def meta(made: League, options: Options) -> dict[str, float]:
    return make_sampler("psro", options).odds(made, "learner-0", made.anchors)


def test_rock_paper_scissors_is_met_evenly() -> None:
    assert meta(pure(RPS), {"floor": 0.0}) == pytest.approx({"x": 1 / 3, "y": 1 / 3, "z": 1 / 3})


def test_a_circle_with_unequal_stakes_is_met_by_its_equilibrium() -> None:
    columns = {"x": (0.0, 1.0, -2.0), "y": (-1.0, 0.0, 1.0), "z": (2.0, -1.0, 0.0)}
    found = meta(pure(columns), {"floor": 0.0, "iterations": 2000})
    assert found == pytest.approx({"x": 1 / 4, "y": 1 / 2, "z": 1 / 4}, abs=0.005)


RECTANGLE = {"x": (1.0, -1.0), "y": (-1.0, 1.0), "z": (0.5, 0.5)}
"""Against x and y in equal parts no learner scores above 0; z pays them 1/2."""


def test_who_only_pays_is_not_met_beyond_the_floor() -> None:
    assert meta(pure(RECTANGLE), {"floor": 0.0}) == pytest.approx({"x": 0.5, "y": 0.5, "z": 0.0}, abs=0.01)
    assert meta(pure(RECTANGLE), {"floor": 0.3}) == pytest.approx({"x": 0.45, "y": 0.45, "z": 0.1}, abs=0.01)


def test_who_has_not_been_met_by_all_keeps_an_even_share() -> None:
    full = pure(RECTANGLE)
    made = League((*full.anchors, anchor("w"), *full.learners), full.payoffs, {}, {})
    made = made.with_results([MatchScore("learner-0", "w", -1.0)], 1, 8.0)
    expected = {"x": 0.3375, "y": 0.3375, "z": 0.075, "w": 0.25}
    assert meta(made, {"floor": 0.3}) == pytest.approx(expected, abs=0.01)


def test_an_empty_table_is_met_evenly() -> None:
    assert meta(league([X, Y, ZERO]), {}) == {"x": 0.5, "y": 0.5}


def test_learners_among_each_other_stand_at_the_middle_of_the_range() -> None:
    """Columns are (0, 0.4) for learner-0 and (-0.4, 0) for learner-1, who is the better one and met alone."""
    made = league([ZERO, ONE], {"learner-0": {"learner-1": [-0.4]}, "learner-1": {"learner-0": [0.4]}})
    found = make_sampler("psro", {"floor": 0.0}).odds(made, "learner-0", made.present)
    assert found == pytest.approx({"learner-0": 0.0, "learner-1": 1.0}, abs=0.01)
    # With 2 in the middle the game is ((2, -0.4), (0.4, 2)): 2.4 q - 0.4 = 2 - 1.6 q.
    shifted = make_sampler("psro", {"floor": 0.0}, score_range=(0.0, 4.0)).odds(made, "learner-0", made.present)
    assert shifted == pytest.approx({"learner-0": 0.6, "learner-1": 0.4}, abs=0.01)


def test_an_equilibrium_holds_the_learners_down() -> None:
    """Against the mixture no learner scores more than the value of the game, 101/1160 at (49, 59, 8, 0)/116."""
    rows = ((0.3, -0.2, 0.9, 0.1), (-0.5, 0.6, -0.1, 0.2), (0.2, 0.1, -0.7, 0.4))
    columns = meta_strategy(rows, 500)
    assert columns == pytest.approx((49 / 116, 59 / 116, 8 / 116, 0.0), abs=0.005)
    highest = max(sum(a * b for a, b in zip(row, columns, strict=True)) for row in rows)
    assert highest == pytest.approx(101 / 1160, abs=0.002)


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(NAMES),
    st.integers(0, 3),
    st.integers(1, 3),
    st.dictionaries(
        st.tuples(st.integers(0, 2), st.sampled_from(["a0", "a1", "a2", "learner-0", "learner-1", "learner-0@1"])),
        st.lists(st.integers(-4, 4).map(lambda n: n / 4), min_size=1, max_size=4),
        max_size=12,
    ),
)
def test_odds_are_odds(
    name: str, num_anchors: int, num_learners: int, seen: dict[tuple[int, str], list[float]]
) -> None:
    scores: dict[str, dict[str, list[float]]] = {}
    for (row, column), values in seen.items():
        scores.setdefault(f"learner-{row}", {})[column] = values
    made = league(
        [*(anchor(f"a{i}") for i in range(num_anchors)), *map(learner, range(num_learners)), snap(0, 1)], scores
    )
    sampler = make_sampler(name, {"iterations": 10} if name == "psro" else {})
    for member in made.learners:
        found = sampler.odds(made, member.id, made.opponents_of(member.id))
        assert list(found) == [m.id for m in made.opponents_of(member.id)]
        assert min(found.values()) >= 0.0
        assert sum(found.values()) == pytest.approx(1.0)
        assert sampler.odds(made, member.id, made.opponents_of(member.id)) == found


def test_every_sampler_is_documented_with_when_to_use_it() -> None:
    text = (ROOT / "docs" / "league.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"\n| `{name}` |" not in text] == []
    assert [kind for kind in (*PLAIN.values(), Anchored) if "When to use:" not in (kind.__doc__ or "")] == []
