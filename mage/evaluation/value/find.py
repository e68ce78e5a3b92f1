"""Finds the values of a task: exactly where it is small enough, with bounds where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from math import fsum, inf

import msgspec

from mage.arguments import check_kind, check_whole
from mage.errors import ConfigError, InexactError
from mage.evaluation.exact.myopic import MyopicTrial
from mage.evaluation.exact.notes import MAX_WORDS, NoteSearch
from mage.evaluation.exact.planner import best_value, informed_value
from mage.evaluation.exact.pool import Members, Pool, load_pool
from mage.evaluation.exact.references import Attempts, myopic_scores, planned_scores
from mage.evaluation.value.objective_weights import FINAL, SINGLE, SUM, objectives
from mage.evaluation.value.pool_members import pool_members
from mage.evaluation.value.report import ObjectiveScores, ValuePoint, ValueReport, ValueRequest
from mage.evaluation.value.sampled_bounds import (
    BEST_LAST,
    BEST_SUM,
    INFORMED,
    MEMORYLESS,
    Bound,
    BoundKind,
    played_bounds,
    sub_pool_bounds,
)
from mage.spec import parse_spec
from mage.stats import Estimate
from mage.worlds.registry import load_world

MYOPIC, WORDS, LAST_EPISODE = "myopic", "words", "last_episode"
VALUES = (MEMORYLESS, MYOPIC, BEST_LAST, BEST_SUM, INFORMED)
HIGHEST, TOLD = "the highest score of the world", "F, the score of one who is told what is hidden"


def find_value(request: ValueRequest) -> ValueReport:
    """The values of a task, and bounds where it is too large for some of them."""
    _check(request)
    members = pool_members(request.world, request.opponents, request.seat, request.episodes)
    attempts = Attempts()
    pool = attempts.get(MEMORYLESS, partial(load_pool, request.world, members, request.seat))
    report = _empty_report(members, request) if pool is None else _exact_report(members, request, pool, attempts)
    if pool is None:
        attempts.missing.update(dict.fromkeys(VALUES, attempts.missing[MEMORYLESS]))
    report = msgspec.structs.replace(report, missing=attempts.missing)
    is_bounded = MEMORYLESS in report.missing or BEST_LAST in report.missing
    return msgspec.structs.replace(report, bounds=tuple(_bounds(report, pool, request))) if is_bounded else report


def value_curve(request: ValueRequest) -> list[ValuePoint]:
    """The last scores of trials of 1, 2, … and `episodes` episodes; `InexactError` where one is too large."""
    _check(request)
    members = pool_members(request.world, request.opponents, request.seat, request.episodes)
    pool = load_pool(request.world, members, request.seat)
    named = {objective.name: objective for objective in objectives(request.discount)}
    return [
        ValuePoint(
            num,
            best_value(pool.tree(num - 1), pool.prior),
            myopic_scores(pool, num).last,
            planned_scores(pool, named[FINAL].weights(num))[-1],
            planned_scores(pool, named[SUM].weights(num))[-1],
            informed_value(pool.tree(num - 1), pool.prior),
        )
        for num in range(1, request.episodes + 1)
    ]


def _check(request: ValueRequest) -> None:
    check_whole(seat=request.seat, episodes=request.episodes, seed=request.seed)
    check_whole(words=request.words, samples=request.samples)
    check_kind("discount", request.discount, int | float, "a number above 0 and up to 1")
    if not 0.0 < request.discount <= 1.0:
        raise ConfigError(f"discount = {request.discount}: allowed are numbers above 0 and up to 1; 0 would be single")
    if request.samples < 2:
        raise ConfigError(f"samples = {request.samples}: an interval needs at least 2")
    if not 0 <= request.words <= MAX_WORDS:
        raise ConfigError(f"words = {request.words}: allowed are 0 to {MAX_WORDS}")


def _empty_report(members: Members, request: ValueRequest) -> ValueReport:
    """A report without any exact value."""
    info = load_world(request.world).info
    return ValueReport(
        str(parse_spec(request.world)),
        members,
        request.seat,
        request.episodes,
        (info.lowest, info.highest),
        request.discount,
    )


def _exact_report(members: Members, request: ValueRequest, pool: Pool, attempts: Attempts) -> ValueReport:
    num = request.episodes
    memoryless = attempts.get(MEMORYLESS, lambda: best_value(pool.tree(num - 1), pool.prior))
    informed = attempts.get(INFORMED, lambda: informed_value(pool.tree(num - 1), pool.prior), MEMORYLESS)
    myopic = attempts.get(MYOPIC, lambda: myopic_scores(pool, num), MEMORYLESS)
    last = attempts.get(BEST_LAST, lambda: planned_scores(pool, _weights(FINAL, request)), MEMORYLESS)
    total = attempts.get(BEST_SUM, lambda: planned_scores(pool, _weights(SUM, request)), BEST_LAST)
    report = msgspec.structs.replace(
        _empty_report(members, request),
        memoryless=memoryless,
        myopic=myopic,
        best_last=last,
        best_sum=total,
        informed=informed,
        memory=None if myopic is None or memoryless is None else myopic.last.high - memoryless,
        exploration=None if last is None or myopic is None else last[-1] - myopic.last.high,
        price=None if last is None or total is None else fsum(total) - fsum(last),
        objectives=tuple(_objective_scores(pool, request, attempts, myopic)),
    )
    return _with_notes(report, pool, request, attempts)


def _weights(name: str, request: ValueRequest) -> tuple[float, ...]:
    (found,) = [objective for objective in objectives(request.discount) if objective.name == name]
    return found.weights(request.episodes)


def _objective_scores(
    pool: Pool, request: ValueRequest, attempts: Attempts, myopic: MyopicTrial | None
) -> Iterator[ObjectiveScores]:
    """What each objective ends at; those whose best play is too large to find are left out."""
    for objective in objectives(request.discount):
        weights: tuple[float, ...] = ()
        if objective.name == SINGLE:
            scores = None if myopic is None else myopic.high
        else:
            weights = objective.weights(request.episodes)
            scores = attempts.get(objective.name, partial(planned_scores, pool, weights), BEST_LAST)
        if scores is not None:
            yield ObjectiveScores(objective.name, objective.label, weights, scores)


def _with_notes(report: ValueReport, pool: Pool, request: ValueRequest, attempts: Attempts) -> ValueReport:
    """The report with what little memory allows, where that was asked for."""

    def search() -> NoteSearch:
        limit = inf if report.best_last is None else report.best_last[-1]
        return NoteSearch(pool.trees(request.episodes), pool.prior, limit=limit, seed=request.seed)

    words = attempts.get(WORDS, lambda: search().words(request.words), MEMORYLESS) if request.words else None
    verbatim = attempts.get(LAST_EPISODE, lambda: search().last_episode(), MEMORYLESS) if request.last_episode else None
    return msgspec.structs.replace(report, words_at_least=tuple(words or ()), last_episode_at_least=verbatim)


def _bounds(report: ValueReport, pool: Pool | None, request: ValueRequest) -> Iterator[Bound]:
    """Bounds of the values that are not exact; the world's highest score where there is no better upper one."""
    found: list[Bound] = []
    if pool is not None:
        with suppress(InexactError):
            found = sub_pool_bounds(pool, report.episodes, report.score_range, draws=request.samples, seed=request.seed)
    if not found:
        highest = {BEST_SUM: report.episodes * report.score_range[1]}
        found = [
            Bound(name, BoundKind.UPPER, Estimate(highest.get(name, report.score_range[1]), None, None), HIGHEST)
            for name in (MEMORYLESS, BEST_LAST, BEST_SUM, INFORMED)
        ]
    yield from (bound for bound in found if bound.of in report.missing)
    if report.informed is not None:
        yield Bound(BEST_LAST, BoundKind.UPPER, Estimate(report.informed, None, None), TOLD)
    if report.memoryless is None:
        played = (report.world, report.members, report.seat, report.episodes)
        yield from played_bounds(*played, trials=request.samples, seed=request.seed)
