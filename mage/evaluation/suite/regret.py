"""Scores relative to exact references: exploitation of an opponent, and regret to Bayes-optimal play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage.evaluation.exact import References
from mage.evaluation.suite.averaging import Averaging
from mage.stats import ROUNDING, Estimate, Range
from mage.types import Task, Trial

_OVER_TRIALS = Averaging()


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
    """An exact reference averaged over the seats; None where a seat has none."""
    values: list[float | None] = [getattr(found, name) for _, found in references]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _gap(task: Task, references: Mapping[int, References]) -> tuple[float, float] | None:
    """The equilibrium value of a task's seat, and the best response's gain over it."""
    found = references[task.seat]
    best = found.best_response.get(task.members[0]) if len(task.members) == 1 else None
    if best is None or found.equilibrium is None:
        return None
    return found.equilibrium, best - found.equilibrium
