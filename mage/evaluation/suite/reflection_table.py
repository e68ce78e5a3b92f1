"""The table of what reflections do, one column per split."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group

from mage.evaluation.suite.reflections import ReflectionReport
from mage.evaluation.suite.report_tables import interval, limit_rows, percent, split_tables

_CAPTION = (
    "The same tasks and seeds in seven arms, 95 % intervals over trials, or over members that are not met in "
    "training; differences paired. Removed: the agent remembers none of its notes. Swapped: it remembers those of a "
    "trial against another opponent. Shortened: the first words of its own. History: it writes nothing and remembers "
    "what happened. Notes alone: the last episode again with its notes as the only memory; blank: with none. Next: in "
    "all episodes but the first. Named: notes that name the opponent's family; by chance, that of another trial's "
    "opponent."
)


def reflections_table(reports: Sequence[ReflectionReport]) -> Group:
    """Last scores with the agent's own reflections, without, and with others in their place."""
    alone = [report.alone for report in reports]
    rows = [
        ("trials", [str(report.num_trials) for report in reports]),
        ("intervals over", [report.units.value for report in reports]),
        ("last score, own notes", [interval(report.kept[-1]) for report in reports]),
        ("notes removed", [interval(report.removed[-1]) for report in reports]),
        ("notes swapped", [interval(report.swapped[-1]) for report in reports]),
        (f"first {reports[0].words} words of them", [interval(report.shortened[-1]) for report in reports]),
        ("history instead", [interval(report.history[-1]) for report in reports]),
        ("notes alone", [interval(found.reader if found else None) for found in alone]),
        ("blank", [interval(found.blank if found else None) for found in alone]),
        ("own over removed", [interval(report.over_removed[-1]) for report in reports]),
        ("own over swapped", [interval(report.over_swapped[-1]) for report in reports]),
        ("own over shortened", [interval(report.over_shortened[-1]) for report in reports]),
        ("own over history", [interval(report.over_history[-1]) for report in reports]),
        ("own over notes alone", [interval(found.kept_over_reader if found else None) for found in alone]),
        ("notes alone over blank", [interval(found.reader_over_blank if found else None) for found in alone]),
        ("next, own over removed", [interval(report.next_over_removed) for report in reports]),
        ("next, own over swapped", [interval(report.next_over_swapped) for report in reports]),
        ("next, own over shortened", [interval(report.next_over_shortened) for report in reports]),
        ("next, own over history", [interval(report.next_over_history) for report in reports]),
        ("opponent named (%)", [percent(report.naming.named) if report.naming else "–" for report in reports]),
        ("  by chance", [percent(report.naming.by_chance) if report.naming else "–" for report in reports]),
        *limit_rows(reports),
    ]
    return split_tables("What reflections do", _CAPTION, [report.split for report in reports], rows)
