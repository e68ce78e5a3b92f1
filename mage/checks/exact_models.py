"""Contract check for exact models: played episodes are found in the model, with their keys, actions and scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum
from typing import Any

from mage.checks.episodes import PlayedEpisode, is_close, require
from mage.errors import InexactError
from mage.protocols import Branches, ExactModel

MAX_POSITIONS = 50_000
"""Most positions that are looked at to follow one episode."""

Reached = list[tuple[Any, frozenset[int]]]
"""Positions, each with the types that can lead there."""


def check_model(model: ExactModel[Any], seat: int, episodes: Sequence[PlayedEpisode]) -> None:
    """Follow the finished first episodes of trials through the model of a seat; raise `PlayError` where one is lost.

    `InexactError` is raised where the model is too large for that.
    """
    total = fsum(model.prior.values())
    require(is_close([total], [1.0]), str(dict(model.prior)), f"the prior adds up to {total}, not to 1")
    for played in episodes:
        _follow(model, seat, played)


def _follow(model: ExactModel[Any], seat: int, played: PlayedEpisode) -> None:
    reached = _settled(model, _start(model))
    for observation, action in played.turns:
        if observation.seat != seat:
            continue
        here = [(p, types) for p, types in reached if model.seen(p) == (False, observation.key)]
        require(bool(here), observation.key, f"the exact model has no decision with this key of seat {seat}")
        for position, _ in here:
            ids = model.actions(position)
            problem = f"the exact model has the actions {ids}, the observation {observation.ids}"
            require(tuple(ids) == observation.ids, observation.key, problem)
        chosen = observation.ids[observation.actions.index(action)]
        reached = _settled(model, [(model.after(p, chosen), types) for p, types in here])
    told, score = (played.result.keys or played.result.outcomes)[seat], played.result.returns[seat]
    ends = [p for p, _ in reached if model.seen(p) == (True, told)]
    require(bool(ends), told, f"the exact model has no end at which seat {seat} is told this")
    scores = sorted({model.score(p) for p in ends})
    agree = any(is_close([score], [found]) for found in scores)
    require(agree, told, f"the exact model scores {', '.join(map(str, scores))} where seat {seat} scored {score}")


def _start(model: ExactModel[Any]) -> Reached:
    first = model.start(0)
    _check_probabilities(first, model.prior, "the first positions")
    return [(position, frozenset(by_type)) for position, by_type in first]


def _settled(model: ExactModel[Any], reached: Reached) -> Reached:
    """The positions where the seat decides or the episode is over, after all that chance and others may do."""
    waiting, settled, num_seen = list(reached), Reached(), 0
    while waiting:
        position, types = waiting.pop()
        num_seen += 1
        if num_seen > MAX_POSITIONS:
            raise InexactError(f"more than {MAX_POSITIONS} positions between two decisions")
        following = model.forward(position, types)
        if not following:
            settled.append((position, types))
            continue
        _check_probabilities(following, types, "the positions that follow another")
        waiting += [(after, frozenset(t for t, p in by_type.items() if p > 0)) for after, by_type in following]
    return settled


def _check_probabilities(branches: Branches[Any], types: Iterable[int], what: str) -> None:
    for kind in types:
        total = fsum(by_type.get(kind, 0.0) for _, by_type in branches)
        problem = f"the exact model's probabilities of {what} add up to {total}, not to 1"
        require(is_close([total], [1.0]), f"type {kind}", problem)
