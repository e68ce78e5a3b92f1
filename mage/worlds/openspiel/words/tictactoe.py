"""Words for tic-tac-toe: cells are named by column letter and row number, as on a chess board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage.types import Fact
from mage.worlds.openspiel.words.base import State, lexicon

_MARKS = ("x", "o")


class TicTacToeWords:
    """Reworded, the nine cells get neutral names, and the board shows the names of the free ones."""

    def __init__(self, reworded: int | None) -> None:
        cells = [f"{column}{row}" for row in "123" for column in "abc"]
        shown = lexicon("tic_tac_toe", ["tic-tac-toe", *cells], reworded)
        self.title = shown["tic-tac-toe"]
        self.cells = [shown[cell] for cell in cells]
        self.has_letters = reworded is None
        self.marks = ("X", "O") if self.has_letters else ("#", "@")

    def rules(self, seat: int) -> str:
        return (
            f"The game is {self.title}, against one opponent. Players take turns to mark a free cell of a 3 by 3 "
            f"board. The top row is {', '.join(self.cells[:3])}, the middle row {', '.join(self.cells[3:6])}, "
            f"the bottom row {', '.join(self.cells[6:])}. You are {self.marks[seat]} and move "
            f"{('first', 'second')[seat]}. Three of your marks in a row, column or diagonal win. "
            f"A win is +1, a loss -1, a draw 0."
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
        free = ["."] * 9 if self.has_letters else self.cells
        shown = [free[i] if mark is None else self.marks[mark == "o"] for i, mark in enumerate(cells_of(state))]
        rows = [" ".join(shown[start : start + 3]) for start in (0, 3, 6)]
        if self.has_letters:
            rows = ["  a b c", *(f"{number} {row}" for number, row in enumerate(rows, 1))]
        return "\n".join(rows)


def cells_of(state: State) -> Sequence[str | None]:
    """The nine cells in reading order: "x", "o" or None."""
    marks = dict(zip(state.history(), _MARKS * 5, strict=False))
    return [marks.get(cell) for cell in range(9)]
