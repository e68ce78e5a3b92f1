"""An evaluation as a table: scores by episode beside their control, bounds and limits."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from mage.evaluate.exact import References, shown
from mage.evaluate.metrics import Estimate
from mage.evaluate.reflections import ReflectionReport
from mage.evaluate.suite import SplitReport

_CAPTION = (
    "Fixed tasks, 95 % intervals over trials. Without memory: the same weights on the same tasks, memory off. "
    "Best memoryless and limit: exact, for a player who knows the pool and does not, or does, remember."
)

_REFLECTIONS = (
    "The same tasks and seeds played three times, 95 % intervals over trials, differences paired. Removed: the agent "
    "remembers none of its notes. Swapped: it remembers those of a trial against another opponent."
)
WIDTH = 80
"""Of a terminal: splits that do not fit beside each other are put below."""
_NAMES, _CELLS, _GAP = 25, 15, 2

Rows = Sequence[tuple[str, Sequence[str]]]
"""The name of each row and its cells, one for each split."""


def evaluation_table(reports: Sequence[SplitReport]) -> Group:
    """One column for each split; every score has its interval, and the exact references below."""
    most = max(report.episodes for report in reports)
    rows = [
        ("trials", [str(report.num_trials) for report in reports]),
        *((f"score, episode {k + 1}", [_nth(report.agent.scores, k) for report in reports]) for k in range(most)),
        ("adaptation", [interval(report.agent.adaptation) for report in reports]),
        ("last score without memory", [interval(report.control.scores[-1]) for report in reports]),
        ("adaptation over that", [interval(report.over_control) for report in reports]),
        ("best memoryless", [over_seats(report.references, "memoryless") for report in reports]),
        ("limit", [over_seats(report.references, "bayes_last") for report in reports]),
    ]
    return _tables("Judged", _CAPTION, [report.split for report in reports], rows)


def reflections_table(reports: Sequence[ReflectionReport]) -> Group:
    """The last score with an agent's own reflections, without any and with another trial's."""
    rows = [
        ("trials", [str(report.num_trials) for report in reports]),
        ("last score, own notes", [interval(report.kept[-1]) for report in reports]),
        ("notes removed", [interval(report.removed[-1]) for report in reports]),
        ("notes swapped", [interval(report.swapped[-1]) for report in reports]),
        ("own over removed", [interval(report.over_removed[-1]) for report in reports]),
        ("own over swapped", [interval(report.over_swapped[-1]) for report in reports]),
        ("best memoryless", [over_seats(report.references, "memoryless") for report in reports]),
        ("limit", [over_seats(report.references, "bayes_last") for report in reports]),
    ]
    return _tables("What reflections do", _REFLECTIONS, [report.split for report in reports], rows)


def _tables(title: str, caption: str, splits: Sequence[str], rows: Rows) -> Group:
    """As many tables as the splits need to fit the width."""
    tables: list[Table] = []
    start = 0
    while start < len(splits):
        stop, width = start, _NAMES + _GAP
        while stop < len(splits) and (stop == start or width + _column(splits[stop]) <= WIDTH):
            width += _column(splits[stop])
            stop += 1
        tables.append(_table(title if not start else None, splits[start:stop], [(n, c[start:stop]) for n, c in rows]))
        start = stop
    return Group(*tables, Text(caption, "italic dim"))


def _table(title: str | None, splits: Sequence[str], rows: Rows) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column("", no_wrap=True, min_width=_NAMES)
    for split in splits:
        table.add_column(split, justify="right", no_wrap=True)
    for name, cells in rows:
        table.add_row(name, *cells)
    return table


def _column(split: str) -> int:
    """The width of a split's column and the gap beside it."""
    return max(len(split), _CELLS) + _GAP


def _nth(scores: Sequence[Estimate], k: int) -> str:
    return interval(scores[k]) if k < len(scores) else ""


def interval(estimate: Estimate) -> str:
    """A figure and its reach to either side, which one trial alone does not have.

    >>> interval(Estimate(0.5, 0.4, 0.6)), interval(Estimate(0.5, None, None))
    ('+0.500 ±0.100', '+0.500 ±n/a')
    """
    value = round(estimate.value, 3) + 0.0  # no minus before zero
    if estimate.low is None or estimate.high is None:
        return f"{value:+.3f} ±n/a"
    return f"{value:+.3f} ±{(estimate.high - estimate.low) / 2:.3f}"


def over_seats(references: Sequence[tuple[int, References]], name: str) -> str:
    """An exact figure averaged over the seats that were played, or a dash where one of them has none."""
    values = [_figure(found, name) for _, found in references]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return "–"
    mean = sum(known) / len(known)
    return f"{shown(mean)} = {mean:.3f}" if "/" in shown(mean) else shown(mean)


def _figure(found: References, name: str) -> float | None:
    value: float | None = getattr(found, name)
    return value
