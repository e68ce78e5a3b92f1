"""Opponents by name: a spec string becomes a player for one seat of one trial."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from mage.errors import pick
from mage.games.openspiel import Game
from mage.players.policy import Policy, PolicyPlayer, evenly
from mage.seeds import derive, stream
from mage.spec import Spec, call_with, parse_spec

Maker = Callable[..., Policy]
"""`maker(game, seat, rng, …parameters)`; what is random about the member is drawn from `rng`, once per trial."""


def uniform(game: Game, seat: int, rng: random.Random) -> Policy:
    """Every legal action with the same probability."""
    return evenly


MAKERS: Mapping[str, Maker] = {"uniform": uniform}


def make_policy(spec: Spec, game: Game, seat: int, rng: random.Random) -> Policy:
    """The policy a spec names, or an error that lists what exists."""
    policy: Policy = call_with("opponent", spec, pick("opponent", MAKERS, spec.name), game, seat, rng)
    return policy


def make_player(spec: str, game: Game, seat: int, seed: int) -> PolicyPlayer:
    """A player that lives for one trial. `seed` fixes all that is random about it."""
    policy = make_policy(parse_spec(spec), game, seat, stream(seed, "member"))
    return PolicyPlayer(policy, derive(seed, "moves"))
