"""What is drawn when a player is made: fixed by the seed, kept for the trial, and listed with its odds."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from mage.errors import InexactError
from mage.opponents.draws import draw, draw_seed, enumerate_draws
from mage.opponents.registry import make_player, make_policy
from mage.spec import parse_spec
from mage.worlds.openspiel.game import load_game
from tests.opponents import PAPER, ROCK, SCISSORS, seen_after


def test_what_a_player_draws_is_fixed_by_the_seed_and_for_the_trial() -> None:
    game = load_game("rps")
    firsts = Counter[str | None]()
    for seed in range(300):
        player = make_player("copy", game, 0, seed)
        again = make_player("copy", game, 0, seed)
        moves = [asyncio.run(p.act(seen_after(game, 0, episode=e))).action for p in (player, again) for e in range(3)]
        assert len(set(moves)) == 1
        firsts[moves[0]] += 1
    assert set(firsts) == {"rock", "paper", "scissors"}
    assert min(firsts.values()) > 70


def test_every_way_lists_what_can_be_drawn() -> None:
    game = load_game("rps")
    mixed = parse_spec("mixture(copy, always:rock, weights=[3, 1], each=trial)")
    ways = enumerate_draws(lambda rng: make_policy(mixed, game, 0, rng))
    assert [(p, list(policy(seen_after(game, 0))).index(1.0)) for p, policy in ways] == [
        (0.25, ROCK),
        (0.25, PAPER),
        (0.25, SCISSORS),
        (0.25, ROCK),
    ]


def test_nested_draws_are_listed_with_their_products() -> None:
    def build(rng: random.Random) -> tuple[int, int]:
        first = draw(rng, [1, 1])
        return first, draw(rng, [1, 0, 3]) if first else 7

    assert enumerate_draws(build) == [(0.5, (0, 7)), (0.125, (1, 0)), (0.375, (1, 2))]


def test_draws_without_number_are_not_listed() -> None:
    with pytest.raises(InexactError, match="too many"):
        enumerate_draws(draw_seed)
    with pytest.raises(InexactError, match="more than 5"):
        enumerate_draws(lambda rng: draw(rng, [1] * 6), limit=5)
