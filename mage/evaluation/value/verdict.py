"""What a task needs, in words: memory, exploration, both or neither."""

from __future__ import annotations

from mage.evaluation.value.report import ValueReport
from mage.evaluation.value.sampled_bounds import BEST_LAST, MEMORYLESS, BoundKind
from mage.stats import ROUNDING

LITTLE = 0.1
"""Share of what memory and exploration give together below which one of them is hardly needed."""
HARDLY = 0.01
"""Share of the range of scores below which both together are hardly needed."""
NEITHER = "neither memory nor exploration"


def needs(report: ValueReport) -> str:
    """What must be had to reach the best last episode, in a few words."""
    memory, exploration = report.memory, report.exploration
    if memory is None or exploration is None:
        most = exploration_at_most(report)
        return "not known" if most is None or not memory else f"memory; exploration adds at most {_plain(most)}"
    if memory + exploration <= ROUNDING:
        return NEITHER
    if memory + exploration <= HARDLY * (report.score_range[1] - report.score_range[0]):
        return "hardly memory or exploration"
    if exploration <= ROUNDING:
        return "memory and no exploration"
    if memory <= ROUNDING:
        return "exploration"
    if memory <= LITTLE * (memory + exploration):
        return "exploration, and hardly memory"
    if exploration <= LITTLE * (memory + exploration):
        return "memory, and hardly exploration"
    return "memory and exploration"


def verdict(report: ValueReport) -> str:
    """What the task needs, in one sentence with its values."""
    if report.memoryless is None or report.myopic is None or report.best_last is None:
        return _bounded_verdict(report)
    myopic, best = report.myopic.last, report.best_last[-1]
    needed = needs(report)
    if needed == NEITHER:
        return f"needs {needed}: the best play without memory ends at {_plain(best)}, and no play ends higher"
    ends = f"paying each episode for itself ends at {_plain(myopic.high)} of {_plain(best)}"
    if myopic.high - myopic.low > ROUNDING:
        ends += f", or at {_plain(myopic.low)} where ties break badly"
    without = f"; without memory {_plain(report.memoryless)}" if "memory" in needed else ""
    return f"needs {needed}: {ends}{without}"


def exploration_at_most(report: ValueReport) -> float | None:
    """An upper bound of the value of exploration, with the upper end of an interval; None without myopic Bayes."""
    return None if report.myopic is None else _last_at_most(report) - report.myopic.last.high


def _last_at_most(report: ValueReport) -> float:
    """The best last score, or the lowest of its upper bounds."""
    if report.best_last is not None:
        return report.best_last[-1]
    uppers = [bound.estimate for bound in report.bounds_of(BEST_LAST) if bound.kind is BoundKind.UPPER]
    return min((bound.value if bound.high is None else bound.high for bound in uppers), default=report.score_range[1])


def _bounded_verdict(report: ValueReport) -> str:
    """What can be said where the task is too large to be planned."""
    most, explored = _last_at_most(report), exploration_at_most(report)
    if report.myopic is not None and explored is not None:
        ends = f"paying each episode for itself ends at {_plain(report.myopic.last.high)}"
        return f"too large to be planned as a whole: {ends}, and exploration adds at most {_plain(explored)}"
    if report.memoryless is not None:
        gain = f"memory and exploration together add at most {_plain(most - report.memoryless)}"
        return f"too large to be planned as a whole: {gain} to {_plain(report.memoryless)} without memory"
    lows = [bound.estimate for bound in report.bounds_of(MEMORYLESS) if bound.kind is BoundKind.LOWER]
    least = max((bound.value if bound.low is None else bound.low for bound in lows), default=report.score_range[0])
    return f"too large to be planned: the best play without memory ends between {_plain(least)} and {_plain(most)}"


def _plain(value: float) -> str:
    """A value as short as three decimals allow.

    >>> _plain(0.5), _plain(1.0), _plain(22 / 63)
    ('0.5', '1', '0.349')
    """
    return f"{round(value, 3) + 0.0:g}"
