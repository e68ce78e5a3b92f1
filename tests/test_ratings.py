"""Ratings of pay-off matrices whose answer is known."""

from __future__ import annotations

from math import log10

import numpy as np
import pytest

from mage.errors import ConfigError
from mage.evaluation.ratings import SMOOTHING, Matrix, alpha_rank, elo, nash_average

RPS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def antisymmetric(size: int, *upper: float) -> Matrix:
    """The matrix with these numbers above its diagonal, row by row."""
    found = np.zeros((size, size))
    found[np.triu_indices(size, 1)] = upper
    return found - found.T


def test_two_agents_are_apart_by_the_odds_of_winning() -> None:
    ratings = elo(np.array([[0, 75], [25, 0]]), np.zeros((2, 2), np.int64))
    assert ratings[0] - ratings[1] == pytest.approx(400 * log10((75 + SMOOTHING) / (25 + SMOOTHING)))
    assert ratings.sum() == pytest.approx(0.0)


def test_a_draw_is_half_a_win_for_either_side() -> None:
    with_draws = elo(np.array([[0, 50], [0, 0]]), np.array([[0, 50], [50, 0]]))
    without = elo(np.array([[0, 75], [25, 0]]), np.zeros((2, 2), np.int64))
    assert with_draws == pytest.approx(without)


def test_a_transitive_set_is_rated_as_it_was_made() -> None:
    """Three agents 200 points apart: expected wins of many games give the ratings back."""
    true = np.array([200.0, 0.0, -200.0])
    chances = 1 / (1 + 10 ** ((true[None, :] - true[:, None]) / 400))
    wins = np.rint(100_000 * chances).astype(np.int64)
    np.fill_diagonal(wins, 0)
    assert elo(wins, np.zeros((3, 3), np.int64)) == pytest.approx(true, abs=0.1)


def test_who_never_loses_has_a_finite_rating() -> None:
    assert np.isfinite(elo(np.array([[0, 10], [0, 0]]), np.zeros((2, 2), np.int64))).all()


def test_nash_averaging_of_rock_paper_scissors_is_even() -> None:
    for scale in (1.0, 0.01, 300.0):
        shares, scores = nash_average(scale * RPS)
        assert shares == pytest.approx([1 / 3] * 3)
        assert scores == pytest.approx([0.0] * 3, abs=1e-6 * scale)


def test_a_copy_of_an_agent_shares_its_part() -> None:
    places = [0, 1, 2, 0]
    shares, scores = nash_average(RPS[np.ix_(places, places)])
    assert shares == pytest.approx([1 / 6, 1 / 3, 1 / 3, 1 / 6], abs=1e-5)
    assert scores == pytest.approx([0.0] * 4, abs=1e-6)


def test_a_dominated_agent_has_no_share_and_scores_what_it_loses() -> None:
    worse = np.block([[RPS, np.ones((3, 1))], [-np.ones((1, 3)), np.zeros((1, 1))]])
    shares, scores = nash_average(worse)
    assert shares == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0.0], abs=1e-6)
    assert scores[3] == pytest.approx(-1.0)


def test_where_all_are_equal_all_share_alike() -> None:
    assert nash_average(np.zeros((5, 5)))[0] == pytest.approx([0.2] * 5)


def test_weights_of_a_cycle_are_those_of_the_equilibrium() -> None:
    """Rock-paper-scissors where A beats B by 1, B beats C by 2 and C beats A by 3: shares are 2 : 3 : 1."""
    shares, _ = nash_average(antisymmetric(3, 1.0, -3.0, 2.0))
    assert shares == pytest.approx([2 / 6, 3 / 6, 1 / 6], abs=1e-6)


def test_among_many_equilibria_the_most_even_is_taken() -> None:
    """Two beat the third alike and tie: any mixture of them is an equilibrium, and halves are the most even."""
    shares, scores = nash_average(antisymmetric(3, 0.0, 1.0, 1.0))
    assert shares == pytest.approx([0.5, 0.5, 0.0], abs=1e-5)
    assert scores == pytest.approx([0.0, 0.0, -1.0], abs=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_nobody_beats_the_equilibrium_of_any_matrix(seed: int) -> None:
    size = 2 + seed
    upper = [float((seed + 3) * (7 * k + seed) % 11 - 5) for k in range(size * (size - 1) // 2)]
    matrix = antisymmetric(size, *upper)
    shares, scores = nash_average(matrix)
    assert shares.sum() == pytest.approx(1.0)
    assert shares.min() >= 0
    assert scores.max() < 1e-4
    assert scores @ shares == pytest.approx(0.0, abs=1e-6)


def test_a_matrix_that_is_not_zero_sum_is_refused() -> None:
    with pytest.raises(ConfigError, match="an antisymmetric pay-off matrix"):
        nash_average(np.array([[3.0, 0.0], [5.0, 1.0]]))


def test_alpha_rank_stays_with_the_winner_and_goes_round_in_a_cycle() -> None:
    assert alpha_rank(RPS) == pytest.approx([1 / 3] * 3)
    transitive = alpha_rank(antisymmetric(3, 1.0, 1.0, 1.0))
    assert transitive[0] > 0.95
    assert transitive[1] > transitive[2]
    assert alpha_rank(np.array([[3.0, 0.0], [5.0, 1.0]]))[1] > 0.95


def test_without_matplotlib_alpha_rank_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        assert name == "matplotlib"

    monkeypatch.setattr("mage.evaluation.ratings.find_spec", missing)
    with pytest.raises(ConfigError, match=r"pip install .*\[plot\]'"):
        alpha_rank(RPS)
