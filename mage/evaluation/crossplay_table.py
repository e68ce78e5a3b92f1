"""A cross-play report as tables: the pay-off matrix and the standings."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.evaluation.crossplay import CrossPlayReport
from mage.evaluation.suite.report_tables import interval
from mage.runs.console import metrics_table
from mage.runs.drawings import shown
from mage.stats import Estimate

_CAPTION = (
    "Score of the row in an episode against the column, both seats alike, with 95 % intervals over trials. Elo: from "
    "wins, a draw is half a win, the mean is 0. Nash share and score: the agents' equilibrium of highest entropy, and "
    "what each scores against it. Intervals of ratings: trials drawn anew (bootstrap)."
)


def cross_play_table(report: CrossPlayReport) -> RenderableType:
    """The pay-off matrix, scores and ratings."""
    letters = [label(number) for number in range(len(report.agents))]
    length = "1 episode" if report.episodes == 1 else f"{report.episodes} episodes"
    title = f"{report.world}, {report.num_trials} trials of {length} in each seat against each other"
    notes = [
        _CAPTION,
        *(f"No {name.replace('_', '-')}: {why}." for name, why in report.missing.items()),
        f"Not counted: {report.failures} failed trials, {report.truncations} episodes too long and stopped, "
        f"{sum(standing.forfeits for standing in report.standings)} given up.",
    ]
    tables = (_matrix(report, letters), Text(), _scores(report), Text(), _populations(report))
    return Group(shown(title, "bold"), *tables, *(Text(note, "dim") for note in notes))


def label(number: int) -> str:
    """A letter, or two where there are many.

    >>> label(0), label(27)
    ('A', 'AB')
    """
    rest, place = divmod(number, len(ascii_uppercase))
    return (ascii_uppercase[rest - 1] if rest else "") + ascii_uppercase[place]


def _matrix(report: CrossPlayReport, letters: Sequence[str]) -> Table:
    table = metrics_table("", *(f"against {letter}" for letter in letters))
    scores = {(cell.row, cell.column): cell.score for cell in report.cells}
    for letter, row in zip(letters, report.agents, strict=True):
        cells = ["0" if (row, column) not in scores else interval(scores[row, column]) for column in report.agents]
        table.add_row(shown(f"{letter}  {row}"), *cells)
    return table


def _scores(report: CrossPlayReport) -> Table:
    table = metrics_table("", "score", "Elo", "gave up")
    for standing in sorted(report.standings, key=lambda s: _order(s.elo or s.score)):
        elo = _span(standing.elo, "{:+.0f}")
        table.add_row(shown(standing.agent), interval(standing.score), elo, str(standing.forfeits))
    return table


def _populations(report: CrossPlayReport) -> Table:
    """Ratings of the agents as strategies of the game between them."""
    table = metrics_table("", "Nash score", "Nash share", "alpha-rank")
    for s in sorted(report.standings, key=lambda s: (_order(s.nash_score), _order(s.nash_share or s.alpha_rank))):
        shares = [_span(share, "{:.2f}") for share in (s.nash_share, s.alpha_rank)]
        table.add_row(shown(s.agent), _span(s.nash_score, "{:+.3f}"), *shares)
    return table


def _order(estimate: Estimate | None) -> float:
    """Best first; what is equal but for rounding is equal."""
    return -round(estimate.value, 6) if estimate else 0.0


def _span(estimate: Estimate | None, form: str) -> str:
    """A rating and from where to where it reaches: ratings do not scatter evenly.

    >>> _span(Estimate(12.4, -3.0, 40.2), "{:+.0f}"), _span(None, "{:+.0f}")
    ('+12 (-3 to +40)', '–')
    """
    if estimate is None:
        return "–"
    value, *ends = (
        form.format(round(v, 6) + 0.0) for v in (estimate.value, estimate.low, estimate.high) if v is not None
    )
    return f"{value} ({' to '.join(ends)})" if ends else value
