"""A weighted pool of opponents or levels, with the exact model of a trial against it and the tree of each episode."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from math import fsum, isfinite
from typing import Any

from mage.errors import ConfigError, InexactError
from mage.evaluation.exact.tree import Tree, episode_tree
from mage.protocols import Branches, ExactWorld, World
from mage.spec import parse_spec
from mage.worlds.registry import load_world

Members = tuple[tuple[str, float], ...]
"""Opponents' specs, or levels of a world of one seat, with their weights."""

DRAWN: Members = (("", 1.0),)
"""The pool of a world of one seat whose levels are drawn by the seed: the world's own prior."""


def normalise_members(world: str, members: Sequence[tuple[str, float]], seat: int, episodes: int) -> Members:
    """Members with weights that sum to 1, opponents with canonical specs; raises `ConfigError`.

    Without members a world of one seat has the pool `DRAWN`.
    """
    loaded = load_world(world)
    num_seats = loaded.info.num_seats
    if not 0 <= seat < num_seats:
        raise ConfigError(f"seat {seat} does not exist; {world} has seats 0 to {num_seats - 1}")
    if episodes < 1:
        raise ConfigError(f"a trial has at least 1 episode, not {episodes}")
    kind = "level" if num_seats == 1 else "opponent"
    merged: dict[str, float] = {}
    for member, weight in members:
        if not (isfinite(weight) and weight > 0):
            raise ConfigError(f"the weight of {kind} {member!r} must be a positive number, not {weight}")
        name = member if num_seats == 1 else str(parse_spec(member))
        merged[name] = merged.get(name, 0.0) + weight
    if num_seats == 1:
        return _normalise_levels(loaded, merged)
    if not merged:
        raise ConfigError("a pool needs at least one opponent")
    return _normalised(merged)


def _normalise_levels(world: World, weights: dict[str, float]) -> Members:
    if set(weights) <= {""}:
        return DRAWN
    for level in weights:
        if not level:
            raise ConfigError("the level '' is one drawn by the seed, and cannot be in a pool with others")
        world.check_level(level)
    return _normalised(weights)


def _normalised(weights: dict[str, float]) -> Members:
    total = fsum(weights.values())
    return tuple((name, weight / total) for name, weight in weights.items())


def exact_world(spec: str) -> ExactWorld:
    """The world of a spec; `InexactError` where it cannot be planned exactly."""
    world = load_world(spec)
    if not isinstance(world, ExactWorld):
        raise InexactError(f"{spec} has no exact model")
    return world


class Pool:
    """A trial of one seat against hidden members; what is hidden is drawn once for the trial."""

    def __init__(self, world: str, members: Members, seat: int) -> None:
        self._name = str(parse_spec(world))
        self._model = exact_world(world).exact_model(() if members == DRAWN else members, seat)
        self._trees: dict[int, Tree] = {}
        self._known: list[tuple[Branches[Any], Tree]] = []
        """First positions of the episodes whose tree is known."""
        self.prior = dict(self._model.prior)
        """Probability by hidden type: by policy of an opponent, or by level."""

    def tree(self, episode: int) -> Tree:
        """The tree of one episode. Opponents may play differently in each; episodes that begin alike share it."""
        if episode not in self._trees:
            start = self._model.start(episode)
            found = next((tree for known, tree in self._known if known == start), None)
            if found is None:
                found = episode_tree(self._model, start, self._name)
                self._known.append((start, found))
            self._trees[episode] = found
        return self._trees[episode]

    def trees(self, episodes: int) -> tuple[Tree, ...]:
        """The trees of a trial."""
        return tuple(self.tree(episode) for episode in range(episodes))

    def trees_among(self, types: Collection[int], episodes: int, max_states: int) -> tuple[Tree, ...]:
        """The trees of a trial in which only these types are possible: for a pool that is too large as a whole."""
        if all(episode in self._trees for episode in range(episodes)):
            return self.trees(episodes)
        starts = [
            [
                (at, kept)
                for at, odds in self._model.start(episode)
                if (kept := {m: odds[m] for m in odds if m in types})
            ]
            for episode in range(episodes)
        ]
        built: list[Tree] = []
        for episode, start in enumerate(starts):
            same = starts.index(start)
            built.append(built[same] if same < episode else episode_tree(self._model, start, self._name, max_states))
        return tuple(built)


@lru_cache(maxsize=16)
def load_pool(world: str, members: Members, seat: int) -> Pool:
    """The cached pool of normalised members."""
    return Pool(world, members, seat)
