"""The pay-off table: means, errors, decay, inheritance, worked by hand."""

from __future__ import annotations

from math import inf, nan, sqrt

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mage.errors import ConfigError, PlayError
from mage.league.payoffs import EMPTY, MatchScore, PayoffCell, Payoffs
from tests.leagued import FOREVER, table

scores = st.integers(-8, 8).map(lambda n: n / 8)


def cell(*seen: float, decay: float = 1.0) -> PayoffCell:
    made = PayoffCell.of(seen[0], 0)
    for step, score in enumerate(seen[1:], start=1):
        made = made.plus(score, step, decay)
    return made


def test_a_cell_without_decay_is_the_plain_mean_and_variance() -> None:
    made = cell(1.0, 0.0, 0.5, -1.0, 1.0)
    assert made == PayoffCell(5.0, 1.5, 3.25, 5, 4, 5.0)
    assert made.mean == pytest.approx(0.3)
    assert made.variance == pytest.approx((3.25 - 1.5**2 / 5) / 4)
    assert made.effective == 5.0
    assert made.half_width(pooled=99.0) == pytest.approx(1.96 * sqrt(0.7 / 5))


def test_decay_weighs_the_newest_most() -> None:
    made = cell(1.0, 1.0, -1.0, decay=0.5)  # weights 1/4, 1/2, 1
    assert (made.weight, made.total, made.squares, made.weight_squares) == (1.75, -0.25, 1.75, 1.3125)
    assert made.mean == pytest.approx(-1 / 7)
    assert made.effective == pytest.approx(7 / 3)
    assert made.variance == pytest.approx((1 - 1 / 49) / (1 - 3 / 7))
    assert (made.count, made.updated) == (3, 2)


def test_one_observation_has_no_variance_of_its_own() -> None:
    assert cell(0.5).variance == inf
    assert cell(0.5).half_width(pooled=0.25) == pytest.approx(1.96 * 0.5)
    assert cell(0.5).half_width(pooled=inf) == inf


def test_few_observations_take_the_pooled_variance_and_five_their_own() -> None:
    assert cell(0.0, 0.0, 0.0, 0.0).error(pooled=0.16) == pytest.approx(0.2)
    assert cell(0.0, 0.0, 0.0, 0.0, 0.0).error(pooled=0.16) == 0.0


def test_a_cell_that_forgot_all_but_one_has_no_variance() -> None:
    made = cell(1.0, 0.0, decay=1e-30)
    assert made.variance == inf
    assert Payoffs({"a": {"b": made}}).pooled_variance() == inf


@given(st.lists(scores, min_size=2, max_size=8), st.sampled_from([0.3, 0.9, 1.0]))
def test_cells_are_weighted_sums_of_all_they_saw(seen: list[float], decay: float) -> None:
    made = cell(*seen, decay=decay)
    weights = decay ** np.arange(len(seen) - 1, -1, -1)
    mean = float(weights @ seen / weights.sum())
    spread = float(weights @ (np.array(seen) - mean) ** 2)
    assert made.mean == pytest.approx(mean, abs=1e-9)
    assert made.variance == pytest.approx(spread / (weights.sum() - (weights**2).sum() / weights.sum()), abs=1e-9)


def test_the_variance_is_unbiased_under_decay() -> None:
    """Over all eight sequences of three fair coins the mean of the variances is the variance of a coin, 1/4."""
    found = [cell(a, b, c, decay=0.6).variance for a in (0.0, 1.0) for b in (0.0, 1.0) for c in (0.0, 1.0)]
    assert sum(found) / 8 == pytest.approx(0.25)


def test_the_pooled_variance_counts_degrees_of_freedom() -> None:
    payoffs = table({"a": {"x": [0.0, 2.0], "y": [1.0]}, "b": {"x": [0.0, 1.0, 2.0, 3.0]}})
    assert payoffs.pooled_variance() == pytest.approx((1 * 2.0 + 3 * 5 / 3) / 4)
    assert table({"a": {"x": [1.0]}}).pooled_variance() == inf
    assert EMPTY.pooled_variance() == inf


def test_only_cells_of_the_living_decay() -> None:
    results = [
        MatchScore(row, column, score) for row, column in (("a", "x"), ("a", "b"), ("c", "x")) for score in (1, 0)
    ]
    payoffs = EMPTY.with_results(results, 7, 1.0, ["b"])
    assert [payoffs.row("a")[name].weight for name in ("x", "b")] == [2.0, 1.5]
    payoffs = EMPTY.with_results(results, 7, 1.0, ["a"])
    assert [payoffs.row("a")[name].mean for name in ("x", "b")] == pytest.approx([1 / 3, 1 / 3])
    assert payoffs.row("c")["x"].mean == 0.5
    assert payoffs.row("c")["x"].updated == 7


def test_after_a_half_life_of_observations_the_first_weighs_half() -> None:
    payoffs = EMPTY.with_results([MatchScore("a", "x", 1.0)] + [MatchScore("a", "x", 0.0)] * 4, 0, 4.0, ["a"])
    assert payoffs.row("a")["x"].total == pytest.approx(0.5)


def test_nobody_is_recorded_against_itself() -> None:
    assert EMPTY.with_results([MatchScore("a", "a", 1.0)], 0, 8.0, ["a"]) == EMPTY


def test_results_do_not_change_the_table_they_are_added_to() -> None:
    before = table({"a": {"x": [1.0]}})
    before.with_results([MatchScore("a", "x", 0.0), MatchScore("b", "y", 0.0)], 1, 8.0, ())
    assert before == table({"a": {"x": [1.0]}})


@pytest.mark.parametrize("score", [nan, inf])
def test_a_score_that_is_no_number_is_refused(score: float) -> None:
    with pytest.raises(PlayError, match=f"a against x: a score must be a finite number, not {score}"):
        EMPTY.with_results([MatchScore("a", "x", score)], 0, 8.0, ())


@pytest.mark.parametrize("half_life", [0.0, -1.0, nan])
def test_a_half_life_is_positive(half_life: float) -> None:
    with pytest.raises(ConfigError, match=r"half_life = .*: takes a number of observations above 0"):
        EMPTY.with_results([], 0, half_life, ())


def test_rows_and_columns() -> None:
    payoffs = table({"a": {"x": [1.0], "y": [0.0]}, "b": {"x": [0.5]}})
    assert {name: found.mean for name, found in payoffs.column("x").items()} == {"a": 1.0, "b": 0.5}
    assert list(payoffs.row("a")) == ["x", "y"]
    assert payoffs.row("nobody") == {}
    assert payoffs.column("nobody") == {}
    assert payoffs.cell("b", "y") is None


def test_a_snapshot_begins_with_its_parents_column() -> None:
    payoffs = table({"a": {"x": [1.0], "b": [0.5]}, "b": {"a": [0.25, 0.75], "x": [0.0]}, "c": {"x": [1.0]}})
    new = payoffs.inherit("a@4", "a")
    assert new.column("a@4") == {"b": payoffs.row("b")["a"]}
    assert new.without(["a@4"]) == payoffs
    assert "a@4" not in new.cells


def test_a_learner_that_copied_another_begins_with_half_its_evidence() -> None:
    payoffs = table(
        {
            "a": {"x": [1.0, 0.0], "b": [1.0], "c": [1.0]},
            "b": {"x": [-1.0], "y": [-1.0], "a": [-1.0], "c": [0.0]},
            "c": {"a": [0.5, 0.5], "b": [1.0]},
        }
    )
    new = payoffs.inherit("b", "a")
    assert new.row("b") == {"x": PayoffCell(1.0, 0.5, 0.5, 2, 0, 0.5), "c": PayoffCell(0.5, 0.5, 0.5, 1, 0, 0.25)}
    assert new.row("b")["x"].mean == payoffs.row("a")["x"].mean
    assert new.row("b")["x"].error(0.3) == payoffs.row("a")["x"].error(0.3)
    assert list(new.row("a")) == ["x", "c"], "what it scored against the old b is about somebody who is gone"
    assert new.row("c") == {"a": payoffs.row("c")["a"], "b": payoffs.row("c")["a"].scaled(0.5)}


def test_who_was_not_met_by_a_third_is_unknown_to_it_after_a_copy() -> None:
    new = table({"a": {"x": [1.0]}, "b": {"x": [0.0]}, "c": {"b": [1.0]}}).inherit("b", "a")
    assert new.row("c") == {}


def test_halved_evidence_gives_way_twice_as_fast() -> None:
    new = table({"a": {"x": [1.0, 1.0]}, "b": {"x": [0.0]}}).inherit("b", "a")
    later = new.with_results([MatchScore("b", "x", 0.0)], 9, FOREVER, ())
    assert later.row("b")["x"].mean == pytest.approx(0.5)


def test_without_takes_rows_and_columns() -> None:
    payoffs = table({"a": {"x": [1.0], "b": [1.0]}, "b": {"x": [1.0]}})
    assert payoffs.without(["b"]) == table({"a": {"x": [1.0]}})
    assert payoffs.without([]) == payoffs


def test_distance_is_root_mean_square_over_common_learners() -> None:
    payoffs = table({"a": {"x": [1.0], "y": [-2.0]}, "b": {"x": [0.0], "y": [4.0]}, "c": {"x": [9.0], "z": [0.0]}})
    assert payoffs.distance("x", "y") == pytest.approx(sqrt((9 + 16) / 2))
    assert payoffs.distance("x", "z") == 9.0
    assert payoffs.distance("y", "z") == inf
    assert payoffs.distance("x", "x") == 0.0


members = st.sampled_from(["a", "b", "x", "y"])
played = st.lists(st.builds(MatchScore, st.sampled_from(["a", "b"]), members, scores), max_size=12)


@given(played, played, st.floats(0.1, 100))
def test_a_table_survives_a_checkpoint_and_goes_on_alike(
    first: list[MatchScore], then: list[MatchScore], life: float
) -> None:
    payoffs = EMPTY.with_results(first, 1, life, ["a", "b"])
    restored = msgspec.json.decode(msgspec.json.encode(payoffs), type=Payoffs)
    assert restored == payoffs
    going, gone = (p.with_results(then, 2, life, ["a", "b"]) for p in (restored, payoffs))
    assert msgspec.json.encode(going) == msgspec.json.encode(gone)
