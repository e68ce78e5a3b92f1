"""Scripts for Kuhn poker, with two or more players. Cards are numbered from 0, the lowest, to the number of seats."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mage.opponents.policy import Policy
from mage.types import Observation
from mage.worlds.openspiel.game import Game
from mage.worlds.openspiel.words.kuhn import BET

_PASSES, _BETS = (1.0, 0.0), (0.0, 1.0)


def conservative(game: Game, seat: int, rng: random.Random) -> Policy:
    """Bets or calls with the best card only."""
    best = game.num_seats

    def policy(observation: Observation) -> Sequence[float]:
        return _BETS if observation.facts["card"] == best else _PASSES

    return policy


def aggressive(game: Game, seat: int, rng: random.Random) -> Policy:
    """Always bets; facing a bet it folds only the worst card."""

    def policy(observation: Observation) -> Sequence[float]:
        facts = observation.facts
        return _BETS if facts["card"] != 0 or _no_bet_yet(observation) else _PASSES

    return policy


def intermediate(game: Game, seat: int, rng: random.Random) -> Policy:
    """Bets the best card, passes the worst; with one between it bets if there was no bet, else passes."""
    best = game.num_seats

    def policy(observation: Observation) -> Sequence[float]:
        card = observation.facts["card"]
        if card == best:
            return _BETS
        return _BETS if card != 0 and _no_bet_yet(observation) else _PASSES

    return policy


def _no_bet_yet(observation: Observation) -> bool:
    betting = observation.facts["betting"]
    assert isinstance(betting, tuple)
    return BET not in betting
