"""Plots of a league: ratings, diversity, exploitability and anchor scores over steps, and pay-offs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mage.evaluation.compare.plots import DPI, heat_map
from mage.files import read_lines
from mage.league.members import MemberKind
from mage.league.report import LeagueReport
from mage.plot_style import Line, line_figure, new_figure, style_context

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OF_LEARNERS = {
    "ratings": ("rating", "rating of each learner", "rating"),
    "anchors": ("anchors", "score against the anchors", "score in the last episode"),
    "nash-conv": ("nash_conv", "exploitability", "NashConv"),
}
"""By figure name: metric, title and axis label."""
_DIVERSITY = "league/diversity"


def write_league_figures(run: Path, report: LeagueReport, folder: Path, command: str) -> list[Path]:
    """Write all figures as PNG, with the command in their metadata."""
    rows = [row for row in read_lines(run / "metrics.jsonl") if isinstance(row, dict)]
    written: list[Path] = []
    with style_context():
        for name, figure in league_figures(report, rows):
            path = folder / f"{name}.png"
            figure.savefig(path, dpi=DPI, metadata={"Description": command, "Software": None})
            written.append(path)
    return written


def league_figures(report: LeagueReport, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Figure]]:
    """All figures that have data, each with a name for its file; `rows` are a run's metrics."""
    learners = [member.id for member in report.members if member.kind is MemberKind.LEARNER]
    for name, (key, title, label) in _OF_LEARNERS.items():
        lines = [line for learner in learners for line in _lines(learner, f"{learner}/{key}", rows)]
        if lines:
            yield name, line_figure(lines, title, ("step", label), {})
    if lines := list(_lines("all members", _DIVERSITY, rows)):
        yield "diversity", line_figure(lines, "diversity", ("step", "effective number of members"), {})
    if report.payoffs:
        yield "payoffs", payoffs_figure(report)


def payoffs_figure(report: LeagueReport) -> Figure:
    """Heat map of each learner's score (column) against each member (row)."""
    members = [member.id for member in report.members if member.retired is None]
    learners = [member.id for member in report.members if member.kind is MemberKind.LEARNER]
    known = {(payoff.row, payoff.column): payoff.score for payoff in report.payoffs}
    scores = [[known.get((learner, member)) for learner in learners] for member in members]
    values = [[0.0 if score is None else score.value for score in row] for row in scores]
    most = max(abs(value) for row in values for value in row) or 1.0
    figure = new_figure(height=1.0 + 0.3 * len(members))
    heat_map(figure.subplots(), values, members, learners, ("PuOr", -most, most), scores)
    figure.suptitle(f"score of the column against the row, step {report.step}", fontsize=8)
    return figure


def _lines(name: str, key: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """The curve of a metric, if it has points."""
    points = [(row["step"], row[key]) for row in rows if isinstance(row.get(key), int | float) and "step" in row]
    if points:
        steps, values = zip(*points, strict=True)
        yield Line(name, steps, values, values, values)
