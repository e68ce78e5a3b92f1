"""Opponents for repeated matrix games: reactive rules, memory-one players, cycles and random automata.

They see only the rounds of the current episode, so they begin every episode alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

from mage.opponents.draws import draw, draw_seed
from mage.opponents.parameters import move, number, one_of, values
from mage.opponents.policy import Policy
from mage.seeds import stream
from mage.spec import Spec, make_spec, whole
from mage.types import Observation
from mage.worlds.openspiel.game import Game
from mage.worlds.openspiel.words.matrix import Matrix, MatrixWords

_MAX_STATES = 1000


def copy(game: Game, seat: int, rng: random.Random, first: Any = None) -> Policy:
    """Plays the other's last move; the first move is drawn once per trial unless given."""
    num_moves = len(_payoffs(game, seat))
    return _reactive(game, seat, rng, first, [range(num_moves)] * num_moves)


def beat_last(game: Game, seat: int, rng: random.Random, first: Any = None) -> Policy:
    """Plays what pays best against the other's last move; the first move is drawn once per trial unless given."""
    payoffs = _payoffs(game, seat)
    best = [_extreme(max, [row[theirs] for row in payoffs]) for theirs in range(len(payoffs[0]))]
    return _reactive(game, seat, rng, first, [best] * len(payoffs))


def lose_to_last(game: Game, seat: int, rng: random.Random, first: Any = None) -> Policy:
    """Plays what pays worst against the other's last move; the first move is drawn once per trial unless given."""
    payoffs = _payoffs(game, seat)
    worst = [_extreme(min, [row[theirs] for row in payoffs]) for theirs in range(len(payoffs[0]))]
    return _reactive(game, seat, rng, first, [worst] * len(payoffs))


def win_stay_lose_shift(game: Game, seat: int, rng: random.Random, first: Any = None) -> Policy:
    """Keeps its move unless the last round paid less than its pay-offs do on average; then takes the next move."""
    payoffs = _payoffs(game, seat)
    average = sum(map(sum, payoffs)) / sum(map(len, payoffs))
    replies = [[m if paid >= average else (m + 1) % len(payoffs) for paid in row] for m, row in enumerate(payoffs)]
    return _reactive(game, seat, rng, first, replies)


def memory_one(game: Game, seat: int, rng: random.Random, map: Any, on: Any = "them", first: Any = None) -> Policy:
    """A first move, then `map` from the last move of the other (on=them), its own (on=me) or both to the next move.

    With on=both the map has an entry for each pair of last moves, by its own move first: in the prisoner's dilemma
    tit-for-tat is [0,1,0,1], win-stay-lose-shift [0,1,1,0] and grim [0,1,1,1].
    """
    num_moves = len(_payoffs(game, seat))
    heeded = one_of("on", on, ("them", "me", "both"))
    table = [move("map", m, game, seat) for m in values("map", map, num_moves ** (2 if heeded == "both" else 1))]
    if heeded == "both":
        replies = [table[own * num_moves : (own + 1) * num_moves] for own in range(num_moves)]
    else:
        replies = [table] * num_moves if heeded == "them" else [[own] * num_moves for own in table]
    return _reactive(game, seat, rng, first, replies)


def grim(game: Game, seat: int, rng: random.Random) -> Policy:
    """Plays the move that both gain most by, until the other plays another; from then on the one that pays it least.

    In the prisoner's dilemma it cooperates until it is defected against, then defects for the rest of the episode.
    """
    mine, theirs = _payoffs(game, seat), _payoffs(game, 1 - seat)
    shared = _extreme(max, [mine[m][m] + theirs[m][m] for m in range(len(mine))])
    punishment = _extreme(min, [max(row[m] for row in theirs) for m in range(len(mine))])
    hot = _one_hot(len(mine))

    def policy(observation: Observation) -> Sequence[float]:
        is_crossed = any(played != shared for _, played in rounds_of(observation))
        return hot[punishment if is_crossed else shared]

    return policy


def cycle(game: Game, seat: int, rng: random.Random, step: Any = 1, phase: Any = None) -> Policy:
    """All moves in turn, `step` at a time, from `phase`, which is drawn once per trial unless given."""
    num_moves = len(_payoffs(game, seat))
    stride = whole("step", step, 1, num_moves - 1)
    start = _given_or_drawn("phase", phase, game, seat, rng)
    hot = _one_hot(num_moves)
    plays = [hot[(start + stride * turn) % num_moves] for turn in range(num_moves)]
    return lambda observation: plays[len(rounds_of(observation)) % num_moves]


def automaton(game: Game, seat: int, rng: random.Random, states: Any = 3, noise: Any = 0.0, seed: Any = None) -> Policy:
    """A random machine that moves on with the other's moves; with probability `noise` a move is uniform instead."""
    num_states = whole("states", states, 1, _MAX_STATES)
    share = number("noise", noise, 0, 1)
    chosen = draw_seed(rng) if seed is None else whole("seed", seed, 0)
    num_moves = len(_payoffs(game, seat))
    outputs, transitions = _automaton_tables(num_states, num_moves, chosen)
    hot = _one_hot(num_moves)
    plays = [hot[m] if share == 0 else tuple((1 - share) * p + share / num_moves for p in hot[m]) for m in outputs]

    def policy(observation: Observation) -> Sequence[float]:
        state = 0
        for _, theirs in rounds_of(observation):
            state = transitions[state][theirs]
        return plays[state]

    return policy


def memory_one_members(num_moves: int) -> tuple[Spec, ...]:
    """All memory-one players of a game with `num_moves` moves: every first move, `on` and map.

    >>> len(memory_one_members(3))
    162
    """
    maps = list(product(range(num_moves), repeat=num_moves))
    return tuple(
        make_spec("memory-one", first=first, on=Spec(on), map=table)
        for on in ("them", "me")
        for first in range(num_moves)
        for table in maps
    )


def rounds_of(observation: Observation) -> Sequence[tuple[int, int]]:
    """The finished rounds of the episode as (own move, other's move)."""
    return observation.facts["rounds"]  # type: ignore[return-value]  # MatrixWords states this shape


def _reactive(game: Game, seat: int, rng: random.Random, first: Any, replies: Sequence[Sequence[int]]) -> Policy:
    """A first move, then `replies[mine][theirs]` to the last round."""
    hot = _one_hot(len(replies))
    opening = hot[_given_or_drawn("first", first, game, seat, rng)]
    plays = [[hot[reply] for reply in row] for row in replies]

    def policy(observation: Observation) -> Sequence[float]:
        rounds = rounds_of(observation)
        if not rounds:
            return opening
        mine, theirs = rounds[-1]
        return plays[mine][theirs]

    return policy


def _given_or_drawn(name: str, value: Any, game: Game, seat: int, rng: random.Random) -> int:
    """A move as given, or drawn for the trial."""
    if value is None:
        return draw(rng, (1,) * len(_payoffs(game, seat)))
    return move(name, value, game, seat)


def _payoffs(game: Game, seat: int) -> Matrix:
    """Pay-offs of this seat by own move and the other's."""
    assert isinstance(game.words, MatrixWords)
    return game.words.payoffs_by_seat[seat]


def _extreme(pick: Callable[..., float], column: Sequence[float]) -> int:
    """The first row that has the column's largest or smallest value."""
    return column.index(pick(column))


@lru_cache(maxsize=64)
def _one_hot(num_moves: int) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(i == m) for i in range(num_moves)) for m in range(num_moves))


@lru_cache(maxsize=4096)
def _automaton_tables(
    num_states: int, num_moves: int, seed: int
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Outputs by state and transitions by state and the other's move; state 0 is the start."""
    rng = stream(seed, "automaton", num_states, num_moves)
    outputs = tuple(rng.randrange(num_moves) for _ in range(num_states))
    return outputs, tuple(tuple(rng.randrange(num_states) for _ in range(num_moves)) for _ in range(num_states))
