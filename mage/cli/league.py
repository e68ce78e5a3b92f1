"""`mage league`: members and ratings, pay-offs, the family tree and events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.color import Color
from rich.console import Group, RenderableType
from rich.style import Style
from rich.text import Text
from rich.tree import Tree

from mage.errors import RecordError
from mage.evaluation.suite.report import command_line
from mage.league.members import MemberKind
from mage.league.plots import write_league_figures
from mage.league.report import LeagueEvent, LeagueReport, MemberStanding, Payoff, read_league
from mage.numbers import plain, signed
from mage.plot_style import check_matplotlib
from mage.runs.console import metrics_table, plain_console
from mage.runs.drawings import shown
from mage.runs.store import read_info
from mage.stats import Estimate

_ORDER = (MemberKind.LEARNER, MemberKind.ANCHOR, MemberKind.SNAPSHOT)
_HIGH, _LOW = (140, 196, 245), (255, 179, 122)
"""Blue and orange, which colour-blind readers tell apart too; black letters can be read on both."""
_NAME, _CELL = 26, 15
"""Columns of a terminal that a name and a pay-off take."""
_MEMBERS = (
    "Rating: what one scores against another is about the difference of theirs (least squares over the pay-offs), with "
    "95 % intervals. Results: groups of trials on the pay-off table. Drawn: how often learners meet it now, on average."
)
_PAYOFFS = "Score of the learner above against the member on the left in the last episode of a trial, 95 % intervals."
_WHAT = {"exploit": "copy", "rollback": "rollback", "snapshot": "snapshot", "evict": "retired"}
"""What each kind of event is called in the list."""


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A train run with league.learners over 0.")],
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw it too, as PNG files in this directory.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON instead.")] = False,
) -> None:
    """Show the league of a run. Members with ratings, pay-offs, family tree; members copied, kept, retired, and why."""
    read_info(run)
    report = read_league(run)
    if plots is not None:
        check_matplotlib(otherwise="")
        try:
            plots.mkdir(parents=True, exist_ok=True)
            write_league_figures(run, report, plots, command_line())
        except OSError as error:
            raise RecordError(f"cannot write to {plots}: {error.strerror or error}") from None
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
        return
    console = plain_console()
    console.print(league_tables(str(run), report, console.width))
    if plots is not None:
        console.print(shown(f"\nsaved in   {plots}", "dim"), soft_wrap=True)


def league_tables(name: str, report: LeagueReport, width: int) -> RenderableType:
    """All tables of a league, for a terminal of `width` columns."""
    members = [member for member in in_order(report.members) if member.retired is None]
    counts = ", ".join(_count(sum(member.kind is kind for member in members), kind) for kind in _ORDER)
    title = f"{name}: league at step {report.step}, {counts}"
    about = f"{report.leader} leads; diversity {report.diversity:.2f} (effective number of members)"
    sections: list[tuple[str, RenderableType, str]] = [
        ("Members", _members(report, members), _MEMBERS),
        ("Pay-offs", _payoffs(report, members, width), _PAYOFFS),
        ("Family tree", _tree(report), ""),
        ("What happened", _events(report.events), ""),
    ]
    parts: list[RenderableType] = [shown(title, "bold"), shown(about)]
    for heading, body, note in sections:
        parts += [Text(), Text(heading, "bold blue"), body, *([Text(note, "dim")] if note else [])]
    return Group(*parts)


def in_order(members: Sequence[MemberStanding]) -> list[MemberStanding]:
    """Learners, anchors, snapshots; of each kind the best first."""
    return sorted(members, key=lambda m: (_ORDER.index(m.kind), -m.rating.value if m.rating else 0.0, m.id))


def _members(report: LeagueReport, members: Sequence[MemberStanding]) -> RenderableType:
    table = metrics_table("member", "kind", "born", "parents", "rating", "results", "drawn")
    table.columns[1].justify = table.columns[3].justify = "left"
    for member in members:
        born = "" if member.kind is MemberKind.ANCHOR else str(member.born)
        drawn = "–" if member.drawn is None else f"{100 * member.drawn:.1f} %"
        rating = "–" if member.rating is None else _estimate(member.rating)
        parents = shown(", ".join(member.parents))
        style = "bold" if member.id == report.leader else ""
        table.add_row(shown(member.id, style), member.kind, born, parents, rating, str(member.results), drawn)
    return table


def _payoffs(report: LeagueReport, members: Sequence[MemberStanding], width: int) -> RenderableType:
    """A row for each member and a column for each learner; learners that do not fit get a table below."""
    learners = [member.id for member in members if member.kind is MemberKind.LEARNER]
    found = {(payoff.row, payoff.column): payoff for payoff in report.payoffs}
    most = max((abs(payoff.score.value) for payoff in report.payoffs), default=0.0) or 1.0
    fitting = max(1, (width - _NAME) // _CELL)
    tables: list[RenderableType] = []
    for first in range(0, len(learners), fitting):
        chosen = learners[first : first + fitting]
        table = metrics_table("", *chosen)
        for member in members:
            table.add_row(shown(member.id), *(_cell(found.get((learner, member.id)), most) for learner in chosen))
        tables.append(table)
    return Group(*tables)


def _cell(payoff: Payoff | None, most: float) -> Text:
    if payoff is None:
        return Text("–", "dim")
    return Text(_estimate(payoff.score), _tint(payoff.score.value / most))


def _tint(share: float) -> Style:
    """The further from 0, the stronger the colour; a terminal without colours shows none.

    >>> _tint(-1.0).bgcolor == Color.from_rgb(255, 179, 122), _tint(0.0).bgcolor == Color.from_rgb(255, 255, 255)
    (True, True)
    """
    full = _HIGH if share > 0 else _LOW
    red, green, blue = (255 - abs(share) * (255 - part) for part in full)
    return Style(color="black", bgcolor=Color.from_rgb(red, green, blue))


def _tree(report: LeagueReport) -> RenderableType:
    """Below each learner, in the order of time, its snapshots, copies and rollbacks."""
    trees: list[RenderableType] = []
    for learner in (member for member in report.members if member.kind is MemberKind.LEARNER):
        tree = Tree(shown(learner.id, "bold"), guide_style="dim")
        for _, line in sorted(_life(report, learner), key=lambda pair: pair[0]):
            tree.add(line)
        trees.append(tree)
    return Group(*trees)


def _life(report: LeagueReport, learner: MemberStanding) -> Iterator[tuple[int, Text]]:
    for member in report.members:
        if member.kind is MemberKind.SNAPSHOT and member.family == learner.id:
            retired = "" if member.retired is None else f"  retired at step {member.retired}"
            yield member.born, Text.assemble(shown(member.id), Text(retired, "dim"))
    for event in report.events:
        if event.member == learner.id and event.kind in ("exploit", "rollback"):
            what = "copied" if event.kind == "exploit" else "went back to"
            yield event.step, shown(f"{what} {event.parent or 'an earlier state'} at step {event.step}", "italic")


def _events(events: Sequence[LeagueEvent]) -> RenderableType:
    """One line for each event; events of several members with the same step and reason share one."""
    if not events:
        return Text("nothing yet")
    table = metrics_table("step", "what", "who", "why")
    for column in table.columns:
        column.justify = "left"
    for _, same in groupby(events, key=lambda event: (event.step, event.kind, event.reason, event.parent is None)):
        together = list(same)
        first = together[0]
        what = _WHAT.get(first.kind, first.kind)
        table.add_row(str(first.step), shown(what), _who(together), _why(first))
    return table


def _who(events: Sequence[LeagueEvent]) -> Text:
    first = events[0]
    if first.kind in ("exploit", "rollback"):
        return shown(", ".join(f"{event.member} from {event.parent or 'an earlier state'}" for event in events))
    return shown(", ".join(event.member for event in events))


def _why(event: LeagueEvent) -> Text:
    changes = [f"{key} {old:.3g} to {new:.3g}" for key, (old, new) in event.changes.items()]
    return shown("; ".join(part for part in (event.reason, *changes) if part))


def _estimate(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return signed(estimate.value, 2)
    return f"{signed(estimate.value, 2)} ±{plain((estimate.high - estimate.low) / 2, 2)}"


def _count(number: int, kind: MemberKind) -> str:
    return f"{number} {kind}" if number == 1 else f"{number} {kind}s"
