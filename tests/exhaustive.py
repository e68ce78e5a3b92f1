"""Exact expected scores of given policies, by walking the whole game tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mage.errors import ConfigError
from mage.opponents.policy import Policy
from mage.worlds.openspiel.game import Game
from mage.worlds.openspiel.words.base import State


def expected_returns(game: Game, policies: Sequence[Policy], *, episode: int = 0) -> tuple[float, ...]:
    """Expected score of each seat when seat s plays `policies[s]`."""
    if len(policies) != game.num_seats:
        raise ConfigError(f"{game.spec} has {game.num_seats} seats, but {len(policies)} policies are given")
    if game.samples_chance_itself:
        raise ConfigError(f"{game.spec} samples chance internally; its game tree cannot be walked")
    totals = list(game.zero_rewards)
    turns = (0,) * game.num_seats
    for probability, state in _leaves(game, policies, episode, game.start(0), turns):
        for seat, score in enumerate(game.scores(state)):
            totals[seat] += probability * score
    return tuple(totals)


def _leaves(
    game: Game, policies: Sequence[Policy], episode: int, state: State, turns: tuple[int, ...]
) -> Iterator[tuple[float, State]]:
    """Reachable terminal states, each with its probability."""
    if state.is_terminal():
        yield 1.0, state
        return
    seat = state.current_player()
    moves: Sequence[tuple[int, float]] = game.chance(state)
    if not moves:
        observation = game.observe(state, seat, episode, turns[seat])
        moves = list(zip(observation.ids, policies[seat](observation), strict=True))
        turns = (*turns[:seat], turns[seat] + 1, *turns[seat + 1 :])
    for action, probability in moves:
        if probability > 0:
            for below, leaf in _leaves(game, policies, episode, state.child(action), turns):
                yield probability * below, leaf
