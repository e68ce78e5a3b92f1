"""The score that a seat can guarantee against any opponent: the equilibrium value of a zero-sum game.

In other games this is the security level: the opponent minimises the seat's score.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from mage.errors import InexactError
from mage.worlds.openspiel.game import Game, load_game
from mage.worlds.openspiel.words.base import State
from mage.worlds.openspiel.words.matrix import MatrixWords

MAX_STATES = 200_000
"""Most states of a game that is solved."""
MAX_LENGTH = 150
"""Most moves of an episode: walks over a game are recursive, with a few frames per move."""
NOTHING = 0
"""The number of the empty sequence, before a player's first move."""


@lru_cache(maxsize=256)
def security_value(spec: str, seat: int) -> float:
    """The highest expected score that `seat` can guarantee in one episode with a mixed strategy.

    >>> round(security_value("kuhn_poker", 1) * 18, 9)
    1.0
    """
    game = load_game(spec)
    if isinstance(game.words, MatrixWords):
        # A seat can guarantee the value of the stage game in each round, and no more: one round is enough.
        return _solve(_matrix_form(game.words, seat))
    check_countable(game)
    if game.has_perfect_information:
        return _minimax(game, seat)
    return _solve(_SequenceForm.of(game, seat))


def check_countable(game: Game) -> None:
    """Raise `InexactError` on games whose episodes cannot be enumerated."""
    if game.num_seats != 2:
        raise InexactError(f"{game.spec} has {game.num_seats} seats; exact references need two")
    if game.samples_chance_itself:
        raise InexactError(f"{game.spec} samples chance internally, so its outcomes cannot be enumerated")
    length: int = game.rules.max_game_length()
    if length > MAX_LENGTH:
        raise InexactError(f"an episode of {game.spec} can take {length} moves, too many to enumerate")


class _Side(NamedTuple):
    """One player in sequence form: a sequence is an information set and an action, numbered from 1."""

    parents: list[int]
    """By information set, the player's sequence that leads there."""
    sets: list[int]
    """By sequence, its information set; the empty sequence has none (-1)."""
    sequences: dict[tuple[int, int], int]

    @classmethod
    def empty(cls) -> _Side:
        return cls([], [-1], {})

    @classmethod
    def single(cls, num_actions: int) -> _Side:
        """A player that moves once."""
        return cls([NOTHING], [-1] + [0] * num_actions, {(0, a): a + 1 for a in range(num_actions)})


class _SequenceForm(NamedTuple):
    seat: _Side
    other: _Side
    payoffs: dict[tuple[int, int], float]
    """The seat's score times chance, by (its sequence, the other's)."""

    @classmethod
    def of(cls, game: Game, seat: int) -> _SequenceForm:
        """Walk the game tree. Information sets are distinguished by path too, so players have perfect recall."""
        sides = (_Side.empty(), _Side.empty())
        payoffs: dict[tuple[int, int], float] = {}
        numbers: dict[tuple[int, int, str], int] = {}
        count = _counter(game)

        def walk(state: State, at: tuple[int, int], chance: float) -> None:
            count()
            if state.is_terminal():
                payoffs[at] = payoffs.get(at, 0.0) + chance * game.scores(state)[seat]
                return
            if drawn := game.chance(state):
                for outcome, probability in drawn:
                    walk(state.child(outcome), at, chance * probability)
                return
            mover = state.current_player()
            who = int(mover != seat)
            side = sides[who]
            number = numbers.setdefault((who, at[who], game.key(state, mover)), len(side.parents))
            if number == len(side.parents):
                side.parents.append(at[who])
            for action in state.legal_actions():
                sequence = side.sequences.setdefault((number, action), len(side.sets))
                if sequence == len(side.sets):
                    side.sets.append(number)
                walk(state.child(action), (sequence, at[1]) if who == 0 else (at[0], sequence), chance)

        walk(game.start(0), (NOTHING, NOTHING), 1.0)
        return cls(*sides, payoffs)


def _matrix_form(words: MatrixWords, seat: int) -> _SequenceForm:
    payoffs = words.payoffs_by_seat[seat]
    mine, theirs = len(payoffs), len(payoffs[0])
    cells = {(i + 1, j + 1): payoffs[i][j] for i in range(mine) for j in range(theirs)}
    return _SequenceForm(_Side.single(mine), _Side.single(theirs), cells)


def _solve(form: _SequenceForm) -> float:
    """The linear program of a realisation plan against the other side's best response (Koller, Megiddo, von Stengel).

    Variables: the plan x by sequence of the seat, then v by information set of the other side, its value to the
    seat under the best response. Row s of `limits` says v[set of s] <= v of the sets after s + pay-offs at s.
    """
    from scipy.optimize import linprog  # type: ignore[import-untyped]  # slow to import, needed here alone
    from scipy.sparse import lil_array  # type: ignore[import-untyped]

    num_plan, num_sets = len(form.seat.sets), len(form.other.parents)
    limits = lil_array((len(form.other.sets), num_plan + num_sets))
    for (mine, theirs), payoff in form.payoffs.items():
        limits[theirs, mine] -= payoff
    for number, parent in enumerate(form.other.parents):
        limits[parent, num_plan + number] -= 1.0
    for sequence, number in enumerate(form.other.sets[1:], start=1):
        limits[sequence, num_plan + number] += 1.0
    plan = lil_array((1 + len(form.seat.parents), num_plan + num_sets))
    plan[0, NOTHING] = 1.0
    for number, parent in enumerate(form.seat.parents, start=1):
        plan[number, parent] -= 1.0
    for sequence, number in enumerate(form.seat.sets[1:], start=1):
        plan[1 + number, sequence] += 1.0
    # Row 0 of `limits` is the other side's empty sequence: not a limit but the value itself, to be maximised.
    solved = linprog(
        limits[[NOTHING]].toarray()[0],
        A_ub=limits[1:].tocsr(),
        b_ub=[0.0] * (len(form.other.sets) - 1),
        A_eq=plan.tocsr(),
        b_eq=[1.0] + [0.0] * len(form.seat.parents),
        bounds=[(0, None)] * num_plan + [(None, None)] * num_sets,
        method="highs",
    )
    if not solved.success:
        raise InexactError(f"the equilibrium could not be solved: {solved.message}")
    return 0.0 - float(solved.fun)


def _minimax(game: Game, seat: int) -> float:
    """The value of a perfect-information game, by search over its positions."""
    values: dict[tuple[int, bool, str], float] = {}
    count = _counter(game)

    def value(state: State) -> float:
        if state.is_terminal():
            return game.scores(state)[seat]
        mover: int = state.current_player()
        drawn = game.chance(state)
        # The same position can be a chance node first and a decision later.
        position = (mover, bool(drawn), str(state) if state.is_chance_node() else game.key(state, mover))
        if position not in values:
            count()
            if drawn:
                values[position] = sum(p * value(state.child(outcome)) for outcome, p in drawn)
            else:
                after = [value(state.child(action)) for action in state.legal_actions()]
                values[position] = max(after) if mover == seat else min(after)
        return values[position]

    return value(game.start(0))


def _counter(game: Game) -> Callable[[], None]:
    num_states = 0

    def count() -> None:
        nonlocal num_states
        num_states += 1
        if num_states > MAX_STATES:
            raise InexactError(f"{game.spec} has more than {MAX_STATES} states; its equilibrium is not solved exactly")

    return count
