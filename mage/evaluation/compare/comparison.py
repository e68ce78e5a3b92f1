"""Comparison of methods: one table per split, one row per method, ranked by paired differences.

Several training seeds of a method are one row: means over seeds with Student's interval, over seeds and members where
the members are a sample of those not met in training. A single seed has its intervals over trials, or over members.
Intervals are computed anew from the scores of the trials, so that reports written before have the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial

import msgspec

from mage.errors import ConfigError, RecordError
from mage.evaluation.compare.columns import Column, columns
from mage.evaluation.compare.cost import History, Level, Reached, cost_to_reach, levels
from mage.evaluation.compare.samples import averaged, control_scores, metric_sample, report_units
from mage.evaluation.compare.significance import Mark, MetricSample, Rank, rank_metrics
from mage.evaluation.exact import MyopicScores
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.regret import mean_over_seats
from mage.grouped import Units
from mage.stats import ROUNDING, Estimate, mean
from mage.worlds.registry import normal_world


class EvaluatedSplit(msgspec.Struct, frozen=True):
    """The report of one agent on one split."""

    report: SplitReport
    task_seed: int
    """Determines the tasks: trials of reports with equal seeds can be paired."""
    seconds: float | None
    """Wall-clock time of the agent's trials; None where not measured."""
    path: str


class MethodRun(msgspec.Struct, frozen=True):
    """One method with one training seed."""

    method: str
    seed: int | None
    """None for untrained agents."""
    recipe: Hashable
    """Equal for entries that differ in their seed alone."""
    evaluated: tuple[EvaluatedSplit, ...]
    history: History | None


class ComparedMetric(msgspec.Struct, frozen=True):
    """A metric of a method, and its rank among the others."""

    estimate: Estimate
    standing: Rank = Rank(Mark.NONE)


class MethodRow(msgspec.Struct, frozen=True):
    """One method on one split."""

    method: str
    seeds: tuple[int, ...]
    """Training seeds of its means; empty for an untrained agent."""
    num_trials: int
    """Over all seeds."""
    metrics: Mapping[str, ComparedMetric]
    """By the key of a column; metrics that are not known are left out."""
    controls: tuple[Estimate, ...]
    """Scores by episode with memory off."""
    ranges: tuple[tuple[float, float], ...]
    """Lowest and highest score over seeds, by episode."""
    exploitation: Mapping[str, float | None]
    """By opponent, mean over seeds; None where nothing can be gained or an exact value is missing."""
    tokens: float
    """Tokens in the streams of a trial, read and sampled."""
    seconds: float | None
    """Wall-clock time per trial, of trials played in parallel."""
    units: Units = Units.TRIALS
    """The units of each seed's average."""

    @property
    def over(self) -> str:
        """What its intervals are over."""
        if len(self.seeds) < 2:
            return self.units.value
        return "seeds and members" if self.units is Units.MEMBERS else "seeds"

    @property
    def scores(self) -> tuple[Estimate, ...]:
        """By episode."""
        return tuple(self.metrics[f"score_{k + 1}"].estimate for k in range(len(self.controls)))


class Costs(msgspec.Struct, frozen=True):
    """Training cost of a method, in total and until the score of the last episode reached a level."""

    method: str
    num_seeds: int
    tokens: Estimate
    seconds: Estimate
    reached: Mapping[Level, Reached]


class SplitTable(msgspec.Struct, frozen=True):
    """All methods on one split, with equal episodes and seats."""

    name: str
    """The split, with episodes or seats where the same split was evaluated with several."""
    split: str
    sha256: str
    world: str
    episodes: int
    seats: tuple[int, ...]
    memoryless: float | None
    myopic: MyopicScores | None
    """Myopic Bayes: what memory can reach without exploring."""
    limit: float | None
    rows: tuple[MethodRow, ...]
    costs: tuple[Costs, ...]
    """For the methods whose training is known."""


class Comparison(msgspec.Struct, frozen=True):
    """The tables of all splits and the runs they were made from."""

    tables: tuple[SplitTable, ...]
    entries: tuple[MethodRun, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """Names in the order given."""
        return tuple(dict.fromkeys(entry.method for entry in self.entries))


_Setup = tuple[str, int, tuple[int, ...]]
"""Split, episodes and seats: reports that share them can be compared."""


def compare(entries: Sequence[MethodRun]) -> Comparison:
    """One table per split, episodes and seats; different splits with the same name are an error."""
    setups: dict[_Setup, list[tuple[MethodRun, EvaluatedSplit]]] = {}
    hashes: dict[str, EvaluatedSplit] = {}
    for entry in entries:
        for evaluated in entry.evaluated:
            report = evaluated.report
            first = hashes.setdefault(report.split, evaluated)
            if not _is_same_split(first.report, report):
                raise RecordError(f"{first.path} and {evaluated.path} mean different splits by {report.split!r}")
            setups.setdefault((report.split, report.episodes, report.seats), []).append((entry, evaluated))
    comparison = Comparison(
        tuple(_table(setup, found, list(setups)) for setup, found in setups.items()), tuple(entries)
    )
    if entries and not comparison.tables:
        raise ConfigError("nothing to compare: none of these was evaluated on a split")
    if len(comparison.methods) > 1 and all(len(table.rows) == 1 for table in comparison.tables):
        described = "; ".join(f"{table.rows[0].method} on {_described(table)}" for table in comparison.tables)
        raise ConfigError(f"nothing to compare: no two have the same split, episodes and seats: {described}")
    return comparison


def _is_same_split(one: SplitReport, other: SplitReport) -> bool:
    """Whether two reports are about the same world and members, however their specs are written."""
    if one.world == other.world:
        return one.sha256 == other.sha256
    return normal_world(one.world) == normal_world(other.world) and one.members == other.members


def _described(table: SplitTable) -> str:
    return f"{table.split} ({table.episodes} episodes, seats {', '.join(map(str, table.seats))})"


def _table(setup: _Setup, found: Sequence[tuple[MethodRun, EvaluatedSplit]], setups: Sequence[_Setup]) -> SplitTable:
    split, episodes, seats = setup
    methods: dict[str, list[tuple[MethodRun, EvaluatedSplit]]] = {}
    for entry, evaluated in found:
        _add(methods.setdefault(entry.method, []), entry, evaluated)
    report = found[0][1].report
    names = ("memoryless", "bayes_last", "myopic.low", "myopic.even", "myopic.high")
    memoryless, limit, *ends = (_shared_reference(name, found) for name in names)
    known = [end for end in ends if end is not None]
    rows = _ranked_rows([_row(name, runs) for name, runs in methods.items()], list(methods.values()), columns(episodes))
    costs = (_costs(name, runs, setup, levels(memoryless, limit)) for name, runs in methods.items())
    return SplitTable(
        name=_name(setup, setups),
        split=split,
        sha256=report.sha256,
        world=report.world,
        episodes=episodes,
        seats=seats,
        memoryless=memoryless,
        myopic=MyopicScores(*known) if len(known) == len(ends) else None,
        limit=limit,
        rows=tuple(rows),
        costs=tuple(cost for cost in costs if cost is not None),
    )


def _name(setup: _Setup, setups: Sequence[_Setup]) -> str:
    split, episodes, seats = setup
    alike = [other for other in setups if other[0] == split and other != setup]
    name = f"{split}, {episodes} episodes" if any(other[1] != episodes for other in alike) else split
    is_by_seat = any(other[1] == episodes for other in alike)
    return f"{name}, seats {' and '.join(map(str, seats))}" if is_by_seat else name


def _add(runs: list[tuple[MethodRun, EvaluatedSplit]], entry: MethodRun, evaluated: EvaluatedSplit) -> None:
    """Add a seed to a method; recipes must be equal and seeds different."""
    how = "name one of them otherwise, as in NAME=PATH"
    for other, theirs in runs:
        both = f"{theirs.path} and {evaluated.path}"
        if theirs.path == evaluated.path:
            raise ConfigError(f"{evaluated.path} is given twice")
        if other.recipe != entry.recipe:
            raise ConfigError(f"{both} are both called {entry.method!r} and differ by more than their seed; {how}")
        if other.seed == entry.seed:
            seed = "" if entry.seed is None else f" with seed {entry.seed}"
            raise ConfigError(f"{both} are both {entry.method!r}{seed} on {evaluated.report.split}; {how}")
    runs.append((entry, evaluated))


def _shared_reference(name: str, found: Sequence[tuple[MethodRun, EvaluatedSplit]]) -> float | None:
    """An exact reference averaged over the seats; reports that have it must agree."""
    known = [
        (value, evaluated)
        for _, evaluated in found
        if (value := mean_over_seats(evaluated.report.references, name)) is not None
    ]
    for value, evaluated in known:
        first, theirs = known[0]
        if abs(value - first) > ROUNDING:
            raise RecordError(
                f"{theirs.path} and {evaluated.path} have different exact references for {evaluated.report.split!r}"
            )
    return known[0][0] if known else None


def _row(method: str, runs: Sequence[tuple[MethodRun, EvaluatedSplit]]) -> MethodRow:
    reports = [evaluated.report for _, evaluated in runs]
    opponents = [dict(report.exploitation_by_member) for report in reports]
    by_episode = list(zip(*([score.value for score in report.agent.scores] for report in reports), strict=True))
    timed = [evaluated.seconds / evaluated.report.num_trials for _, evaluated in runs if evaluated.seconds is not None]
    return MethodRow(
        method=method,
        seeds=tuple(sorted(entry.seed for entry, _ in runs if entry.seed is not None)),
        num_trials=sum(report.num_trials for report in reports),
        metrics={},
        controls=tuple(
            averaged(reports, partial(control_scores, k), reports[0].score_range) for k in range(reports[0].episodes)
        ),
        ranges=tuple((min(scores), max(scores)) for scores in by_episode),
        exploitation={member: _mean([found.get(member) for found in opponents]) for member in opponents[0]},
        tokens=sum(report.agent.tokens_read / report.num_trials for report in reports) / len(reports),
        seconds=sum(timed) / len(timed) if len(timed) == len(reports) else None,
        units=report_units(reports[0]),
    )


def _ranked_rows(
    rows: Sequence[MethodRow], found: Sequence[Sequence[tuple[MethodRun, EvaluatedSplit]]], cols: Sequence[Column]
) -> list[MethodRow]:
    """Rows with their metrics, each with its rank in its column."""
    metrics: list[dict[str, ComparedMetric]] = [{} for _ in rows]
    for column in cols:
        samples = {place: sample for place, runs in enumerate(found) if (sample := _sample(column, runs)) is not None}
        known = rank_metrics(list(samples.values()), is_low_best=column.is_low_best) if column.is_marked else []
        for number, (place, sample) in enumerate(samples.items()):
            standing = known[number] if known else Rank(Mark.NONE)
            metrics[place][column.key] = ComparedMetric(sample.estimate, standing)
    return [msgspec.structs.replace(row, metrics=found) for row, found in zip(rows, metrics, strict=True)]


def _sample(column: Column, runs: Sequence[tuple[MethodRun, EvaluatedSplit]]) -> MetricSample | None:
    return metric_sample(column, [(entry.seed, found.report, found.task_seed) for entry, found in runs])


def _mean(estimates: Sequence[Estimate | None]) -> float | None:
    known = [estimate.value for estimate in estimates if estimate is not None]
    return sum(known) / len(known) if len(known) == len(estimates) else None


def _costs(
    method: str, runs: Sequence[tuple[MethodRun, EvaluatedSplit]], setup: _Setup, targets: Mapping[Level, float]
) -> Costs | None:
    histories = [entry.history for entry, _ in runs if entry.history is not None]
    if not histories:
        return None
    split, episodes, _ = setup
    curves = [history.curve(split, episodes) for history in histories]
    return Costs(
        method=method,
        num_seeds=len(histories),
        tokens=mean([history.tokens for history in histories]),
        seconds=mean([history.seconds for history in histories]),
        reached={level: cost_to_reach(curves, target) for level, target in targets.items()},
    )
