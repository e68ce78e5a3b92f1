"""Exact references for small worlds: best response, equilibrium, best memoryless, myopic and Bayes-optimal play.

No sampling: every value is a finite sum over the tree of an episode, in floating point.
"""

from mage.evaluation.exact.bayes_player import BayesAgentFactory, BayesPlayer, MemorylessAgentFactory, StrayingPlayer
from mage.evaluation.exact.myopic import MyopicScores
from mage.evaluation.exact.planner import Planner, PlanObjective
from mage.evaluation.exact.references import (
    References,
    bayes_optimal,
    best_memoryless,
    best_response,
    fraction_text,
    guaranteed_score,
    myopic_bayes,
    references,
)

__all__ = [
    "BayesAgentFactory",
    "BayesPlayer",
    "MemorylessAgentFactory",
    "MyopicScores",
    "PlanObjective",
    "Planner",
    "References",
    "StrayingPlayer",
    "bayes_optimal",
    "best_memoryless",
    "best_response",
    "fraction_text",
    "guaranteed_score",
    "myopic_bayes",
    "references",
]
