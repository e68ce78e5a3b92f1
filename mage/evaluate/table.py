"""An evaluation as a table: scores by episode beside their control, bounds and limits."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from mage.evaluate.exact import References, shown
from mage.evaluate.metrics import Estimate
from mage.evaluate.suite import SplitReport

_CAPTION = (
    "Fixed tasks, 95 % intervals over trials. Without memory: the same weights on the same tasks, memory off. "
    "Best memoryless and limit: exact, for a player who knows the pool and does not, or does, remember."
)


def evaluation_table(reports: Sequence[SplitReport]) -> Table:
    """One column for each split; every score has its interval, and the exact references below."""
    table = Table(title="Judged", title_justify="left", caption=_CAPTION, caption_justify="left", box=None)
    table.add_column("", no_wrap=True)
    for report in reports:
        table.add_column(report.split, justify="right")
    table.add_row("trials", *(str(report.num_trials) for report in reports))
    for k in range(reports[0].episodes):
        table.add_row(f"score, episode {k + 1}", *(interval(report.agent.scores[k]) for report in reports))
    rows = {
        "adaptation": [interval(report.agent.adaptation) for report in reports],
        "last score without memory": [interval(report.control.scores[-1]) for report in reports],
        "adaptation over that": [interval(report.over_control) for report in reports],
        "best memoryless": [over_seats(report, "memoryless") for report in reports],
        "limit": [over_seats(report, "bayes_last") for report in reports],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def interval(estimate: Estimate) -> str:
    """A figure and its reach to either side.

    >>> interval(Estimate(0.5, 0.4, 0.6))
    '+0.500 ±0.100'
    """
    return f"{estimate.value:+.3f} ±{(estimate.high - estimate.low) / 2:.3f}"


def over_seats(report: SplitReport, name: str) -> str:
    """An exact figure averaged over the seats that were played, or a dash where one of them has none."""
    values = [_figure(found, name) for _, found in report.references]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return "–"
    mean = sum(known) / len(known)
    return f"{shown(mean)} = {mean:.3f}" if "/" in shown(mean) else shown(mean)


def _figure(found: References, name: str) -> float | None:
    value: float | None = getattr(found, name)
    return value
