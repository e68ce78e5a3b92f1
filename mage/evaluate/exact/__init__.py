"""Exact references: best response, equilibrium, best memoryless and Bayes-optimal play, for games small enough.

No sampling: every figure is a finite sum over the ways an episode can go, in floating point.
"""

from mage.evaluate.exact.plan import Objective, Planner
from mage.evaluate.exact.player import BayesPlayer, BayesSeating, MemorylessSeating
from mage.evaluate.exact.references import (
    References,
    bayes_optimal,
    best_memoryless,
    best_response,
    references,
    shown,
)
from mage.evaluate.exact.security import security_value

__all__ = [
    "BayesPlayer",
    "BayesSeating",
    "MemorylessSeating",
    "Objective",
    "Planner",
    "References",
    "bayes_optimal",
    "best_memoryless",
    "best_response",
    "references",
    "security_value",
    "shown",
]
