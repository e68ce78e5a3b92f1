"""Ratings from a pay-off matrix of N agents: Elo, Nash averaging and alpha-rank."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mage.errors import ConfigError
from mage.extras import install_command

Matrix = NDArray[np.float64]
Counts = NDArray[np.int64]

SMOOTHING = 0.5
"""Wins added for each agent in each pair: without them an agent that never loses has no finite rating."""
NO_ALPHA_RANK = f"OpenSpiel's module imports matplotlib and networkx: {install_command('plot')}"
_PRECISION, _TOLERANCE = 1e-9, 1e-6
"""Precision of the solvers, and tolerance for accepting an equilibrium."""


def elo(wins_NN: Counts, draws_NN: Counts) -> Matrix:
    """Maximum-likelihood ratings of the Bradley-Terry model, 400 points for odds of 10 to 1; their mean is 0.

    A draw counts as half a win for either side. OpenSpiel's implementation (Hunter 2004).

    >>> elo(np.array([[0, 9], [0, 0]]), np.array([[0, 2], [2, 0]])).round(1).tolist()  # 10.5 to 1.5, smoothed
    [169.0, -169.0]
    """
    from open_spiel.python.algorithms.elo import compute_ratings_from_matrices

    ratings = compute_ratings_from_matrices(wins_NN, draws_NN, smoothing_factor=SMOOTHING)
    return np.asarray(ratings - np.mean(ratings), np.float64)


def nash_average(payoffs_NN: Matrix) -> tuple[Matrix, Matrix]:
    """The maximum-entropy equilibrium of the meta-game whose moves are the agents, and each agent's score against it.

    Balduzzi et al. 2018 (arXiv 1806.02643). The matrix must be antisymmetric, so no score is above 0. Copies of an
    agent share its probability where the equilibrium is unique. Equilibria are found by linear programs, then entropy
    is maximised from their mean: OpenSpiel's implementation needs a convex solver.

    >>> shares, scores = nash_average(np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]))
    >>> shares.round(6).tolist(), (scores.round(6) + 0.0).tolist()
    ([0.333333, 0.333333, 0.333333], [0.0, 0.0, 0.0])
    """
    if not np.allclose(payoffs_NN, -payoffs_NN.T, atol=1e-9):
        raise ConfigError("Nash averaging needs an antisymmetric pay-off matrix")
    scaled = payoffs_NN / max(1e-12, float(np.abs(payoffs_NN).max()))
    corners = _extreme_equilibria(scaled)
    used = np.flatnonzero(corners.max(axis=0) > _TOLERANCE)
    shares = np.zeros(len(payoffs_NN))
    shares[used] = _max_entropy_equilibrium(scaled[:, used], corners[:, used].mean(axis=0))
    return shares, payoffs_NN @ shares


def alpha_rank(payoffs_NN: Matrix) -> Matrix:
    """The stationary distribution of alpha-rank over agents.

    Omidshafiei et al. 2019 (arXiv 1903.01373), by OpenSpiel, in the limit of strong selection with 1 % of noise. It
    uses only which agent of a pair wins, not by how much, so it needs neither symmetry nor a zero sum.
    """
    if not can_alpha_rank():
        raise ConfigError(f"alpha-rank is not available: {NO_ALPHA_RANK}")
    from open_spiel.python.egt.alpharank import compute

    _, _, shares, _, _ = compute([payoffs_NN], use_inf_alpha=True, inf_alpha_eps=0.01)
    return np.asarray(shares, np.float64)


def can_alpha_rank() -> bool:
    """Whether the packages that OpenSpiel's alpha-rank imports are installed."""
    return find_spec("matplotlib") is not None and find_spec("networkx") is not None


def _extreme_equilibria(payoffs_NN: Matrix) -> Matrix:
    """For each agent the equilibrium that maximises its probability."""
    from scipy.optimize import linprog  # type: ignore[import-untyped]

    size = len(payoffs_NN)
    found = []
    for agent in range(size):
        solved = linprog(
            -np.eye(size)[agent],
            A_ub=payoffs_NN,
            b_ub=np.full(size, _PRECISION),
            A_eq=np.ones((1, size)),
            b_eq=[1.0],
            method="highs",
        )
        if solved.x is None:
            raise ConfigError(f"no equilibrium of the pay-off matrix was found: {solved.message}")
        found.append(np.clip(solved.x, 0.0, 1.0))
    return np.array(found)


def _max_entropy_equilibrium(payoffs_NK: Matrix, start_K: Matrix) -> Matrix:
    """The maximum-entropy equilibrium of K agents, from an equilibrium in which all have positive probability."""
    from scipy.optimize import minimize

    if len(start_K) == 1:
        return np.ones(1)
    total: dict[str, Any] = {"type": "eq", "fun": lambda p: p.sum() - 1, "jac": lambda p: np.ones_like(p)}
    most: dict[str, Any] = {"type": "ineq", "fun": lambda p: _PRECISION - payoffs_NK @ p, "jac": lambda _: -payoffs_NK}
    solved = minimize(
        _negative_entropy,
        start_K,
        jac=lambda p: np.log(p) + 1,
        bounds=[(1e-12, 1.0)] * len(start_K),
        constraints=[total, most],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    even_K = np.asarray(solved.x / solved.x.sum(), np.float64)
    is_equilibrium = float((payoffs_NK @ even_K).max()) < _TOLERANCE
    return even_K if is_equilibrium and _negative_entropy(even_K) < _negative_entropy(start_K) else start_K


def _negative_entropy(shares: Matrix) -> float:
    """Negative entropy."""
    return float(np.sum(shares * np.log(np.maximum(shares, _PRECISION))))
