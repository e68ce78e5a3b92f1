"""Exact reference values for one seat against a pool of opponents, or over the levels of a world of one seat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import TypeVar

import msgspec

from mage.errors import InexactError
from mage.evaluation.exact.myopic import MyopicPlanner, MyopicScores, MyopicTrial
from mage.evaluation.exact.plan_cache import fingerprint, load_or_compute, tree_numbers
from mage.evaluation.exact.planner import EpisodeScores, Planner, PlanObjective, best_value, informed_value
from mage.evaluation.exact.pool import Members, Pool, exact_world, load_pool, normalise_members

T = TypeVar("T")


class References(msgspec.Struct, frozen=True):
    """Exact values per episode for a seat. A value that cannot be computed is None; `missing` says why.

    Deals are fresh each episode and every trial has all its episodes. For opponents that change between episodes,
    `best_response` and `memoryless` are about the last episode, as score@N is.
    """

    best_response: Mapping[str, float]
    """By opponent: the best response to each policy it can draw (phase and first move known), averaged over the draws.
    Opponents without an exact value are left out. In a world of one seat by level: the best play of one who is told
    it; without members one entry '', the mean over all levels."""
    equilibrium: float | None
    """The value that a player can guarantee without adapting; the security level where the game is not zero-sum.
    None in a world of one seat."""
    memoryless: float | None
    """Score of the best play that knows the pool and sees the current episode only."""
    bayes_last: float | None
    """Highest score in the last episode of a player that knows only the pool: the limit for score@N."""
    bayes_sum: float | None
    """Highest sum of scores over all episodes of such a player."""
    bayes_sum_split: tuple[float, ...] | None
    """Scores by episode of one play that reaches `bayes_sum`."""
    opponents: Members
    """Canonical specs, or levels of a world of one seat, with weights that sum to 1; '' is drawn by the seed."""
    missing: Mapping[str, str]
    """Why a value is None, by its name; `best_response(SPEC)` for a member that is left out there."""
    myopic: MyopicScores | None = None
    """Last score of a player that knows the pool, remembers, and plays every episode for itself (myopic Bayes); None
    also in reports written before it was computed."""

    @property
    def best_response_mean(self) -> float | None:
        """Mean of the best responses, with the pool's weights; None where one is missing."""
        if len(self.best_response) < len(self.opponents):
            return None
        return sum(weight * self.best_response[spec] for spec, weight in self.opponents)


class Attempts:
    """Computes values and keeps the reasons of those that cannot be computed exactly."""

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}

    def get(self, name: str, compute: Callable[[], T], after: str = "") -> T | None:
        """None where it is too large, or where `after`, which needs less, was."""
        if after in self.missing:
            self.missing[name] = self.missing[after]
            return None
        try:
            return compute()
        except InexactError as error:
            self.missing[name] = str(error)
            return None


def references(world: str, members: Sequence[tuple[str, float]], seat: int, episodes: int) -> References:
    """All exact values for `seat` against members with these weights over trials of `episodes` episodes.

    Members are opponents, or levels in a world of one seat, where none are all levels with the world's own weights.
    Invalid specs raise `ConfigError`; values that are too expensive, of opponents drawn from a continuum, or of worlds
    without an exact model are None with a reason.
    """
    return _references(world, normalise_members(world, members, seat, episodes), seat, episodes)


@lru_cache(maxsize=64)
def _references(world: str, members: Members, seat: int, episodes: int) -> References:
    attempts = Attempts()
    attempt = attempts.get
    replies = {
        spec: attempt(f"best_response({spec})", partial(best_response, world, spec, seat, episodes))
        for spec, _ in members
    }
    pool = (world, members, seat, episodes)
    memoryless = attempt("memoryless", partial(best_memoryless, *pool))
    # Each value needs what the one it comes after needs, and more, so a failure is not repeated.
    myopic = attempt("myopic", partial(myopic_bayes, *pool), after="memoryless")
    last = attempt("bayes_last", partial(bayes_optimal, *pool, PlanObjective.LAST), after="memoryless")
    total = attempt("bayes_sum", partial(bayes_optimal, *pool, PlanObjective.SUM), after="bayes_last")
    return References(
        best_response={spec: value for spec, value in replies.items() if value is not None},
        equilibrium=attempt("equilibrium", partial(guaranteed_score, world, seat)),
        memoryless=memoryless,
        bayes_last=None if last is None else last[-1],
        bayes_sum=None if total is None else sum(total),
        bayes_sum_split=total,
        opponents=members,
        missing=attempts.missing,
        myopic=myopic,
    )


def guaranteed_score(world: str, seat: int) -> float:
    """The highest expected score of an episode that a seat can guarantee, whatever the opponents do."""
    return exact_world(world).guaranteed_score(seat)


def best_response(world: str, member: str, seat: int, episodes: int) -> float:
    """The best response in the last episode to each policy the opponent can draw, averaged over the draws.

    In a world of one seat, the best play of one who is told the level; '' averages over the levels it can draw.
    """
    pool = load_pool(world, normalise_members(world, [(member, 1.0)], seat, episodes), seat)
    return informed_value(pool.tree(episodes - 1), pool.prior)


def best_memoryless(world: str, members: Sequence[tuple[str, float]], seat: int, episodes: int) -> float:
    """The best score in the last episode of a player that knows the pool and has seen no other episode."""
    pool = load_pool(world, normalise_members(world, members, seat, episodes), seat)
    return best_value(pool.tree(episodes - 1), pool.prior)


def bayes_optimal(
    world: str, members: Sequence[tuple[str, float]], seat: int, episodes: int, objective: PlanObjective
) -> EpisodeScores:
    """Expected score by episode of a play that is optimal for `objective` over a trial; cached on disk."""
    pool = load_pool(world, normalise_members(world, members, seat, episodes), seat)
    return planned_scores(pool, objective.weights(episodes))


def planned_scores(pool: Pool, weights: Sequence[float]) -> EpisodeScores:
    """Expected score by episode of a play that is optimal for these weights of the episodes; cached on disk."""
    trees, weights = pool.trees(len(weights)), tuple(weights)
    name = fingerprint([tree_numbers(tree) for tree in trees], pool.prior, weights)
    return load_or_compute(name, len(weights), lambda: Planner(trees, pool.prior, weights).trial_scores())


def myopic_bayes(world: str, members: Sequence[tuple[str, float]], seat: int, episodes: int) -> MyopicScores:
    """The last score of a play that is best for each episode, given all episodes before it; cached on disk."""
    pool = load_pool(world, normalise_members(world, members, seat, episodes), seat)
    return myopic_scores(pool, episodes).last


def myopic_scores(pool: Pool, episodes: int) -> MyopicTrial:
    """Scores by episode of a play that is best for each episode, given all episodes before it; cached on disk."""
    trees = pool.trees(episodes)
    name = fingerprint([tree_numbers(tree) for tree in trees], pool.prior, "myopic")

    def compute() -> tuple[float, ...]:
        found = MyopicPlanner(trees, pool.prior).trial_scores()
        return (*found.low, *found.even, *found.high)

    stored = load_or_compute(name, 3 * episodes, compute)
    low, even, high = (stored[start : start + episodes] for start in range(0, 3 * episodes, episodes))
    return MyopicTrial(low, even, high)


def fraction_text(value: float) -> str:
    """An exact value as text: a fraction where it is one, else four decimals.

    >>> fraction_text(22 / 63), fraction_text(-0.05555555555555558), fraction_text(1.0), fraction_text(0.123456789)
    ('22/63', '-1/18', '1', '0.1235')
    """
    fraction = Fraction(value).limit_denominator(5000)
    return str(fraction) if abs(float(fraction) - value) < 1e-11 else f"{value:.4f}"
