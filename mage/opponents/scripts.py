"""Scripts for any game, and opponents made of other opponents: uniform, always, mixture, switch."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol

from mage.errors import ConfigError
from mage.opponents.draws import draw, draw_seed
from mage.opponents.parameters import move, number, one_of, values
from mage.opponents.policy import Policy, evenly
from mage.seeds import pick_index
from mage.seeds import uniform as uniform_number
from mage.spec import Spec, whole
from mage.types import Observation
from mage.worlds.openspiel.game import Game


class MakePolicy(Protocol):
    """Makes the policy of a spec: how a mixture or a switch gets its members."""

    def __call__(self, spec: Spec, game: Game, seat: int, rng: random.Random) -> Policy: ...


class MixtureScope(StrEnum):
    """How long a mixture keeps the member it has drawn."""

    MOVE = "move"
    EPISODE = "episode"
    TRIAL = "trial"


def uniform(game: Game, seat: int, rng: random.Random) -> Policy:
    """Every legal action with the same probability."""
    return evenly


def always(game: Game, seat: int, rng: random.Random, action: Any) -> Policy:
    """One action wherever it is legal; every legal action with the same probability elsewhere."""
    fixed = move("the action", action, game, seat)

    @lru_cache(maxsize=512)
    def odds(ids: tuple[int, ...]) -> tuple[float, ...]:
        return tuple([float(i == fixed) for i in ids]) if fixed in ids else (1.0 / len(ids),) * len(ids)

    return lambda observation: odds(observation.ids)


def mixture(
    make: MakePolicy,
    game: Game,
    seat: int,
    rng: random.Random,
    *members: Any,
    weights: Any = None,
    each: Any = MixtureScope.MOVE,
) -> Policy:
    """One of its members, drawn anew for each move, episode or trial; equal weights unless given."""
    specs = _members("mixture", members)
    odds = _odds(weights, len(specs))
    term = MixtureScope(one_of("each", each, [e.value for e in MixtureScope]))
    if term is MixtureScope.TRIAL:
        # The others are made too, to raise their errors now, but with a generator that does not affect the draws.
        drawn = draw(rng, odds)
        spare = random.Random(0)
        return [make(s, game, seat, rng if i == drawn else spare) for i, s in enumerate(specs)][drawn]
    policies = [make(s, game, seat, rng) for s in specs]
    if term is MixtureScope.MOVE:
        return _averaged(policies, odds)
    seed = draw_seed(rng)
    return lambda observation: policies[pick_index(odds, uniform_number(seed, observation.episode))](observation)


def switch(make: MakePolicy, game: Game, seat: int, rng: random.Random, *members: Any, at: Any = 1) -> Policy:
    """Its members in order: the next one takes over at each episode in `at`, counted from 0."""
    specs = _members("switch", members)
    episodes = at if isinstance(at, tuple) else (at,)
    if len(episodes) != len(specs) - 1:
        raise ConfigError(f"a switch of {len(specs)} members changes {len(specs) - 1} times, not at {list(episodes)}")
    starts: list[int] = []
    for episode in episodes:
        starts.append(whole("at", episode, starts[-1] + 1 if starts else 1))
    policies = [make(s, game, seat, rng) for s in specs]

    def policy(observation: Observation) -> Sequence[float]:
        return policies[bisect_right(starts, observation.episode)](observation)

    return policy


def _averaged(policies: Sequence[Policy], odds: Sequence[float]) -> Policy:
    """The mixture at one move: the weighted mean of the members' probabilities."""

    def policy(observation: Observation) -> Sequence[float]:
        rows = [p(observation) for p in policies]
        return [sum([o * row[i] for o, row in zip(odds, rows, strict=True)]) for i in range(len(observation.ids))]

    return policy


def _members(name: str, members: Sequence[Any]) -> tuple[Spec, ...]:
    if len(members) < 2 or not all(isinstance(m, Spec) for m in members):
        given = ", ".join(map(str, members)) or "none"
        raise ConfigError(f"a {name} needs two or more opponents, as in {name}(uniform,cfr), not {given}")
    return tuple(members)


def _odds(weights: Any, length: int) -> tuple[float, ...]:
    """Weights that sum to one."""
    given = (1,) * length if weights is None else values("weights", weights, length)
    odds = [number("a weight", w, 0) for w in given]
    if sum(odds) <= 0:
        raise ConfigError("the weights of a mixture must not all be 0")
    return tuple(o / sum(odds) for o in odds)
