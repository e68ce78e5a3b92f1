"""Memory-one players that behave differently."""

from __future__ import annotations

from mage.opponents.behaviours import behaviours
from mage.opponents.matrix_games import memory_one_members
from mage.worlds.openspiel.game import load_game


def distinct_members(world: str = "rps(rounds=4)") -> tuple[str, ...]:
    """The first of each behaviour in a repeated matrix game; with four rounds those of any greater length."""
    game = load_game(world)
    found: dict[object, str] = {}
    for spec in map(str, memory_one_members(game.rules.num_distinct_actions())):
        found.setdefault(behaviours(spec, game, 1), spec)
    return tuple(found.values())
