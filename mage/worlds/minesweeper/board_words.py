"""The texts of MineSweeper: rules, boards as they are shown and read back, and how an episode ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mage.worlds.minesweeper.board import Grid
from mage.worlds.openspiel.words.base import lexicon, signed

HIDDEN, MINE = "#", "*"
"""The signs of a closed cell and of a mine that was opened; open cells have their number."""


class Settings(NamedTuple):
    """What is the same in all tasks of a world."""

    grid: Grid
    num_mines: int
    turns: int
    is_opened: bool
    """Whether a cell is open at the start."""
    stop: float | None
    """What stopping pays; None where it is no action."""


class BoardWords:
    """Texts in the usual words, or in neutral ones."""

    def __init__(self, settings: Settings, reworded: int | None) -> None:
        self._settings = settings
        shown = lexicon("minesweeper", ["MineSweeper", "mine", "stop"], reworded)
        self._title, self._mine, self.stop = shown.values()
        grid = settings.grid
        edge = len(str(grid.rows))
        self._first_line = " " * (edge + 1) + " ".join(chr(ord("a") + column) for column in range(grid.columns))
        self._rows = [(f"{row + 1:>{edge}} ", row * grid.columns, (row + 1) * grid.columns) for row in range(grid.rows)]
        """The label of each row, its first cell, and that of the next."""

    @property
    def trial(self) -> str:
        """What stays the same in a trial."""
        return f"You play {{episodes}} episodes on the same board: every {self._mine} stays where it is."

    @property
    def reflect_request(self) -> str:
        """The request for a reflection."""
        return f"Write a short note to yourself: which cells are safe, which is a {self._mine}, what will you do next?"

    def rules(self) -> str:
        """The rules."""
        grid, num, turns, is_opened, stop = self._settings
        hides = f"1 cell hides a {self._mine}" if num == 1 else f"{num} cells hide a {self._mine} each"
        corners = f"{grid.names[0]} is the top left cell, {grid.names[-1]} the bottom right one"
        return " ".join(
            [
                f"The game is {self._title}, on a board of {grid.rows} rows and {grid.columns} columns: {corners}.",
                f"{hides}; all other cells are safe. Each turn you open a cell that shows {HIDDEN}.",
                f"A safe cell then shows how many of its neighbours, up to 8, hide a {self._mine};",
                "where that is 0, its neighbours are opened too.",
                *(["One safe cell is opened for you."] if is_opened else []),
                f"All safe cells open within {turns} turns: {signed(1)}. A {self._mine} opened: 0, and the episode is",
                "over.",
                *(
                    []
                    if stop is None
                    else [f"Instead of a cell you may choose {self.stop}, which ends it: {signed(stop)}."]
                ),
                f"An action is the name of a cell{'' if stop is None else f', or {self.stop}'}.",
            ]
        )

    def board(self, cells: Sequence[int | str | None]) -> str:
        """The board as text, from its cells: None for a closed one, a number for an open one, or `MINE`.

        >>> from mage.worlds.minesweeper.board import grid_of
        >>> print(BoardWords(Settings(grid_of(2, 3), 1, 7, False, None), None).board([1, None, None, 1, None, "*"]))
          a b c
        1 1 # #
        2 1 # *
        """
        signs = [HIDDEN if cell is None else str(cell) for cell in cells]
        return "\n".join([self._first_line, *[label + " ".join(signs[a:b]) for label, a, b in self._rows]])

    def read(self, told: str) -> list[int | str | None]:
        """The cells of a board in a text that begins with it: the reverse of `board`."""
        lines = told.splitlines()[1 : self._settings.grid.rows + 1]
        signs = [sign for line in lines for sign in line.split()[1:]]
        return [None if sign == HIDDEN else sign if sign == MINE else int(sign) for sign in signs]

    def turns_left(self, num: int) -> str:
        """The line below the board."""
        return f"Turns left: {num}."

    def ended(self, score: float, is_cleared: bool, has_hit: bool, has_stopped: bool) -> str:
        """The line below the board at the end."""
        if has_hit:
            return f"You opened a {self._mine}: {signed(score)}."
        if has_stopped:
            return f"You chose {self.stop}: {signed(score)}."
        return f"{'All safe cells are open' if is_cleared else 'No turns are left'}: {signed(score)}."
