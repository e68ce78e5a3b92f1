"""Enumerates the policies that an opponent spec can draw for a trial, and the episodes at which it switches."""

from __future__ import annotations

from functools import lru_cache

from mage.errors import InexactError
from mage.opponents.draws import enumerate_draws
from mage.opponents.policy import Policy
from mage.opponents.registry import make_policy
from mage.spec import Spec, parse_spec
from mage.worlds.openspiel.game import Game


def enumerate_policies(spec: str, game: Game, seat: int) -> list[tuple[float, Policy]]:
    """All policies that `spec` can draw in `seat` for one trial, each with its probability.

    Raises `InexactError` where they cannot be listed.
    """
    parsed = parse_spec(spec)
    try:
        return enumerate_draws(lambda rng: make_policy(parsed, game, seat, rng))
    except InexactError as error:
        raise InexactError(f"opponent {spec!r} cannot be enumerated: {error}") from None


def active_spec(spec: Spec, episode: int) -> Spec:
    """The spec that plays in an episode, counted from 0: for a switch, its member at that time.

    >>> str(active_spec(parse_spec("switch(copy,always:rock,at=2)"), 2))
    'always(rock)'
    """
    if spec.name != "switch":
        return spec
    at = spec.named.get("at", 1)
    place = sum(start <= episode for start in (at if isinstance(at, tuple) else (at,)))
    return active_spec(spec.args[place], episode)


@lru_cache(maxsize=4096)
def switch_episodes(spec: str, episodes: int) -> tuple[int, ...]:
    """The episodes of a trial, counted from 0, at which the opponent changes.

    >>> switch_episodes("switch(copy,always:rock,cycle,at=[2,3])", 6), switch_episodes("copy", 6)
    ((2, 3), ())
    """
    parsed = parse_spec(spec)
    players = [active_spec(parsed, episode) for episode in range(episodes)]
    return tuple(k for k in range(1, episodes) if players[k] != players[k - 1])
