"""The metrics that methods are compared by: how each is read from a report, in total and by trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from mage.evaluation.suite.averaging import gap_range
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.regret import regret_range
from mage.stats import Estimate, Range


class Column(NamedTuple):
    """One metric; `by_trial` gives the values that it is the mean of."""

    key: str
    title: str
    estimate: Callable[[SplitReport], Estimate | None]
    by_trial: Callable[[SplitReport], Sequence[float]]
    bounds: Callable[[SplitReport], Range | None]
    """The lowest and highest possible value in a trial."""
    is_marked: bool = True
    """Whether the best value of the column is marked."""
    is_low_best: bool = False
    is_printed: bool = True
    """Whether it is in printed tables; the CSV has all."""


def columns(episodes: int) -> list[Column]:
    """The metrics of trials with `episodes` episodes."""
    printed = printed_episodes(episodes)
    scores = [
        Column(
            key=f"score_{k + 1}",
            title=f"episode {k + 1}" + (" (last)" if k + 1 == episodes > 1 else ""),
            estimate=partial(_score, k),
            by_trial=partial(_score_by_trial, k),
            bounds=_score_range,
            is_printed=k + 1 in printed,
        )
        for k in range(episodes)
    ]
    return [
        *scores,
        Column("control", "last, no memory", lambda r: r.control.scores[-1], _controls, _score_range, is_marked=False),
        Column("adaptation", "adaptation", lambda r: r.agent.adaptation, _gains, _gain_range, is_printed=False),
        Column("over_control", "over control", lambda r: r.over_control, _gains_over_control, _over_control_range),
        Column("regret", "regret", lambda r: r.regret, _regrets, _regret_range, is_low_best=True),
    ]


def printed_episodes(episodes: int) -> set[int]:
    """The episodes with a printed column: all up to six, else 1, 2, 5, 10, 20, 50 … and the last.

    >>> sorted(printed_episodes(30))
    [1, 2, 5, 10, 20, 30]
    """
    if episodes <= 6:
        return set(range(1, episodes + 1))
    series = (first * 10**power for power in range(len(str(episodes))) for first in (1, 2, 5))
    return {number for number in series if number <= episodes} | {episodes}


def _score(k: int, report: SplitReport) -> Estimate:
    return report.agent.scores[k]


def _score_by_trial(k: int, report: SplitReport) -> list[float]:
    return [scores[k] for scores in report.agent.scores_by_trial]


def _gains(report: SplitReport) -> list[float]:
    return [scores[-1] - scores[0] for scores in report.agent.scores_by_trial]


def _gains_over_control(report: SplitReport) -> list[float]:
    controls = (scores[-1] - scores[0] for scores in report.control.scores_by_trial)
    return [gain - control for gain, control in zip(_gains(report), controls, strict=True)]


def _controls(report: SplitReport) -> list[float]:
    return [scores[-1] for scores in report.control.scores_by_trial]


def _regrets(report: SplitReport) -> list[float]:
    """By trial; only for reports with a regret, which have all limits."""
    limits = {seat: found.bayes_last or 0.0 for seat, found in report.references}
    last = (scores[-1] for scores in report.agent.scores_by_trial)
    return [limits[seat] - score for (_, seat, _), score in zip(report.tasks, last, strict=True)]


def _score_range(report: SplitReport) -> Range | None:
    return report.score_range


def _gain_range(report: SplitReport) -> Range | None:
    return gap_range(report.score_range)


def _over_control_range(report: SplitReport) -> Range | None:
    return gap_range(report.score_range, 2)


def _regret_range(report: SplitReport) -> Range | None:
    return regret_range([found for _, found in report.references], report.score_range)
