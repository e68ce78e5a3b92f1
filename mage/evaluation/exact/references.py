"""The exact figures that scores are judged by, for one pool of opponents from one seat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import TypeVar

import msgspec

from mage.evaluation.exact.plan_cache import fingerprint, load_or_compute, tree_numbers
from mage.evaluation.exact.planner import EpisodeScores, Planner, PlanObjective, best_value
from mage.evaluation.exact.pool import Opponents, load_pool, normalise_opponents
from mage.evaluation.exact.security import security_value
from mage.opponents.draws import InexactError

T = TypeVar("T")


class References(msgspec.Struct, frozen=True):
    """Exact values per episode for a seat. A figure that cannot be had exactly is None; `missing` says why.

    Deals are fresh each episode and every trial has all its episodes. Opponents that change between episodes
    are judged by their last one in `best_response` and `memoryless`, as score@N is.
    """

    best_response: Mapping[str, float]
    """By opponent: the best reply to the realised opponent (its phase, its first move known), averaged over
    what it may turn out to be. Opponents without an exact value are left out."""
    equilibrium: float | None
    """What a player who never adapts can guarantee; the security level where the game is not zero-sum."""
    memoryless: float | None
    """The best play that knows the pool and sees the current episode only."""
    bayes_last: float | None
    """The most any player who knows only the pool can score in the last episode: the limit for score@N."""
    bayes_sum: float | None
    """The most such a player can score in all episodes together."""
    bayes_sum_split: tuple[float, ...] | None
    """How one play that reaches `bayes_sum` spreads it over the episodes."""
    opponents: Opponents
    """Canonical specs with weights that add up to one."""
    missing: Mapping[str, str]
    """Why a figure is None, by its name; `best_response(SPEC)` for an opponent that is left out there."""

    @property
    def best_response_mean(self) -> float | None:
        """Best responses weighted as the pool is; None where one is missing."""
        if len(self.best_response) < len(self.opponents):
            return None
        return sum(weight * self.best_response[spec] for spec, weight in self.opponents)


def references(game: str, opponents: Sequence[tuple[str, float]], seat: int, episodes: int) -> References:
    """All exact figures for `seat` against opponents with these weights over trials of `episodes` episodes.

    Specs that cannot be read are errors; figures that are too large to compute, or opponents drawn from a
    continuum, leave their fields None with a reason.
    """
    return _references(game, normalise_opponents(game, opponents, seat, episodes), seat, episodes)


@lru_cache(maxsize=64)
def _references(game: str, opponents: Opponents, seat: int, episodes: int) -> References:
    missing: dict[str, str] = {}

    def tried(name: str, compute: Callable[[], T], after: str = "") -> T | None:
        if after in missing:
            missing[name] = missing[after]
            return None
        try:
            return compute()
        except InexactError as error:
            missing[name] = str(error)
            return None

    replies = {
        spec: tried(f"best_response({spec})", partial(best_response, game, spec, seat, episodes))
        for spec, _ in opponents
    }
    pool = (game, opponents, seat, episodes)
    memoryless = tried("memoryless", partial(best_memoryless, *pool))
    # Each figure needs what the one before it needs, and more: a failure that took long is not repeated.
    last = tried("bayes_last", partial(bayes_optimal, *pool, PlanObjective.LAST), after="memoryless")
    total = tried("bayes_sum", partial(bayes_optimal, *pool, PlanObjective.SUM), after="bayes_last")
    return References(
        best_response={spec: value for spec, value in replies.items() if value is not None},
        equilibrium=tried("equilibrium", partial(security_value, game, seat)),
        memoryless=memoryless,
        bayes_last=None if last is None else last[-1],
        bayes_sum=None if total is None else sum(total),
        bayes_sum_split=total,
        opponents=opponents,
        missing=missing,
    )


def best_response(game: str, opponent: str, seat: int, episodes: int) -> float:
    """The best reply in the last episode to the realised opponent, averaged over its realisations."""
    pool = load_pool(game, normalise_opponents(game, [(opponent, 1.0)], seat, episodes), seat)
    tree = pool.tree(episodes - 1)
    return sum(p * best_value(tree, {member: 1.0}) for member, p in pool.prior.items())


def best_memoryless(game: str, opponents: Sequence[tuple[str, float]], seat: int, episodes: int) -> float:
    """The best play in the last episode for who knows the pool and has seen no other episode."""
    pool = load_pool(game, normalise_opponents(game, opponents, seat, episodes), seat)
    return best_value(pool.tree(episodes - 1), pool.prior)


def bayes_optimal(
    game: str, opponents: Sequence[tuple[str, float]], seat: int, episodes: int, objective: PlanObjective
) -> EpisodeScores:
    """Expected score by episode of one play that is optimal for `objective` over a trial; cached on disk."""
    pool = load_pool(game, normalise_opponents(game, opponents, seat, episodes), seat)
    trees, weights = pool.trees(episodes), objective.weights(episodes)
    name = fingerprint([tree_numbers(tree) for tree in trees], pool.prior, weights)
    return load_or_compute(name, episodes, lambda: Planner(trees, pool.prior, weights).start())


def fraction_text(value: float) -> str:
    """An exact value as people read it: a fraction where it is one, else four decimals.

    >>> fraction_text(22 / 63), fraction_text(-0.05555555555555558), fraction_text(1.0), fraction_text(0.123456789)
    ('22/63', '-1/18', '1', '0.1235')
    """
    fraction = Fraction(value).limit_denominator(5000)
    return str(fraction) if abs(float(fraction) - value) < 1e-11 else f"{value:.4f}"
