"""Words for tic-tac-toe: cells are named by column letter and row number, as on a chess board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage.games.words.base import NEUTRAL, State
from mage.seeds import stream
from mage.types import Fact

_MARKS = ("x", "o")


class TicTacToeWords:
    """Reworded, the nine cells get neutral names, and the board shows the names of the free ones."""

    def __init__(self, reworded: int | None) -> None:
        plain = reworded is None
        self.cells = [f"{column}{row}" for row in "123" for column in "abc"]
        self.marks = ("X", "O")
        self.title = "tic-tac-toe" if plain else "a game of marks on a square"
        if reworded is not None:
            self.cells = stream(reworded, "words", "tic_tac_toe").sample(NEUTRAL, 9)
            self.marks = ("#", "@")
        self.width = max(map(len, self.cells)) if not plain else 1

    def rules(self, seat: int) -> str:
        return (
            f"The game is {self.title}, against one opponent. Players take turns to mark a free cell of a 3 by 3 "
            f"board: {', '.join(self.cells[:3])} is the top row, {', '.join(self.cells[3:6])} the middle row, "
            f"{', '.join(self.cells[6:])} the bottom row. You are {self.marks[seat]} and move "
            f"{'first' if seat == 0 else 'second'}. Three of your marks in a row, column or diagonal win: +1. "
            f"A loss is -1, a draw 0."
        )

    def observe(self, state: State, seat: int) -> str:
        return f"You are {self.marks[seat]}.\n{self._board(state)}"

    def action(self, state: State, seat: int, action: int) -> str:
        return self.cells[action]

    def outcome(self, state: State, seat: int) -> str:
        result = {1.0: "You won: +1.", 0.0: "A draw: 0.", -1.0: "You lost: -1."}[state.returns()[seat]]
        return f"{self._board(state)}\n{result}"

    def facts(self, state: State, seat: int | None) -> Mapping[str, Fact]:
        cells = cells_of(state)
        return {"board": tuple(tuple(cells[row : row + 3]) for row in (0, 3, 6)), "mark": _MARKS[seat or 0]}

    def _board(self, state: State) -> str:
        rows = cells_of(state)
        if self.width > 1:
            shown = [self.marks[_MARKS.index(c)] if c else self.cells[i] for i, c in enumerate(rows)]
            lines = [" ".join(f"{cell:{self.width}}" for cell in shown[row : row + 3]).rstrip() for row in (0, 3, 6)]
            return "\n".join(lines)
        shown = [self.marks[_MARKS.index(c)] if c else "." for c in rows]
        lines = [f"{row // 3 + 1} {' '.join(shown[row : row + 3])}" for row in (0, 3, 6)]
        return "\n".join(["  a b c", *lines])


def cells_of(state: State) -> Sequence[str | None]:
    """The nine cells in reading order: "x", "o" or None."""
    marks = dict(zip(state.history(), _MARKS * 5, strict=False))
    return [marks.get(cell) for cell in range(9)]
