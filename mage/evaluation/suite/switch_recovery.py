"""How many episodes an agent's score takes to recover after its opponent switched unannounced."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign

import msgspec

from mage.evaluation.suite.averaging import Averaging
from mage.opponents.enumerate import switch_episodes
from mage.stats import ROUNDING, Estimate, Range
from mage.types import Trial

SHARE = 0.9
"""Share of the score before the switch that counts as recovered."""


class Recovery(msgspec.Struct, frozen=True):
    """Scores around the first switch of each trial.

    The score has recovered in the first episode with the new opponent whose mean score is at least 90 % of the mean
    score in the last episode with the old one (110 % of it where it is negative). A player that never adapts loses
    nothing and "recovers" at once: read it with `before`.
    """

    before: Estimate
    """Mean score in the last episode before the switch."""
    after: tuple[Estimate, ...]
    """Mean score in each episode after it; as many as every trial has before it ends or switches again."""
    recovered: int | None
    """Episodes with the new opponent before the score has recovered; None if it never does."""
    recovered_earliest: int | None
    """The same by the upper end of the 95 % interval of the difference, paired by trial."""
    recovered_latest: int | None
    """The same by its lower end."""


_OVER_TRIALS = Averaging()


def measure_recovery(trials: Sequence[Trial], averaging: Averaging = _OVER_TRIALS) -> Recovery | None:
    """Scores around the first switch in the trials that have one; None where none has."""
    found = [(trial, row) for trial in trials if (row := _scores_around_switch(trial)) is not None]
    if not found:
        return None
    switched, rows = [trial for trial, _ in found], [row for _, row in found]
    num_after = min(len(after) for _, after in rows)
    before = averaging.score(switched, [score for score, _ in rows])
    factor = 1 - copysign(1 - SHARE, before.value)
    bounds = _gap_range(averaging.score_range, factor)
    gaps = [
        averaging.mean(switched, [after[k] - factor * score for score, after in rows], bounds) for k in range(num_after)
    ]
    return Recovery(
        before=before,
        after=tuple(averaging.score(switched, [after[k] for _, after in rows]) for k in range(num_after)),
        recovered=_first([gap.value >= -ROUNDING for gap in gaps]),
        recovered_earliest=_first([_bound_or_value(gap.high, gap) >= -ROUNDING for gap in gaps]),
        recovered_latest=_first([_bound_or_value(gap.low, gap) >= -ROUNDING for gap in gaps]),
    )


def _scores_around_switch(trial: Trial) -> tuple[float, tuple[float, ...]] | None:
    """The score before the first switch of a trial, and those up to the next; None where there is no switch."""
    num = len(trial.scores)
    changes = sorted({episode for spec in trial.task.opponents for episode in switch_episodes(spec, num)})
    if not changes:
        return None
    start, stop = (*changes, num)[:2]
    return trial.scores[start - 1], trial.scores[start:stop]


def _gap_range(score_range: Range | None, factor: float) -> Range | None:
    """The range of a score minus `factor` times another."""
    if score_range is None:
        return None
    gaps = [score - factor * other for score in score_range for other in score_range]
    return min(gaps), max(gaps)


def _first(reached: Sequence[bool]) -> int | None:
    return reached.index(True) if True in reached else None


def _bound_or_value(end: float | None, gap: Estimate) -> float:
    """One end of an interval, or the value where there is none."""
    return gap.value if end is None else end
