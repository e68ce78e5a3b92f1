"""The values behind the metrics of a method, by task, training seed and member, and their averages.

Intervals are computed from the scores of the trials, so that reports written before have the same as new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import fsum
from typing import TypeAlias

from mage.evaluation.compare.columns import Column
from mage.evaluation.compare.significance import MetricSample
from mage.evaluation.suite.averaging import units_of
from mage.evaluation.suite.evaluate import SplitReport
from mage.grouped import Units, crossed_mean, grouped_mean
from mage.stats import Estimate, Range

ByTrial: TypeAlias = Callable[[SplitReport], Sequence[float]]
"""Reads one value per trial."""


def metric_sample(column: Column, runs: Sequence[tuple[int | None, SplitReport, int]]) -> MetricSample | None:
    """The values of a metric in the reports of one method, each with its training and task seed; None where missing."""
    reports = [report for _, report, _ in runs]
    if any(column.estimate(report) is None for report in reports):
        return None
    units, bounds = report_units(reports[0]), column.bounds(reports[0])
    estimate = averaged(reports, column.by_trial, bounds)
    by_member = member_means(reports, column.by_trial) if units is Units.MEMBERS else {}
    if len(runs) > 1:
        by_seed = {str(seed): _mean(column.by_trial(report)) for seed, report, _ in runs}
        return MetricSample(estimate, units, bounds, by_seed=by_seed, by_member=by_member)
    ((_, report, task_seed),) = runs
    tasks: list[Hashable] = [(task_seed, *task) for task in report.tasks]
    by_task = dict(zip(tasks, column.by_trial(report), strict=True))
    members = dict(zip(tasks, _members(report), strict=True))
    return MetricSample(estimate, units, bounds, by_task=by_task, members=members, by_member=by_member)


def averaged(reports: Sequence[SplitReport], by_trial: ByTrial, bounds: Range | None) -> Estimate:
    """The mean over seeds with its interval; a single report has one over its trials or members."""
    units = report_units(reports[0])
    if len(reports) == 1:
        return grouped_mean(by_trial(reports[0]), _members(reports[0]), units, bounds)
    members = member_means(reports, by_trial).values() if units is Units.MEMBERS else ()
    return crossed_mean([_mean(by_trial(report)) for report in reports], list(members), bounds)


def member_means(reports: Sequence[SplitReport], by_trial: ByTrial) -> dict[Hashable, float]:
    """By member that all reports have: its mean, averaged over the reports."""
    found: dict[Hashable, list[float]] = {}
    for report in reports:
        values: dict[Hashable, list[float]] = {}
        for member, value in zip(_members(report), by_trial(report), strict=True):
            values.setdefault(member, []).append(value)
        for member, own in values.items():
            found.setdefault(member, []).append(_mean(own))
    return {member: _mean(means) for member, means in found.items() if len(means) == len(reports)}


def report_units(report: SplitReport) -> Units:
    """What the intervals of a report are over, by the kind of its split; files written before do not say."""
    return units_of(report.kind, len(report.members))


def control_scores(k: int, report: SplitReport) -> list[float]:
    """The scores of an episode with memory off."""
    return [scores[k] for scores in report.control.scores_by_trial]


def _members(report: SplitReport) -> list[Hashable]:
    """By trial the place of its member, or where there are none its number."""
    return [place if report.members else number for place, _, number in report.tasks]


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)
