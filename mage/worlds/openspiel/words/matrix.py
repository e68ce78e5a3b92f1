"""Words for repeated matrix games: both choose at once, for a number of rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage.types import Fact
from mage.worlds.openspiel.words.base import State, lexicon, signed

Matrix = Sequence[Sequence[float]]


class MatrixWords:
    """`payoffs_by_seat[s][i][j]` is what seat s gets when it plays its move i and the other seat its move j."""

    def __init__(
        self,
        name: str,
        moves: Sequence[str],
        payoffs_by_seat: tuple[Matrix, Matrix],
        rounds: int,
        reworded: int | None,
        success_score: float | None = None,
    ) -> None:
        shown = lexicon(name, [name, *moves], reworded)
        self.title = shown[name]
        self.moves = [shown[m] for m in moves]
        self.payoffs_by_seat = payoffs_by_seat
        self.rounds = rounds
        self.success_score = success_score

    def rules(self, seat: int) -> str:
        both, score = "Both", ""
        if self.rounds > 1:
            both = f"An episode has {self.rounds} rounds. In each round both"
            score = " Your score is the mean over the rounds."
        return (
            f"The game is {self.title}, against one opponent. {both} choose at the same time: "
            f"{', '.join(self.moves[:-1])} or {self.moves[-1]}.\n{self._payoffs(seat)}{score}"
        )

    def _payoffs(self, seat: int) -> str:
        mine, theirs = self.payoffs_by_seat[seat], self.payoffs_by_seat[1 - seat]
        pairs = [(i, j) for i in range(len(self.moves)) for j in range(len(self.moves))]
        is_contest = all(mine[i][j] == theirs[i][j] == -mine[j][i] and abs(mine[i][j]) in (0, 1) for i, j in pairs)
        if is_contest:
            wins = ", ".join(f"{self.moves[i]} beats {self.moves[j]}" for i, j in pairs if mine[i][j] > 0)
            return f"Here {wins or 'nothing wins'}. A win is +1, a loss -1, a draw 0."
        points = {(i, j): signed(mine[i][j]) for i, j in pairs}
        if all(mine[i][j] == -theirs[j][i] for i, j in pairs):
            other = "The opponent gets the opposite."
        elif all(mine[i][j] == theirs[i][j] for i, j in pairs):
            other = "The opponent's points follow the same rule."
        else:
            other = "The second number is the opponent's."
            points = {(i, j): f"{shown} and {signed(theirs[j][i])}" for (i, j), shown in points.items()}
        cells = ", ".join(f"{self.moves[i]} against {self.moves[j]} {points[i, j]}" for i, j in pairs)
        return f"Points for your move against the opponent's: {cells}. {other}"

    def observe(self, state: State, seat: int) -> str:
        rounds = played(state, seat)
        heading = f"Round {min(len(rounds) + 1, self.rounds)} of {self.rounds}."
        return f"{heading} {self._last(rounds)}" if rounds else heading

    def action(self, state: State, seat: int, action: int) -> str:
        return self.moves[action]

    def outcome(self, state: State, seat: int) -> str:
        return f"{self._last(played(state, seat))} Your score: {signed(state.returns()[seat] / self.rounds)}."

    def facts(self, state: State, seat: int | None) -> Mapping[str, Fact]:
        rounds = played(state, seat or 0)
        return {"round": len(rounds), "rounds": rounds}

    def _last(self, rounds: Sequence[tuple[int, int]]) -> str:
        """Only the newest round: earlier ones were told at earlier turns of the episode."""
        mine, theirs = rounds[-1]
        return f"Last round: you {self.moves[mine]}, opponent {self.moves[theirs]}."


def played(state: State, seat: int) -> tuple[tuple[int, int], ...]:
    """The finished rounds as (own move, other's move). A move made in an unfinished round stays hidden."""
    moves = state.history()
    pairs = zip(moves[0::2], moves[1::2], strict=False)
    return tuple(pairs) if seat == 0 else tuple((second, first) for first, second in pairs)
