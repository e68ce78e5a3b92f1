"""Tables for the command line: plain values in, something rich can print out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mage.cli.duel import Duel, DuelRow
from mage.evaluation.compare.columns import printed_episodes
from mage.runs.drawings import shown
from mage.runs.index import Summary
from mage.runs.store import RunInfo
from mage.stats import Estimate, Verdict, mean
from mage.types import Ending
from mage.worlds.openspiel.words.base import signed

_MOST_ARMS = 8
"""Arms of an evaluation whose means are told below its trials."""


class ListEntry(NamedTuple):
    """One thing that can be chosen by name."""

    name: str
    parameters: str
    about: str


def entries(title: str, listed: Sequence[ListEntry]) -> RenderableType:
    """A heading, then two lines for each entry: how it is written, and what it is."""
    lines: list[RenderableType] = [Text(title, "bold blue")]
    for entry in listed:
        lines.append(Text.assemble(shown(entry.name, "bold"), "  ", shown(entry.parameters, "dim")))
        lines.append(Padding(shown(entry.about), (0, 0, 0, 4)))
    return Group(*lines)


def metrics_table(*names: str) -> Table:
    """An empty table whose rows begin with a name; figures stand to the right of their columns."""
    table = Table(header_style="dim", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    return table


def run_header(path: str, info: RunInfo, num: int) -> RenderableType:
    """What a run is, in two lines."""
    versions = ", ".join(f"{name} {version}" for name, version in info.versions.items())
    return Group(
        shown(f"{path}: {info.kind}, {num} {_plural('trial', num)}, seed {info.seed}", "bold"),
        shown(f"created {info.created} with {versions}", "dim"),
    )


def run_table(summaries: Sequence[Summary], limit: int, arms: Sequence[str] = ()) -> RenderableType:
    """One line for each trial, at most `limit` of them; what all have in common is said once above them.

    `arms` says by the number of a trial what it was played for: scores of several arms do not go into one mean.
    """
    played_for = [arms[s.number] if s.number < len(arms) else "" for s in summaries]
    columns: dict[str, list[str]] = {
        "played for": played_for,
        "world": [s.world for s in summaries],
        "agent": [s.agent or "–" for s in summaries],
        "against": [", ".join(s.opponents) for s in summaries],
        "seat": [str(s.seat) for s in summaries],
    }
    common = {name: values[0] for name, values in columns.items() if len(set(values)) == 1 and values[0]}
    table = _table()
    varying = [name for name in columns if name not in common and any(columns[name])]
    for name in ("trial", *varying, "scores by episode", "remarks"):
        table.add_column(name, overflow="fold")
    for index, s in enumerate(summaries[:limit]):
        scores = Text("  ").join(Text(f"{signed(score):>5}") for score in s.scores)
        cells = [shown(columns[name][index]) for name in varying]
        table.add_row(str(s.number), *cells, scores, _remarks(s))
    more = [Text(f"… and {len(summaries) - limit} more; --limit shows them", "dim")] if len(summaries) > limit else []
    above = [shown(", ".join(f"{name} {value}" for name, value in common.items()))] if common else []
    groups = {arm: [s for s, of in zip(summaries, played_for, strict=True) if of == arm] for arm in played_for}
    return Group(*above, Text(), table, *more, *_means(groups))


def duel_table(duel: Duel, game: str, rows: Sequence[DuelRow]) -> RenderableType:
    """How the player did by seat and overall."""
    title = shown(f"{duel.player} against {', '.join(duel.opponents)} at {game}", "bold")
    table = _table()
    for name, justify in (("seat", "left"), ("episodes", "right"), ("", "left"), ("mean", "right"), ("95 %", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        seat = "all seats" if row.seat is None else f"seat {row.seat}"
        for index, metrics in enumerate(_metrics(row)):
            heading = (seat, str(row.num_episodes)) if index == 0 else ("", "")
            table.add_row(*heading, *metrics)
        table.add_row()
    notes = [
        f"{duel.trials} trials in each seat, {duel.episodes} {_plural('episode', duel.episodes)} each; "
        f"all seats are dealt the same; seed {duel.seed}.",
        _apart(rows[-1]),
    ]
    return Group(title, table, *(shown(note, "dim") for note in notes if note))


def _metrics(row: DuelRow) -> list[tuple[str, str, str]]:
    """What a figure is called, its mean and its interval."""
    metrics = [("score", "–", "needs two trials")]
    if row.score:
        metrics = [("score", f"{row.score.value:+.3f}", _span(row.score, "{:+.3f}".format))]
    for name, rate in zip(Verdict, row.rates or (), strict=False):
        metrics.append((f"{name} rate", _percent(rate.value), _span(rate, _percent)))
    return metrics


def _span(figure: Estimate, written: Callable[[float], str]) -> str:
    """From where to where an interval reaches."""
    return " to ".join(written(end) for end in (figure.low, figure.high) if end is not None) or "n/a"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _apart(total: DuelRow) -> str:
    """What was counted apart: it says nothing about skill."""
    counts = {
        "given up by the player": total.forfeits,
        "given up by an opponent": total.opponent_forfeits,
        "too long and stopped": total.truncations,
    }
    parts = [f"{num} {_plural('episode', num)} {what}" for what, num in counts.items() if num]
    parts += [f"{total.failures} {_plural('trial', total.failures)} failed"] if total.failures else []
    return f"Not counted above: {', '.join(parts)}." if parts else ""


def _means(groups: Mapping[str, Sequence[Summary]]) -> list[RenderableType]:
    """Mean scores of each group, of some episodes where there are many; of many groups, nothing."""
    lines = [(arm, told) for arm, summaries in groups.items() if (told := _mean_scores(summaries))]
    if not lines or len(lines) > _MOST_ARMS:
        return []
    about = "Mean scores with 95 % intervals, of episodes played out"
    if len(lines) == 1:
        return [Text(f"{about}: {lines[0][1]}", "dim")]
    return [Text(about, "dim"), *(shown(f"  {arm}: {told}", "dim") for arm, told in lines)]


def _mean_scores(summaries: Sequence[Summary]) -> str:
    columns: dict[int, list[float]] = {}
    for s in summaries:
        for index, (score, ending) in enumerate(zip(s.scores, s.endings, strict=True)):
            if ending is Ending.FINISHED:
                columns.setdefault(index + 1, []).append(score)
    known = {number: mean(scores) for number, scores in sorted(columns.items()) if len(scores) > 1}
    chosen = printed_episodes(max(known, default=0))
    return ", ".join(
        f"episode {number}: {figure.value:+.2f} ({_span(figure, '{:+.2f}'.format)})"
        for number, figure in known.items()
        if number in chosen
    )


def _remarks(s: Summary) -> Text:
    counts = {
        "forfeit": s.forfeits,
        "opponent's forfeit": s.endings.count(Ending.FORFEITED) - s.forfeits,
        "truncated": s.endings.count(Ending.TRUNCATED),
        "invalid reply": s.invalid_replies,
        "overflow": s.overflows,
    }
    remarks = [f"{num} × {what}" for what, num in counts.items() if num]
    return shown(f"failed: {s.error}", "red") if s.error else Text(", ".join(remarks), "yellow")


def _plural(word: str, num: int) -> str:
    return word if num == 1 else f"{word}s"


def _table() -> Table:
    return Table(header_style="dim", box=None, padding=(0, 1), show_edge=False)
