"""Who an opponent can turn out to be: every realisation of what a spec draws once per trial."""

from __future__ import annotations

from mage.games.openspiel import Game
from mage.players.draws import InexactError, every_way
from mage.players.policy import Policy
from mage.players.table import make_policy
from mage.spec import parse_spec


def realisations(spec: str, game: Game, seat: int) -> list[tuple[float, Policy]]:
    """All players that `spec` can become in `seat` for one trial, each with its probability.

    An `InexactError` where they cannot be listed.
    """
    parsed = parse_spec(spec)
    try:
        return every_way(lambda rng: make_policy(parsed, game, seat, rng))
    except InexactError as error:
        raise InexactError(f"opponent {spec!r} cannot be enumerated: {error}") from None
