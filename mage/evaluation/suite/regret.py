"""Scores relative to exact references: exploitation, regret, and the shares of memory and exploration in a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mage.evaluation.exact import References
from mage.evaluation.suite.averaging import Averaging
from mage.stats import ROUNDING, Estimate, Range
from mage.types import Task, Trial

_OVER_TRIALS = Averaging()


class ScoreParts(msgspec.Struct, frozen=True):
    """A score as the sum of what needs no memory, what memory can add, and what only exploration can."""

    memoryless: float
    """Up to the best memoryless play."""
    memory: float
    """From there to myopic Bayes, with ties broken best."""
    exploration: float
    """What is above that. A score above the limit is sampling noise, and that is counted here."""


class TaskValue(msgspec.Struct, frozen=True):
    """How much of the last score memory and exploration are worth, for a player that knows the pool."""

    memory: float
    """Myopic Bayes, with ties broken best, minus the best memoryless play."""
    exploration: float | None
    """The limit minus myopic Bayes; None where the limit is not known."""


def score_parts(score: float, memoryless: float, myopic: float) -> ScoreParts:
    """The parts of a score, which sum to it, by the best memoryless play and the highest myopic score.

    >>> score_parts(0.875, memoryless=0.25, myopic=0.75)
    ScoreParts(memoryless=0.25, memory=0.5, exploration=0.125)
    >>> score_parts(0.5, memoryless=0.25, myopic=0.75)
    ScoreParts(memoryless=0.25, memory=0.25, exploration=0.0)
    >>> score_parts(-0.5, memoryless=0.25, myopic=0.75)
    ScoreParts(memoryless=-0.5, memory=0.0, exploration=0.0)
    """
    return ScoreParts(
        memoryless=min(score, memoryless),
        memory=max(0.0, min(score, myopic) - memoryless),
        exploration=max(0.0, score - max(myopic, memoryless)),
    )


def last_score_parts(scores: Sequence[Estimate], references: Sequence[tuple[int, References]]) -> ScoreParts | None:
    """The parts of the mean score of the last episode; None where a reference is missing."""
    memoryless, myopic = (mean_over_seats(references, name) for name in ("memoryless", "myopic.high"))
    return None if memoryless is None or myopic is None else score_parts(scores[-1].value, memoryless, myopic)


def task_value(references: Sequence[tuple[int, References]]) -> TaskValue | None:
    """What memory and exploration are worth on these tasks; None where it is not known."""
    memoryless, myopic, limit = (mean_over_seats(references, n) for n in ("memoryless", "myopic.high", "bayes_last"))
    if memoryless is None or myopic is None:
        return None
    if limit is None:
        return TaskValue(score_parts(myopic, memoryless, myopic).memory, None)
    parts = score_parts(limit, memoryless, myopic)
    return TaskValue(parts.memory, parts.exploration)


def exploitation(
    trials: Sequence[Trial], references: Mapping[int, References], averaging: Averaging = _OVER_TRIALS
) -> Estimate | None:
    """The share of the possible gain over equilibrium that was gained in the last episode.

    (score@N - equilibrium) / (best response - equilibrium), with numerator and denominator averaged over the trials
    before they are divided, so that opponents with almost nothing to gain do not dominate. None where an exact value
    is missing or nothing can be gained.
    """
    gaps = [_gap(trial.task, references) for trial in trials]
    known = [gap for gap in gaps if gap is not None]
    possible = sum(gap for _, gap in known) / len(trials)
    if len(known) < len(trials) or possible < ROUNDING:
        return None
    values = [(t.scores[-1] - equilibrium) / possible for t, (equilibrium, _) in zip(trials, known, strict=True)]
    bounds: Range | None = None
    if averaging.score_range is not None:
        lowest, highest = averaging.score_range
        equilibria = [equilibrium for equilibrium, _ in known]
        bounds = (lowest - max(equilibria)) / possible, (highest - min(equilibria)) / possible
    return averaging.mean(trials, values, bounds)


def regret(
    trials: Sequence[Trial], references: Mapping[int, References], averaging: Averaging = _OVER_TRIALS
) -> Estimate | None:
    """Bayes-optimal score of the last episode minus score@N; None where it is not known."""
    limits = [references[trial.task.seat].bayes_last for trial in trials]
    gaps = [limit - trial.scores[-1] for trial, limit in zip(trials, limits, strict=True) if limit is not None]
    if len(gaps) < len(trials):
        return None
    return averaging.mean(trials, gaps, regret_range([references[t.task.seat] for t in trials], averaging.score_range))


def regret_range(references: Sequence[References], score_range: Range | None) -> Range | None:
    """The range of the regret to some limits; None where one is not known."""
    limits = [found.bayes_last for found in references if found.bayes_last is not None]
    if score_range is None or len(limits) < len(references):
        return None
    return min(limits) - score_range[1], max(limits) - score_range[0]


def mean_over_seats(references: Sequence[tuple[int, References]], name: str) -> float | None:
    """An exact reference (`memoryless`, `myopic.high`) averaged over the seats; None where a seat has none."""
    values = [_named(found, name) for _, found in references]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _named(references: References, name: str) -> float | None:
    first, _, rest = name.partition(".")
    value = getattr(references, first)
    found: float | None = getattr(value, rest) if rest and value is not None else value
    return found


def _gap(task: Task, references: Mapping[int, References]) -> tuple[float, float] | None:
    """The equilibrium value of a task's seat, and the best response's gain over it."""
    found = references[task.seat]
    best = found.best_response.get(task.members[0]) if len(task.members) == 1 else None
    if best is None or found.equilibrium is None:
        return None
    return found.equilibrium, best - found.equilibrium
