"""The values of a task as tables for a terminal, with a verdict in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.evaluation.exact import fraction_text
from mage.evaluation.exact.myopic import MyopicTrial
from mage.evaluation.exact.planner import EpisodeScores
from mage.evaluation.value.dial import Dial
from mage.evaluation.value.objective_weights import SINGLE, PlannedObjective, objectives
from mage.evaluation.value.report import ValueReport
from mage.evaluation.value.sampled_bounds import BEST_LAST, BEST_SUM, INFORMED, MEMORYLESS, Bound, BoundKind
from mage.evaluation.value.verdict import verdict
from mage.numbers import plain
from mage.runs.console import metrics_table
from mage.runs.drawings import shown
from mage.stats import ROUNDING
from mage.worlds.registry import load_world

LETTERS = {MEMORYLESS: "M", "myopic": "G", BEST_LAST: "B", BEST_SUM: "C", INFORMED: "F"}
"""What the values are called in tables."""
_MOST_COLUMNS = 8
_MOST_NAMES = 4
_NOTES = (
    "M sees the current episode alone. G (myopic Bayes) remembers everything and plays each episode for itself, G+ "
    "with ties broken best: what it adds to M is the value of memory. B may also spend earlier episodes on finding "
    "out: what it adds to G+ is the value of exploration. All know which opponents or levels there are; F is told "
    "which one it is."
)
_SEARCHED = (
    "Words: the best last episode found where one of so many words crosses each boundary; last episode alone: where "
    "only the episode before is remembered. Both by local search, so they are lower bounds."
)


def value_table(report: ValueReport, dial: Dial | None = None) -> RenderableType:
    """All tables of a report, and the verdict."""
    parts: list[RenderableType] = [shown(_headline(report), "bold"), _scores(report), Text()]
    if report.bounds:
        parts += [Text("bounds, because the task is too large to be planned", "bold"), _bounds(report.bounds), Text()]
    if report.objectives:
        parts += [Text("what each objective ends at", "bold"), _objectives(report), Text()]
    if report.words_at_least or report.last_episode_at_least is not None:
        parts += [Text("with little memory, last episode at least", "bold"), _memories(report), Text()]
    if dial is not None:
        title = f"where the last score jumps as {dial.parameter} rises"
        parts += [shown(title, "bold"), _thresholds(dial, objectives(report.discount)), Text()]
    return Group(*parts, shown(verdict(report), "bold"), Text(), *(Text(note, "dim") for note in _notes(report)))


def _headline(report: ValueReport) -> str:
    members = [member for member, _ in report.members if member]
    has_levels = load_world(report.world).info.num_seats == 1
    kind = "levels" if has_levels else "opponents"
    listed = ", ".join(members) if len(members) <= _MOST_NAMES else f"{len(members)} {kind}"
    seat = "" if has_levels else f", seat {report.seat}"
    length = "1 episode" if report.episodes == 1 else f"{report.episodes} episodes"
    return f"{report.world}{seat}: {listed or 'all levels'}, trials of {length}"


def _scores(report: ValueReport) -> Table:
    table = metrics_table("", "last episode", "exactly", "sum")
    myopic, last, total = report.myopic, report.best_last, report.best_sum
    table.add_row("M   best without memory", *_cells(report.memoryless))
    for name, scores in _myopic_rows(myopic):
        table.add_row(name, *_cells(scores[-1]), plain(fsum(scores)))
    if myopic is None:
        table.add_row("G   myopic Bayes", *_cells(None))
    of_last = "" if last is None else plain(fsum(last))
    table.add_row("B   best last episode", *_cells(None if last is None else last[-1]), of_last)
    of_total = "" if total is None else plain(fsum(total))
    table.add_row("C   best sum", *_cells(None if total is None else total[-1]), of_total)
    table.add_row("F   told what is hidden", *_cells(report.informed))
    for name, value in (
        ("value of memory, G+ - M", report.memory),
        ("value of exploration, B - G+", report.exploration),
    ):
        if value is not None:
            table.add_row(name, *_cells(value))
    if report.price is not None:
        table.add_row("price of exploring, C's sum - B's sum", "", "", plain(report.price))
    return table


def _myopic_rows(myopic: MyopicTrial | None) -> list[tuple[str, EpisodeScores]]:
    """One row where ties do not matter, else one for each way in which they break."""
    if myopic is None:
        return []
    if myopic.last.high - myopic.last.low <= ROUNDING:
        return [("G   myopic Bayes", myopic.high)]
    rows = (("G-", "worst", myopic.low), ("G~", "even", myopic.even), ("G+", "best", myopic.high))
    return [(f"{name}  myopic Bayes, {how} ties", scores) for name, how, scores in rows]


def _cells(value: float | None) -> tuple[str, str]:
    """A value with its fraction, where it is exact."""
    if value is None:
        return "not exact", ""
    is_short = abs(value - round(value, 3)) < ROUNDING
    text = fraction_text(value)
    return plain(value), "" if is_short else text if "/" in text else f"{value:.6f}"


def _bounds(bounds: Sequence[Bound]) -> Table:
    """The bounds of values that are not exact, each with its interval and how it was found."""
    table = metrics_table("", "bound", "95 % interval", "from")
    for bound in bounds:
        side = "at most" if bound.kind is BoundKind.UPPER else "at least"
        low, high = bound.estimate.low, bound.estimate.high
        ends = "" if low is None or high is None else f"{plain(low)} to {plain(high)}"
        what = f"{LETTERS[bound.of]}{', the sum,' if bound.of == BEST_SUM else ''} is {side}"
        table.add_row(what, plain(bound.estimate.value), ends, bound.how)
    return table


def _objectives(report: ValueReport) -> Table:
    num = report.episodes
    kept = list(range(num)) if num <= _MOST_COLUMNS else [0, 1, 2, num - 2, num - 1]
    table = metrics_table("episode", *(str(episode + 1) for episode in kept), "sum")
    for objective in report.objectives:
        scores = [plain(objective.scores[episode]) for episode in kept]
        table.add_row(objective.label, *scores, plain(fsum(objective.scores)))
    return table


def _memories(report: ValueReport) -> Table:
    words = [str(num) if num > 1 else "1 word" for num in range(1, len(report.words_at_least) + 1)]
    verbatim = report.last_episode_at_least
    table = metrics_table("", *words, *(() if verbatim is None else ("last episode alone",)))
    found = [*report.words_at_least, *(() if verbatim is None else (verbatim,))]
    table.add_row("at least", *(plain(value) for value in found))
    return table


def _thresholds(dial: Dial, kinds: Sequence[PlannedObjective]) -> Table:
    table = metrics_table("", dial.parameter, "last below", "last above")
    for kind in kinds:
        mine = [found for found in dial.thresholds if found.objective == kind.name]
        for found in mine:
            table.add_row(kind.label, f"{found.value:.6f}", plain(found.below), plain(found.above))
        if not mine:
            ends = (point.last[kind.name] for point in (dial.points[0], dial.points[-1]))
            table.add_row(kind.label, "no jump", *map(plain, ends))
    return table


def _notes(report: ValueReport) -> Iterator[str]:
    """What the values mean and where they come from."""
    yield _NOTES
    if any(objective.name == SINGLE for objective in report.objectives):
        yield "Objectives: where ties leave a choice, the better last episode, then the larger sum; single is G+."
    if report.words_at_least or report.last_episode_at_least is not None:
        yield _SEARCHED
    for why in dict.fromkeys(report.missing.values()):
        names = [LETTERS.get(name, name.replace("_", " ")) for name, found in report.missing.items() if found == why]
        yield f"Not exact: {', '.join(names)}; {why}."
