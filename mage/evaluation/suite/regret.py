"""Scores relative to exact references: exploitation of an opponent, and regret to Bayes-optimal play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage.evaluation.exact import References
from mage.stats import ROUNDING, Estimate, mean
from mage.types import Task, Trial


def exploitation(trials: Sequence[Trial], references: Mapping[int, References]) -> Estimate | None:
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
    return mean([(t.scores[-1] - equilibrium) / possible for t, (equilibrium, _) in zip(trials, known, strict=True)])


def regret(trials: Sequence[Trial], references: Mapping[int, References]) -> Estimate | None:
    """Bayes-optimal score of the last episode minus score@N; None where it is not known."""
    limits = [references[trial.task.seat].bayes_last for trial in trials]
    gaps = [limit - trial.scores[-1] for trial, limit in zip(trials, limits, strict=True) if limit is not None]
    return mean(gaps) if len(gaps) == len(trials) else None


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
