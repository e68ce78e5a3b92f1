"""The values of every shipped split and table, as the table of docs/value.md.

python benchmarks/value_table.py            writes the table into docs/value.md
python benchmarks/value_table.py rps        prints the rows whose task has this in its name
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import mage
from mage.evaluation.splits import has_levels, load_split, split_names
from mage.evaluation.value.report import ValueReport
from mage.evaluation.value.sampled_bounds import BoundKind
from mage.evaluation.value.verdict import exploration_at_most, needs
from mage.worlds.registry import load_world
from mage.worlds.table import shipped_tables

PAGE = Path(__file__).parents[1] / "docs" / "value.md"
BEGIN, END = "<!-- begin of the table that benchmarks/value_table.py writes -->", "<!-- end of the table -->"
BOARDS = (
    "minesweeper(2,2,1,start=closed)",
    "minesweeper(2,2,1,start=closed,stop=0.5)",
    "minesweeper(2,3,2,start=closed,stop=0.5)",
    "minesweeper(3,3,2)",
    "minesweeper(3,3,2,start=closed,stop=0.7)",
)
"""Boards that are small enough for exact values."""
EPISODES = {"hidden(recipe)": 4, "hidden(diagnosis-8)": 4}
"""Tables that need more than three episodes to be solved."""
HEAD = ("task", "seat", "N", "M", "G", "B", "F", "memory", "exploration", "needs")


def tasks() -> Iterator[tuple[str, str, tuple[str, ...], int]]:
    """By name: world, opponents and episodes of every table, small board and split of opponents.

    Reworded splits have the same values, and boards of splits are too large for exact ones.
    """
    for table in shipped_tables():
        world = f"hidden({table})"
        yield world, world, (), EPISODES.get(world, 3)
    for world in BOARDS:
        yield world, world, (), 3
    for name in split_names():
        split = load_split(name)
        if not name.endswith("-reworded") and not has_levels(split.world):
            yield name, split.world, (name,), split.episodes or 3


def rows(wanted: str) -> Iterator[str]:
    """The rows of tasks with this text in their name; seats with the same values share one."""
    for name, world, opponents, episodes in tasks():
        if wanted not in name:
            continue
        found: dict[str, list[int]] = {}
        for seat in range(load_world(world).info.num_seats):
            report = mage.value(world, opponents=opponents, seat=seat, episodes=episodes).report
            found.setdefault(" | ".join(cells(report)), []).append(seat)
        for values, seats in found.items():
            shown = "" if load_world(world).info.num_seats == 1 else " and ".join(map(str, seats))
            yield f"| `{name}` | {shown} | {episodes} | {values} |"
            print(name, seats, file=sys.stderr, flush=True)


def cells(report: ValueReport) -> list[str]:
    """The values of a report; those that are not exact have their bounds, where there are some."""
    myopic = "?"
    if report.myopic is not None:
        low, high = number(report.myopic.last.low), number(report.myopic.last.high)
        myopic = high if low == high else f"{low} to {high}"
    explored = "?" if (most := exploration_at_most(report)) is None else f"≤ {number(most)}"
    if report.exploration is not None:
        explored = number(report.exploration)
    best = None if report.best_last is None else report.best_last[-1]
    return [
        bounded(report, "memoryless", report.memoryless),
        myopic,
        bounded(report, "best_last", best),
        bounded(report, "informed", report.informed),
        "?" if report.memory is None else number(report.memory),
        explored,
        needs(report),
    ]


def bounded(report: ValueReport, name: str, value: float | None) -> str:
    if value is not None:
        return number(value)
    ends = {kind: [b.estimate.value for b in report.bounds_of(name) if b.kind is kind] for kind in BoundKind}
    lower = [f"≥ {number(max(ends[BoundKind.LOWER]))}"] if ends[BoundKind.LOWER] else []
    upper = [f"≤ {number(min(ends[BoundKind.UPPER]))}"] if ends[BoundKind.UPPER] else []
    return ", ".join([*lower, *upper]) or "?"


def number(value: float) -> str:
    return f"{round(value, 9) + 0.0:.3f}"


def with_table(page: str, listed: list[str]) -> str:
    """The page with these rows in its table."""
    before, _, rest = page.partition(BEGIN)
    head = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    return "\n".join([before + BEGIN, *head, *listed, END + rest.partition(END)[2]])


def main() -> None:
    if len(sys.argv) > 1:
        print("\n".join(rows(sys.argv[1])))
    else:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), list(rows(""))), encoding="utf-8")


if __name__ == "__main__":
    main()
