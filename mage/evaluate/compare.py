"""Methods side by side: one table for each split, one row for each method, ties by paired intervals.

Several training seeds of a method are one row: means over the seeds with Student's interval over them. One seed alone
keeps its intervals over trials.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import msgspec

from mage.errors import ConfigError, RecordError
from mage.evaluate.columns import Column, columns
from mage.evaluate.cost import History, Level, Reached, levels, reached
from mage.evaluate.limits import over_seats
from mage.evaluate.metrics import ROUNDING, Estimate, mean_of_few
from mage.evaluate.suite import SplitReport
from mage.evaluate.ties import Mark, Measured, Standing, standings


class Judged(msgspec.Struct, frozen=True):
    """One agent on one split."""

    report: SplitReport
    task_seed: int
    """Fixes the tasks: trials of two reports with the same one can be paired."""
    seconds: float | None
    """How long the agent's trials took by the clock, where somebody looked."""
    path: str


class Entry(msgspec.Struct, frozen=True):
    """What there is about one method with one training seed."""

    method: str
    seed: int | None
    """None for agents that were not trained."""
    recipe: Hashable
    """Equal for entries that differ by their seed alone."""
    judged: tuple[Judged, ...]
    history: History | None


class Figure(msgspec.Struct, frozen=True):
    """A figure of a method, and how it stands among the others."""

    estimate: Estimate
    standing: Standing = Standing(Mark.NONE)


class Row(msgspec.Struct, frozen=True):
    """One method on one split."""

    method: str
    seeds: tuple[int, ...]
    """Training seeds that its means are over; empty for an agent that was not trained."""
    num_trials: int
    """Of all seeds together."""
    figures: Mapping[str, Figure]
    """By the key of a column; without those that are not known exactly."""
    controls: tuple[Estimate, ...]
    """Scores by episode without memory."""
    ranges: tuple[tuple[float, float], ...]
    """The lowest and the highest score of a seed, by episode."""
    exploitation: Mapping[str, float | None]
    """By opponent, averaged over seeds; None where nothing can be gained or an exact value is missing."""
    tokens: float
    """Of the streams of a trial, read and sampled."""
    seconds: float | None
    """By the clock, per trial; many are played at once."""

    @property
    def scores(self) -> tuple[Estimate, ...]:
        """By episode."""
        return tuple(self.figures[f"score_{k + 1}"].estimate for k in range(len(self.controls)))


class Costs(msgspec.Struct, frozen=True):
    """What training a method cost, in all and until its last episode reached a level."""

    method: str
    num_seeds: int
    tokens: Estimate
    seconds: Estimate
    reached: Mapping[Level, Reached]


class Table(msgspec.Struct, frozen=True):
    """All methods on one split, over trials of one length from the same seats."""

    name: str
    """The split, and what sets it apart where it was judged in several ways."""
    split: str
    sha256: str
    game: str
    episodes: int
    seats: tuple[int, ...]
    memoryless: float | None
    limit: float | None
    rows: tuple[Row, ...]
    costs: tuple[Costs, ...]
    """Of the methods whose training is known."""


class Comparison(msgspec.Struct, frozen=True):
    """All that was compared."""

    tables: tuple[Table, ...]
    entries: tuple[Entry, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """In the order in which they were given."""
        return tuple(dict.fromkeys(entry.method for entry in self.entries))


_Way = tuple[str, int, tuple[int, ...]]
"""Split, episodes and seats: what is judged alike can be compared."""


def compare(entries: Sequence[Entry]) -> Comparison:
    """One table for each way of judging; what is called alike and is not the same is refused."""
    ways: dict[_Way, list[tuple[Entry, Judged]]] = {}
    hashes: dict[str, Judged] = {}
    for entry in entries:
        for judged in entry.judged:
            report = judged.report
            first = hashes.setdefault(report.split, judged)
            if (first.report.sha256, first.report.game) != (report.sha256, report.game):
                raise RecordError(f"{first.path} and {judged.path} mean different splits by {report.split!r}")
            ways.setdefault((report.split, report.episodes, report.seats), []).append((entry, judged))
    comparison = Comparison(tuple(_table(way, found, list(ways)) for way, found in ways.items()), tuple(entries))
    if entries and not comparison.tables:
        raise ConfigError("nothing to compare: none of these was judged on a split")
    if len(comparison.methods) > 1 and all(len(table.rows) == 1 for table in comparison.tables):
        ways_of = "; ".join(f"{table.rows[0].method} on {_described(table)}" for table in comparison.tables)
        raise ConfigError(f"nothing to compare: no two were judged alike: {ways_of}")
    return comparison


def _described(table: Table) -> str:
    return f"{table.split} ({table.episodes} episodes, seats {', '.join(map(str, table.seats))})"


def _table(way: _Way, found: Sequence[tuple[Entry, Judged]], ways: Sequence[_Way]) -> Table:
    split, episodes, seats = way
    methods: dict[str, list[tuple[Entry, Judged]]] = {}
    for entry, judged in found:
        _add(methods.setdefault(entry.method, []), entry, judged)
    report = found[0][1].report
    memoryless, limit = (_agreed(name, found) for name in ("memoryless", "bayes_last"))
    rows = _marked([_row(name, mine) for name, mine in methods.items()], list(methods.values()), columns(episodes))
    costs = (_costs(name, mine, way, levels(memoryless, limit)) for name, mine in methods.items())
    return Table(
        name=_name(way, ways),
        split=split,
        sha256=report.sha256,
        game=report.game,
        episodes=episodes,
        seats=seats,
        memoryless=memoryless,
        limit=limit,
        rows=tuple(rows),
        costs=tuple(cost for cost in costs if cost is not None),
    )


def _name(way: _Way, ways: Sequence[_Way]) -> str:
    split, episodes, seats = way
    alike = [other for other in ways if other[0] == split and other != way]
    name = f"{split}, {episodes} episodes" if any(other[1] != episodes for other in alike) else split
    is_by_seat = any(other[1] == episodes for other in alike)
    return f"{name}, seats {' and '.join(map(str, seats))}" if is_by_seat else name


def _add(mine: list[tuple[Entry, Judged]], entry: Entry, judged: Judged) -> None:
    """Add a seed to a method; it must be the same recipe and another seed."""
    how = "name one of them otherwise, as in NAME=PATH"
    for other, theirs in mine:
        both = f"{theirs.path} and {judged.path}"
        if theirs.path == judged.path:
            raise ConfigError(f"{judged.path} is given twice")
        if other.recipe != entry.recipe:
            raise ConfigError(f"{both} are both called {entry.method!r} and differ by more than their seed; {how}")
        if other.seed == entry.seed:
            seed = "" if entry.seed is None else f" with seed {entry.seed}"
            raise ConfigError(f"{both} are both {entry.method!r}{seed} on {judged.report.split}; {how}")
    mine.append((entry, judged))


def _agreed(name: str, found: Sequence[tuple[Entry, Judged]]) -> float | None:
    """An exact figure averaged over the seats; reports that know it must agree."""
    known = [
        (value, judged) for _, judged in found if (value := over_seats(judged.report.references, name)) is not None
    ]
    for value, judged in known:
        first, theirs = known[0]
        if abs(value - first) > ROUNDING:
            raise RecordError(
                f"{theirs.path} and {judged.path} have other exact references for {judged.report.split!r}"
            )
    return known[0][0] if known else None


def _row(method: str, mine: Sequence[tuple[Entry, Judged]]) -> Row:
    reports = [judged.report for _, judged in mine]
    opponents = [dict(report.exploitation_by_member) for report in reports]
    by_episode = list(zip(*([score.value for score in report.agent.scores] for report in reports), strict=True))
    timed = [judged.seconds / judged.report.num_trials for _, judged in mine if judged.seconds is not None]
    return Row(
        method=method,
        seeds=tuple(sorted(entry.seed for entry, _ in mine if entry.seed is not None)),
        num_trials=sum(report.num_trials for report in reports),
        figures={},
        controls=tuple(_pooled(list(scores)) for scores in zip(*(r.control.scores for r in reports), strict=True)),
        ranges=tuple((min(scores), max(scores)) for scores in by_episode),
        exploitation={member: _mean([found.get(member) for found in opponents]) for member in opponents[0]},
        tokens=sum(report.agent.tokens_read / report.num_trials for report in reports) / len(reports),
        seconds=sum(timed) / len(timed) if len(timed) == len(reports) else None,
    )


def _marked(rows: Sequence[Row], found: Sequence[Sequence[tuple[Entry, Judged]]], cols: Sequence[Column]) -> list[Row]:
    """Rows with their figures, each with its standing in its column."""
    figures: list[dict[str, Figure]] = [{} for _ in rows]
    for column in cols:
        samples = {place: sample for place, mine in enumerate(found) if (sample := _sample(column, mine)) is not None}
        known = standings(list(samples.values()), is_low_best=column.is_low_best) if column.is_marked else []
        for number, (place, sample) in enumerate(samples.items()):
            standing = known[number] if known else Standing(Mark.NONE)
            figures[place][column.key] = Figure(sample.estimate, standing)
    return [msgspec.structs.replace(row, figures=mine) for row, mine in zip(rows, figures, strict=True)]


def _sample(column: Column, mine: Sequence[tuple[Entry, Judged]]) -> Measured | None:
    estimates = [column.estimate(judged.report) for _, judged in mine]
    known = [estimate for estimate in estimates if estimate is not None]
    if len(known) < len(estimates):
        return None
    if len(mine) > 1:
        by_seed = {str(entry.seed): estimate.value for (entry, _), estimate in zip(mine, known, strict=True)}
        return Measured(_pooled(known), by_seed=by_seed)
    report, task_seed = mine[0][1].report, mine[0][1].task_seed
    tasks = ((task_seed, *task) for task in report.tasks)
    return Measured(known[0], by_task=dict(zip(tasks, column.by_trial(report), strict=True)))


def _pooled(estimates: Sequence[Estimate]) -> Estimate:
    """The mean over seeds; one alone keeps its interval over trials."""
    return estimates[0] if len(estimates) == 1 else mean_of_few([estimate.value for estimate in estimates])


def _mean(estimates: Sequence[Estimate | None]) -> float | None:
    known = [estimate.value for estimate in estimates if estimate is not None]
    return sum(known) / len(known) if len(known) == len(estimates) else None


def _costs(
    method: str, mine: Sequence[tuple[Entry, Judged]], way: _Way, targets: Mapping[Level, float]
) -> Costs | None:
    histories = [entry.history for entry, _ in mine if entry.history is not None]
    if not histories:
        return None
    split, episodes, _ = way
    curves = [history.curve(split, episodes) for history in histories]
    return Costs(
        method=method,
        num_seeds=len(histories),
        tokens=mean_of_few([history.tokens for history in histories]),
        seconds=mean_of_few([history.seconds for history in histories]),
        reached={level: reached(curves, target) for level, target in targets.items()},
    )
