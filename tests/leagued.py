"""Leagues and pay-off tables with the scores one wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from mage.league.members import Member, MemberKind, learner, snapshot
from mage.league.payoffs import EMPTY, MatchScore, Payoffs
from mage.league.state import League

FOREVER = inf
"""A half-life in which nothing is forgotten."""


def anchor(name: str, weight: float = 1.0) -> Member:
    return Member(name, MemberKind.ANCHOR, name, name, weight=weight)


def snap(index: int, step: int) -> Member:
    return snapshot(learner(index), step)


def table(scores: Mapping[str, Mapping[str, Sequence[float]]]) -> Payoffs:
    """Each list holds the observations of a cell, all with weight 1."""
    results = [MatchScore(r, c, s) for r, row in scores.items() for c, seen in row.items() for s in seen]
    return EMPTY.with_results(results, 0, FOREVER, ())


def league(
    members: Sequence[Member],
    scores: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    hyper: Mapping[str, Mapping[str, float]] | None = None,
) -> League:
    return League(tuple(members), table(scores or {}), hyper or {}, {})
