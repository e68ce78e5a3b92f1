"""Members at a game, and what their seat sees there."""

from __future__ import annotations

from mage.opponents.policy import Policy
from mage.opponents.registry import make_policy
from mage.seeds import stream
from mage.spec import parse_spec
from mage.types import Observation
from mage.worlds.openspiel.game import Game

ROCK, PAPER, SCISSORS = 0, 1, 2


def policy_of(spec: str, game: Game, seat: int = 0, seed: int = 0) -> Policy:
    """The policy of a member, drawn for a trial with this seed."""
    return make_policy(parse_spec(spec), game, seat, stream(seed, "member"))


def seen_after(game: Game, seat: int, *actions: int, episode: int = 0) -> Observation:
    """What `seat` sees once these actions, chance included, were taken."""
    state = game.start(0)
    for action in actions:
        state.apply_action(action)
    return game.observe(state, seat, episode, 0)
