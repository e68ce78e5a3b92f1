"""Play by inference: the cell that is least likely a mine, and how likely such play clears a board."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mage.worlds.masks import cells_in
from mage.worlds.minesweeper.board import Board, Grid, grid_of, numbers_of, opened_by, safe_cells, start_of
from mage.worlds.minesweeper.mine_odds import Known, mine_odds, possible_mines

MAX_BOARDS = 8000
"""Most boards over which a chance is computed: 6 by 6 cells with 3 mines have 7,140."""


def best_cell(grid: Grid, odds: Sequence[float], closed: int) -> int:
    """Of the closed cells one that is least likely a mine; of several, one with the fewest mines expected around it.

    So a cell that is certainly 0, which opens most, is opened before others that are safe.
    """
    expected = {cell: sum(odds[near] for near in cells_in(grid.around[cell])) for cell in cells_in(closed)}
    return min(expected, key=lambda cell: (odds[cell], round(expected[cell], 9), cell))


def needs_no_guess(board: Board, turns: int) -> bool:
    """Whether a player that opens only cells that cannot be mines clears the board in these turns."""
    grid, num_mines = grid_of(board.rows, board.columns), board.mines.bit_count()
    opened, safe = start_of(board), safe_cells(board)
    for _ in range(turns):
        if opened == safe:
            break
        odds = mine_odds(grid, num_mines, _seen(grid, board.mines, opened))
        cell = best_cell(grid, odds, ~opened & ((1 << grid.num_cells) - 1))
        if odds[cell] > 0:
            return False
        opened |= opened_by(grid, board.mines, cell)
    return opened == safe


def clear_chance(grid: Grid, num_mines: int, known: Known, opened: int, turns: int) -> float | None:
    """The probability that play by `best_cell` clears the board in these turns, where `opened` is open now.

    All boards that fit what is known are equally likely. None where they are too many.
    """
    boards = possible_mines(grid, num_mines, known, MAX_BOARDS)
    if boards is None:
        return None
    return _num_cleared(grid, tuple(boards), opened, turns) / len(boards)


@lru_cache(maxsize=65536)
def _num_cleared(grid: Grid, boards: tuple[int, ...], opened: int, turns: int) -> int:
    """On how many of these boards, which look alike so far, play by `best_cell` opens all safe cells."""
    if opened.bit_count() == grid.num_cells - boards[0].bit_count():
        return len(boards)
    if not turns:
        return 0
    counts = [0] * grid.num_cells
    for mines in boards:
        for cell in cells_in(mines):
            counts[cell] += 1
    odds = [count / len(boards) for count in counts]
    cell = best_cell(grid, odds, ~opened & ((1 << grid.num_cells) - 1))
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for mines in boards:
        if not mines >> cell & 1:
            after = opened | opened_by(grid, mines, cell)
            numbers = numbers_of(grid, mines)
            seen = tuple(numbers[new] for new in cells_in(after & ~opened))
            alike.setdefault((after, seen), []).append(mines)
    return sum(_num_cleared(grid, tuple(group), after, turns - 1) for (after, _), group in alike.items())


def _seen(grid: Grid, mines: int, opened: int) -> Known:
    numbers = numbers_of(grid, mines)
    return Known({cell: numbers[cell] for cell in cells_in(opened)})
