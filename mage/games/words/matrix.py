"""Words for repeated matrix games: both choose at once, for a number of rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage.games.words.base import State, lexicon, signed
from mage.types import Fact

Matrix = Sequence[Sequence[float]]


class MatrixWords:
    """`payoffs_by_seat[s][i][j]` is what seat s gets when it plays its move i and the other seat its move j."""

    def __init__(
        self,
        name: str,
        moves_by_seat: tuple[Sequence[str], Sequence[str]],
        payoffs_by_seat: tuple[Matrix, Matrix],
        rounds: int,
        reworded: int | None,
    ) -> None:
        terms = list(dict.fromkeys([*moves_by_seat[0], *moves_by_seat[1]]))
        shown = lexicon(name, terms, reworded)
        self.title = name if reworded is None else "a game of two choices made at once"
        self.moves_by_seat = tuple([shown[m] for m in moves] for moves in moves_by_seat)
        self.payoffs_by_seat = payoffs_by_seat
        self.rounds = rounds

    def rules(self, seat: int) -> str:
        rounds = "one round" if self.rounds == 1 else f"{self.rounds} rounds"
        return (
            f"The game is {self.title}, against one opponent. An episode has {rounds}. In each round both choose "
            f"at the same time: {_either(self.moves_by_seat[seat])}.\n"
            f"{self._payoffs(seat)} Your score is the mean over the rounds."
        )

    def _payoffs(self, seat: int) -> str:
        mine, theirs, payoffs = self.moves_by_seat[seat], self.moves_by_seat[1 - seat], self.payoffs_by_seat[seat]
        cells = [(m, t, payoffs[i][j]) for i, m in enumerate(mine) for j, t in enumerate(theirs)]
        if mine == theirs and all(v == _beats(m, t, cells) for m, t, v in cells):
            wins = ", ".join(f"{m} beats {t}" for m, t, v in cells if v > 0)
            return f"{wins}. A win is +1, a loss -1, a draw 0."
        return "Your points: " + ", ".join(f"{m} against {t} {signed(v)}" for m, t, v in cells) + "."

    def observe(self, state: State, seat: int) -> str:
        rounds = played(state, seat)
        heading = f"Round {len(rounds) + 1} of {self.rounds}."
        return f"{heading} {self._last(rounds, seat)}" if rounds else heading

    def action(self, state: State, seat: int, action: int) -> str:
        return self.moves_by_seat[seat][action]

    def outcome(self, state: State, seat: int) -> str:
        rounds = played(state, seat)
        score = sum(self.payoffs_by_seat[seat][mine][theirs] for mine, theirs in rounds) / self.rounds
        return f"{self._last(rounds, seat)} Your score: {signed(score)}."

    def facts(self, state: State, seat: int | None) -> Mapping[str, Fact]:
        return {"round": len(state.history()) // 2, "rounds": played(state, seat or 0)}

    def _last(self, rounds: Sequence[tuple[int, int]], seat: int) -> str:
        """Only the newest round: earlier ones were told at earlier turns of the episode."""
        mine, theirs = rounds[-1]
        return f"Last round: you {self.moves_by_seat[seat][mine]}, opponent {self.moves_by_seat[1 - seat][theirs]}."


def played(state: State, seat: int) -> tuple[tuple[int, int], ...]:
    """The finished rounds as (own move, other's move). A move made in an unfinished round stays hidden."""
    moves = state.history()
    pairs = zip(moves[0::2], moves[1::2], strict=False)
    return tuple(pairs) if seat == 0 else tuple((second, first) for first, second in pairs)


def _either(moves: Sequence[str]) -> str:
    return f"{', '.join(moves[:-1])} or {moves[-1]}"


def _beats(mine: str, theirs: str, cells: Sequence[tuple[str, str, float]]) -> float:
    """+1, 0 or -1 by who wins the cell; equal to every pay-off in a plain win/draw/loss game."""
    value = next(v for m, t, v in cells if (m, t) == (mine, theirs))
    mirrored = next(v for m, t, v in cells if (m, t) == (theirs, mine))
    return (value > 0) - (value < 0) if value == -mirrored else float("nan")
