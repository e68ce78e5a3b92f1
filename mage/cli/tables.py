"""Parts that several commands print: tables of trials, and where a run is saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.evaluation.compare.columns import printed_episodes
from mage.numbers import signed
from mage.runs.drawings import shown
from mage.runs.index import Summary
from mage.runs.new_directory import new_run_path
from mage.runs.store import RunWriter
from mage.spec import parse_spec
from mage.stats import Estimate, mean
from mage.types import Ending
from mage.worlds.openspiel.words.base import signed as short_score

_MOST_ARMS = 8
"""Arms of an evaluation whose means are told below its trials."""


def new_run(run: Path | None, kind: str, world: str, config: dict[str, object], seed: int) -> RunWriter:
    """A new run, in `run` or under runs/."""
    path = new_run_path(kind, parse_spec(world).name) if run is None else run
    return RunWriter.create(path, kind=kind, config=config, seed=seed)


def say_saved(console: Console, path: Path, number: str) -> None:
    """Where a run lies and how to look at it; long lines are left whole, to be copied."""
    console.print(shown(f"\nsaved in   {path}\nlook with  mage show {path}{number}", "dim"), soft_wrap=True)


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
        "level": [s.level for s in summaries],
        "seat": [str(s.seat) for s in summaries],
    }
    common = {name: values[0] for name, values in columns.items() if len(set(values)) == 1 and values[0]}
    table = plain_table()
    varying = [name for name in columns if name not in common and any(columns[name])]
    for name in ("trial", *varying, "scores by episode", "remarks"):
        table.add_column(name, overflow="fold")
    for index, s in enumerate(summaries[:limit]):
        scores = Text("  ").join(Text(f"{short_score(score):>5}") for score in s.scores)
        cells = [shown(columns[name][index]) for name in varying]
        table.add_row(str(s.number), *cells, scores, _remarks(s))
    more = [Text(f"… and {len(summaries) - limit} more; --limit shows them", "dim")] if len(summaries) > limit else []
    above = [shown(", ".join(f"{name} {value}" for name, value in common.items()))] if common else []
    groups = {arm: [s for s, of in zip(summaries, played_for, strict=True) if of == arm] for arm in played_for}
    return Group(*above, Text(), table, *more, *_means(groups))


def span(estimate: Estimate, written: Callable[[float], str]) -> str:
    """From where to where an interval reaches."""
    return " to ".join(written(end) for end in (estimate.low, estimate.high) if end is not None) or "n/a"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


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
        f"episode {number}: {signed(estimate.value)} ({span(estimate, signed)})"
        for number, estimate in known.items()
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


def plural(word: str, num: int) -> str:
    return word if num == 1 else f"{word}s"


def plain_table() -> Table:
    return Table(header_style="dim", box=None, padding=(0, 1), show_edge=False)
