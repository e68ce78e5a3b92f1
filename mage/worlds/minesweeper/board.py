"""Boards of MineSweeper as bit masks: neighbours, numbers, what opening a cell opens, and levels as text."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from mage.errors import ConfigError
from mage.worlds.masks import cells_in

MAX_SIDE = 26
"""Most rows and most columns: columns are letters."""
CLOSED = -1
"""The first cell of a board on which none is open at the start."""

_LEVEL = re.compile(r"(\d+)x(\d+):((?:[a-z]\d+)?):([a-z]\d+(?:,[a-z]\d+)*)", re.ASCII)


class Grid:
    """The cells of a board of some size, numbered in reading order; sets of cells are bit masks."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.num_cells = rows * columns
        self.names = tuple(f"{chr(ord('a') + column)}{row}" for row in range(1, rows + 1) for column in range(columns))
        """A letter for the column and a number for the row: a1 is the top left cell."""
        self.around = tuple(self._neighbours(cell) for cell in range(self.num_cells))
        """By cell, the mask of its neighbours."""
        self.number_of = {name: cell for cell, name in enumerate(self.names)}

    def _neighbours(self, cell: int) -> int:
        row, column = divmod(cell, self.columns)
        near = [
            (r, c)
            for r in range(max(row - 1, 0), min(row + 2, self.rows))
            for c in range(max(column - 1, 0), min(column + 2, self.columns))
            if (r, c) != (row, column)
        ]
        return sum(1 << (r * self.columns + c) for r, c in near)


@lru_cache(maxsize=256)
def grid_of(rows: int, columns: int) -> Grid:
    """The grid of a size, made once."""
    return Grid(rows, columns)


class Board(NamedTuple):
    """What is hidden in a trial: the mines, and which cell is open at the start."""

    rows: int
    columns: int
    first: int
    """The cell that is open at the start, or `CLOSED`."""
    mines: int

    def __str__(self) -> str:
        """The level: size, open cell and mines.

        >>> str(Board(2, 3, 0, 0b110000))
        '2x3:a1:b2,c2'
        """
        names = grid_of(self.rows, self.columns).names
        first = "" if self.first == CLOSED else names[self.first]
        return f"{self.rows}x{self.columns}:{first}:{','.join(names[cell] for cell in cells_in(self.mines))}"


def read_board(level: str) -> Board:
    """The board of a level; a `ConfigError` where the text is none.

    >>> read_board("2x3:a1:b2,c2") == Board(2, 3, 0, 0b110000)
    True
    """
    found = _LEVEL.fullmatch(level)
    wrong = ConfigError(f"{level!r} is no board; one is SIZE:OPEN CELL:MINES, such as 6x6:c3:a1,b2,f6")
    if not found or not all(0 < int(found[side]) <= MAX_SIDE for side in (1, 2)):
        raise wrong
    grid = grid_of(int(found[1]), int(found[2]))
    names = found[4].split(",")
    if not {*names, *filter(None, (found[3],))} <= grid.number_of.keys():
        raise wrong
    mines = sum({1 << grid.number_of[name] for name in names})
    board = Board(grid.rows, grid.columns, grid.number_of.get(found[3], CLOSED), mines)
    if str(board) != level or (board.first != CLOSED and mines >> board.first & 1):
        raise wrong
    return board


def draw_board(grid: Grid, num_mines: int, is_opened: bool, rng: random.Random) -> Board:
    """A board with mines anywhere but under the cell that is open at the start, which may be any."""
    first = rng.randrange(grid.num_cells) if is_opened else CLOSED
    free = [cell for cell in range(grid.num_cells) if cell != first]
    return Board(grid.rows, grid.columns, first, sum(1 << cell for cell in rng.sample(free, num_mines)))


def all_boards(grid: Grid, num_mines: int, is_opened: bool) -> Iterator[Board]:
    """Every board that `draw_board` can draw; all are equally likely."""
    for first in range(grid.num_cells) if is_opened else (CLOSED,):
        free = [cell for cell in range(grid.num_cells) if cell != first]
        for mines in combinations(free, num_mines):
            yield Board(grid.rows, grid.columns, first, sum(1 << cell for cell in mines))


@lru_cache(maxsize=8192)
def numbers_of(grid: Grid, mines: int) -> tuple[int, ...]:
    """By cell, how many of its neighbours are mines."""
    return tuple((near & mines).bit_count() for near in grid.around)


def opened_by(grid: Grid, mines: int, cell: int) -> int:
    """The cells that opening a safe cell opens: itself, and the neighbours of every 0 among them.

    >>> grid = grid_of(1, 4)
    >>> opened_by(grid, 0b1000, 0), opened_by(grid, 0b1000, 2)
    (7, 4)
    """
    opened, waiting = 1 << cell, [cell]
    while waiting:
        near = grid.around[waiting.pop()]
        if not near & mines:
            new = near & ~opened
            opened |= new
            waiting += cells_in(new)
    return opened


def start_of(board: Board) -> int:
    """The cells that are open at the start of every episode."""
    if board.first == CLOSED:
        return 0
    return opened_by(grid_of(board.rows, board.columns), board.mines, board.first)


def safe_cells(board: Board) -> int:
    """All cells without a mine."""
    return ((1 << board.rows * board.columns) - 1) & ~board.mines


def least_turns(board: Board) -> int:
    """The fewest cells that one who knows the mines must open to clear the board.

    Every region of 0s needs one, and so does every cell with a number that no 0 opens.

    >>> least_turns(read_board("2x2::a1")), least_turns(read_board("1x4::d1")), least_turns(read_board("1x4:c1:d1"))
    (3, 1, 1)
    """
    grid = grid_of(board.rows, board.columns)
    closed = safe_cells(board) & ~start_of(board)
    turns = 0
    for cell in cells_in(closed):
        if closed >> cell & 1 and not grid.around[cell] & board.mines:
            closed &= ~opened_by(grid, board.mines, cell)
            turns += 1
    return turns + closed.bit_count()
