"""Reports of cross-play and NashConv as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_uppercase

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.evaluation.crossplay import CrossPlayReport
from mage.evaluation.exploitability.nashconv import Exploitability, NashConvReport
from mage.evaluation.exploitability.responders import LowerBound
from mage.evaluation.suite.report_tables import interval
from mage.numbers import plain, signed
from mage.runs.console import metrics_table
from mage.runs.drawings import shown
from mage.stats import Estimate

_CROSS_PLAY = (
    "Score of the row in an episode against the column, both seats alike, with 95 % intervals over trials. Elo: from "
    "wins, a draw is half a win, the mean is 0. Nash share and score: the agents' equilibrium of highest entropy, and "
    "what each scores against it. Intervals of ratings: trials drawn anew (bootstrap)."
)
_NASH_CONV = (
    "NashConv: what best replies to the agent gain, summed over the seats; 0 is an equilibrium. Gain of a seat: what "
    "the best reply there gains against the agent in all others. 95 % intervals over trials."
)


def cross_play_table(report: CrossPlayReport) -> RenderableType:
    """The pay-off matrix, scores and ratings."""
    letters = [label(number) for number in range(len(report.agents))]
    length = "1 episode" if report.episodes == 1 else f"{report.episodes} episodes"
    title = f"{report.world}, {report.num_trials} trials of {length} in each seat against each other"
    notes = [
        _CROSS_PLAY,
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
        elo = _span(standing.elo, 0)
        table.add_row(shown(standing.agent), interval(standing.score), elo, str(standing.forfeits))
    return table


def _populations(report: CrossPlayReport) -> Table:
    """Ratings of the agents as strategies of the game between them."""
    table = metrics_table("", "Nash score", "Nash share", "alpha-rank")
    for s in sorted(report.standings, key=lambda s: (_order(s.nash_score), _order(s.nash_share or s.alpha_rank))):
        shares = [_span(share, show=plain) for share in (s.nash_share, s.alpha_rank)]
        table.add_row(shown(s.agent), _span(s.nash_score), *shares)
    return table


def _order(estimate: Estimate | None) -> float:
    """Best first; what is equal but for rounding is equal."""
    return -round(estimate.value, 6) if estimate else 0.0


def _span(estimate: Estimate | None, decimals: int = 3, show: Callable[[float, int], str] = signed) -> str:
    """A rating and from where to where it reaches: ratings do not scatter evenly.

    >>> _span(Estimate(12.4, -3.0, 40.2), 0), _span(None)
    ('+12 (-3 to +40)', '–')
    """
    if estimate is None:
        return "–"
    known = (value for value in (estimate.value, estimate.low, estimate.high) if value is not None)
    value, *ends = (show(one, decimals) for one in known)
    return f"{value} ({' to '.join(ends)})" if ends else value


def nash_conv_table(report: NashConvReport | LowerBound) -> RenderableType:
    """NashConv beside that of even play and of an equilibrium."""
    return _bound_table(report) if isinstance(report, LowerBound) else _exact_table(report)


def _exact_table(report: NashConvReport) -> RenderableType:
    seats = [f"gain of seat {seat}" for seat in range(len(report.num_states))]
    table = metrics_table("", "NashConv", *seats, "policies")
    empty = [""] * (len(seats) + 1)
    table.add_row("first episode", *_metrics(report.first))
    if report.last is not None:
        table.add_row(f"episode {report.episodes}, after {report.last.opponent}", *_metrics(report.last.reading))
        table.add_row("change", interval(report.last.change), *empty)
    table.add_row("even play", plain(report.uniform), *empty)
    if report.cfr is not None:
        table.add_row(f"CFR+, {report.cfr_iterations} iterations", plain(report.cfr), *empty)
    title = f"{report.agent} at {report.world}, read at {sum(report.num_states)} information states"
    return Group(shown(title, "bold"), table, *(Text(note, "dim") for note in (_NASH_CONV, *_notes(report))))


def _notes(report: NashConvReport) -> list[str]:
    """What estimates that are not exact depend on."""
    readings = [report.first, *([report.last.reading] if report.last else [])]
    num_samples = max(reading.num_samples for reading in readings)
    if not num_samples:
        return []
    share = max(reading.forfeits for reading in readings)
    unread = max(reading.unread for reading in readings)
    return [
        f"Estimated from {num_samples} answers at each information state, so it is too high rather than too low. "
        f"{100 * share:.1f} % of them gave up; at {100 * unread:.1f} % of the states all did, and play is taken to be "
        "even there."
    ]


def _bound_table(report: LowerBound) -> RenderableType:
    table = metrics_table("", "responder", "score")
    for response in report.responses:
        table.add_row(f"best in seat {response.seat}", response.responder, interval(response.score))
    for seat, own in enumerate(report.own or ()):
        table.add_row(f"the agent itself in seat {seat}", "", interval(own))
    table.add_row("NashConv is at least", "", interval(report.nash_conv))
    title = f"{report.agent} at {report.world}, first episode, {report.num_trials} trials in each seat"
    note = (
        "What the best of these responders gain, summed over the seats: "
        f"{', '.join(report.responders)}. They were chosen on other trials. {report.failures} trials failed."
    )
    return Group(shown(title, "bold"), table, Text(note, "dim"))


def _metrics(reading: Exploitability) -> list[str]:
    return [_value(reading.nash_conv), *map(_value, reading.gains), str(reading.num_trials)]


def _value(estimate: Estimate) -> str:
    """An estimate with its interval, or an exact value alone."""
    return plain(estimate.value) if estimate.low is None else interval(estimate)
