"""The metrics that methods are compared by: how each is read from a report, in total and by trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from mage.evaluation.suite.evaluate import SplitReport
from mage.stats import Estimate


class Column(NamedTuple):
    """One metric; `by_trial` gives the values for paired differences."""

    key: str
    title: str
    estimate: Callable[[SplitReport], Estimate | None]
    by_trial: Callable[[SplitReport], Sequence[float]]
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
            is_printed=k + 1 in printed,
        )
        for k in range(episodes)
    ]
    return [
        *scores,
        Column("control", "last, no memory", lambda r: r.control.scores[-1], _controls, is_marked=False),
        Column("adaptation", "adaptation", lambda r: r.agent.adaptation, _gains, is_printed=False),
        Column("over_control", "over control", lambda r: r.over_control, _gains_over_control),
        # The limit of a task is the same for every method, so differences of regret are differences of scores.
        Column("regret", "regret", lambda r: r.regret, _negated_last_scores, is_low_best=True),
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


def _negated_last_scores(report: SplitReport) -> list[float]:
    return [-scores[-1] for scores in report.agent.scores_by_trial]
