"""Bounds by sampling, for trials that are too large to be planned exactly.

Upper bounds: an agent that is told a few members, of which the hidden one is one, can do no worse than one that is not
told. Each draw takes the hidden member by its probability and the others evenly, so given the draw each of them is as
likely as before, relative to the others, and the draw is planned exactly. The mean over draws bounds the value.

Lower bounds: what a player without memory scores when it plays.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import StrEnum
from math import fsum

import msgspec

from mage.aio import run_sync
from mage.errors import ConfigError, InexactError, PlayError
from mage.evaluation.exact.planner import Planner, PlanObjective, best_value, informed_value, normalised
from mage.evaluation.exact.pool import Members, Pool
from mage.opponents.agent_seat import UNIFORM, check_seat_agent, seat_agent
from mage.protocols import Agent, World
from mage.rollout.group import play_trials
from mage.seeds import derive, pick_index, stream, uniform
from mage.spec import parse_spec
from mage.stats import Estimate, Range, mean
from mage.types import Failure, Task, Trial
from mage.worlds.registry import load_world

MAX_WORK = 300_000
"""Most (leaf, member) pairs of one plan of one draw."""
MAX_STATES = 20_000
"""Most states of an episode of one draw."""
SEARCH = "mcts(100)"
"""A player without memory that is stronger than an even one, where it can play."""
MAX_TURNS = 1000
MEMORYLESS, BEST_LAST, BEST_SUM, INFORMED = "memoryless", "best_last", "best_sum", "informed"


class BoundKind(StrEnum):
    """Which side of the value a bound is on."""

    UPPER = "upper bound"
    LOWER = "lower bound"


class Bound(msgspec.Struct, frozen=True):
    """A bound for a value that is not known exactly."""

    of: str
    """The value: memoryless, best_last, best_sum or informed."""
    kind: BoundKind
    estimate: Estimate
    """The bound holds for the mean over draws or trials, of which this is an estimate with its 95 % interval."""
    how: str
    """How it was found."""


def sub_pool_bounds(pool: Pool, episodes: int, score_range: Range, *, draws: int, seed: int) -> list[Bound]:
    """Upper bounds from draws of as many members together as can be planned; `InexactError` where none can be."""
    size = max(1, len(pool.prior) // 2)
    while True:
        try:
            found = [_drawn(pool, episodes, size, stream(seed, "sub-pool", size, number)) for number in range(draws)]
            break
        except InexactError:
            if size == 1:
                raise
            size //= 2
    how = f"{draws} draws of {size} of {len(pool.prior)} types, one of them the hidden one"
    spans = {BEST_SUM: (episodes * score_range[0], episodes * score_range[1])}
    return [
        Bound(name, BoundKind.UPPER, _within([values[name] for values in found], spans.get(name, score_range)), how)
        for name in found[0]
    ]


def _drawn(pool: Pool, episodes: int, size: int, rng: random.Random) -> dict[str, float]:
    """The values of an agent that knows `size` types, of which the hidden one is one."""
    types = sorted(pool.prior)
    (hidden,) = rng.choices(types, [pool.prior[kind] for kind in types])
    others = rng.sample([kind for kind in types if kind != hidden], size - 1)
    some = normalised({kind: pool.prior[kind] for kind in sorted([hidden, *others])})
    trees = pool.trees_among(some, episodes, MAX_STATES)
    last, total = (
        Planner(trees, some, objective.weights(episodes), MAX_WORK).trial_scores() for objective in PlanObjective
    )
    return {
        MEMORYLESS: best_value(trees[-1], some),
        BEST_LAST: last[-1],
        BEST_SUM: fsum(total),
        INFORMED: informed_value(trees[-1], some),
    }


def played_bounds(world: str, members: Members, seat: int, episodes: int, *, trials: int, seed: int) -> list[Bound]:
    """Lower bounds of the best memoryless score: what players without memory score in the last episode."""
    loaded = load_world(world)
    found: list[Bound] = []
    for player in (UNIFORM, SEARCH):
        try:
            check_seat_agent(loaded, player, seat)
        except ConfigError:
            continue  # it cannot play here
        scores = _last_scores(loaded, player, _tasks(world, members, seat, episodes, trials, seed))
        estimate = _within(scores, (loaded.info.lowest, loaded.info.highest))
        found.append(Bound(MEMORYLESS, BoundKind.LOWER, estimate, f"{trials} trials of {player}"))
    return found


def _within(values: Sequence[float], span: Range) -> Estimate:
    """The mean with its interval, as far as scores reach."""
    found = mean(values, span)
    if found.low is None or found.high is None:
        return found
    return Estimate(found.value, max(found.low, span[0]), min(found.high, span[1]))


def _tasks(world: str, members: Members, seat: int, episodes: int, trials: int, seed: int) -> list[Task]:
    """Trials whose members are drawn by their weights."""
    num_others = load_world(world).info.num_seats - 1
    weights = [weight for _, weight in members]
    tasks = []
    for number in range(trials):
        member = members[pick_index(weights, uniform(seed, "value", number))][0]
        opponents, level = ((member,) * num_others, "") if num_others else ((), member)
        own = derive(seed, "value", number, "trial")
        tasks.append(Task(str(parse_spec(world)), opponents, seat, own, episodes, False, False, MAX_TURNS, level))
    return tasks


def _last_scores(world: World, player: str, tasks: Sequence[Task]) -> list[float]:
    """Scores of the last episode; `PlayError` where a trial fails."""

    def seated(task: Task, sibling: int) -> Agent:
        return seat_agent(world, player, task)

    async def play() -> list[float]:
        outcomes = [outcome async for outcome in play_trials(world, [(task, 0) for task in tasks], seated)]
        for outcome in outcomes:
            if isinstance(outcome, Failure):
                raise PlayError(f"{player} cannot play {outcome.task.world}: {outcome.error}: {outcome.message}")
        return [trial.episodes[-1].result.returns[trial.task.seat] for trial in outcomes if isinstance(trial, Trial)]

    return run_sync(play())
