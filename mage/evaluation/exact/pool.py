"""A weighted pool of opponents, expanded into the policies they can draw, with the game tree of each episode."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import fsum, isfinite

from mage.errors import ConfigError
from mage.evaluation.exact.enumerate import enumerate_policies
from mage.evaluation.exact.tree import Tree, check_countable, episode_tree
from mage.opponents.policy import Policy
from mage.spec import parse_spec
from mage.worlds.openspiel.game import load_game

Opponents = tuple[tuple[str, float], ...]
"""Specs with their weights."""


def normalise_opponents(game: str, opponents: Sequence[tuple[str, float]], seat: int, episodes: int) -> Opponents:
    """Opponents with canonical specs and weights that sum to 1; raises `ConfigError`."""
    num_seats = load_game(game).num_seats
    if not 0 <= seat < num_seats:
        raise ConfigError(f"seat {seat} does not exist; {game} has seats 0 to {num_seats - 1}")
    if episodes < 1:
        raise ConfigError(f"a trial has at least 1 episode, not {episodes}")
    merged: dict[str, float] = {}
    for spec, weight in opponents:
        if not (isfinite(weight) and weight > 0):
            raise ConfigError(f"the weight of opponent {spec!r} must be a positive number, not {weight}")
        name = str(parse_spec(spec))
        merged[name] = merged.get(name, 0.0) + weight
    if not merged:
        raise ConfigError("a pool needs at least one opponent")
    total = fsum(merged.values())
    return tuple((name, weight / total) for name, weight in merged.items())


class Pool:
    """Policies against one seat. An opponent's draw is fixed for the trial and hidden from the seat."""

    def __init__(self, game: str, opponents: Opponents, seat: int) -> None:
        self._game = load_game(game)
        check_countable(self._game)
        self._seat = seat
        self._trees: dict[int, Tree] = {}
        found = [
            (w * p, policy) for spec, w in opponents for p, policy in enumerate_policies(spec, self._game, 1 - seat)
        ]
        self._policies: list[Policy] = [policy for _, policy in found]
        self.prior = {member: weight for member, (weight, _) in enumerate(found)}
        """Probability by policy."""

    def tree(self, episode: int) -> Tree:
        """The tree of one episode; opponents may play differently in each."""
        if episode not in self._trees:
            self._trees[episode] = episode_tree(self._game, self._seat, self._policies, episode)
        return self._trees[episode]

    def trees(self, episodes: int) -> tuple[Tree, ...]:
        """The trees of a trial."""
        return tuple(self.tree(episode) for episode in range(episodes))


@lru_cache(maxsize=16)
def load_pool(game: str, opponents: Opponents, seat: int) -> Pool:
    """The cached pool of normalised opponents."""
    return Pool(game, opponents, seat)
