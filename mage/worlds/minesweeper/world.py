"""`minesweeper(rows, columns, mines, …)`: the same board in all episodes of a trial; what is hidden are its mines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from math import comb, isfinite
from typing import Any, NamedTuple

from mage.errors import ConfigError, InexactError, listing
from mage.protocols import Player
from mage.seeds import stream
from mage.spec import show, whole
from mage.types import Fact, Task
from mage.worlds.masks import cells_in
from mage.worlds.minesweeper.board import (
    CLOSED,
    MAX_SIDE,
    Board,
    all_boards,
    draw_board,
    grid_of,
    least_turns,
    numbers_of,
    opened_by,
    read_board,
    safe_cells,
    start_of,
)
from mage.worlds.minesweeper.board_words import MINE, BoardWords, Settings
from mage.worlds.minesweeper.players import EXPERT, LEARNS_FROM_FAILURE, Expert, LearnsFromFailure
from mage.worlds.minesweeper.solver import needs_no_guess
from mage.worlds.solo import SoloModel, SoloWorld

MAX_PLANNED = 16
"""Most cells of a board that is planned exactly; for larger ones that would only fail late."""
MAX_POSITIONS = 200_000
"""Most positions of all boards together that are planned exactly."""
_MOST_DRAWS = 10_000
"""Most boards that are drawn until one is as promised."""
_NO_CELL = -1


class Start(StrEnum):
    """How an episode begins."""

    CLOSED = "closed"
    """No cell is open."""
    OPENED = "opened"
    """One safe cell is open, with all that it opens."""
    GUESS_FREE = "guess-free"
    """The same, on boards that can be cleared from there without a guess."""


class Position(NamedTuple):
    """Where an episode stands."""

    opened: int
    """The mask of the open cells."""
    num_turns: int = 0
    hit: int = _NO_CELL
    """The mine that was opened."""
    has_stopped: bool = False


class MineSweeper(SoloWorld[Board, Position]):
    """MineSweeper, the same board again in all episodes: open all safe cells."""

    tells_all = True

    def __init__(
        self,
        rows: int = 6,
        columns: int = 6,
        mines: int = 3,
        turns: int = 7,
        start: Any = Start.OPENED.value,
        stop: float | None = None,
        list_actions: bool = True,
        reworded: int | None = None,
    ) -> None:
        self._start = _start(start)
        is_opened = self._start is not Start.CLOSED
        grid = grid_of(whole("rows", rows, 1, MAX_SIDE), whole("columns", columns, 1, MAX_SIDE))
        num_safe = 2 if is_opened else 1
        if grid.num_cells <= num_safe:
            raise ConfigError(f"rows = {rows}, columns = {columns}: the board needs at least {num_safe + 1} cells")
        num_mines = whole("mines", mines, 1, grid.num_cells - num_safe)
        if stop is not None and (type(stop) not in (int, float) or not isfinite(stop)):
            raise ConfigError(f"stop must be a number, what stopping pays, not {show(stop)}")
        if type(list_actions) is not bool:
            raise ConfigError(f"list_actions must be true or false, not {show(list_actions)}")
        self._settings = Settings(grid, num_mines, whole("turns", turns, 1), is_opened, stop)
        self._words = BoardWords(self._settings, reworded)
        self.lists_actions = list_actions
        self.trial, self.reflect_request = self._words.trial, self._words.reflect_request
        self.lowest, self.highest = min(0.0, stop or 0.0), max(1.0, stop or 0.0)
        self._told = lru_cache(maxsize=4096)(self._tell)
        self._drawn = lru_cache(maxsize=4096)(self._draw)
        self._drawn(0)  # refuses settings that no board fits

    def explain(self) -> str:
        return self._words.rules()

    def hidden(self) -> Mapping[Board, float]:
        grid, num_mines, _, is_opened, _ = self._settings
        if grid.num_cells > MAX_PLANNED:
            return {}
        return dict.fromkeys(filter(self._is_promised, all_boards(grid, num_mines, is_opened)), 1.0)

    def draw(self, task: Task) -> Board:
        return read_board(task.level) if task.level else self._drawn(task.seed)

    def drawn_level(self, task: Task) -> str:
        """The level of a task, as text."""
        return str(self.draw(task))

    def check_level(self, level: str) -> None:
        board = read_board(level)
        grid, num_mines, turns, is_opened, _ = self._settings
        wanted = f"{grid.rows} by {grid.columns} cells with {num_mines} mines, {'one' if is_opened else 'none'} open"
        same = (board.rows, board.columns, board.mines.bit_count(), board.first != CLOSED)
        if same != (grid.rows, grid.columns, num_mines, is_opened):
            raise ConfigError(f"the level {level!r} is another board than this world has: {wanted}")
        if not self._is_promised(board):
            raise ConfigError(f"the level {level!r} cannot be cleared as promised: {self._start}, in {turns} turns")

    def exact_model(self, members: Sequence[tuple[str, float]], seat: int) -> SoloModel[Board, Position]:
        num_cells = self._settings.grid.num_cells
        if num_cells > MAX_PLANNED:
            raise InexactError(f"a board of {num_cells} cells is too large to be planned; most {MAX_PLANNED}")
        boards = [read_board(level) for level, _ in members] or self.hidden()
        if (num := sum(map(self._least_positions, boards))) > MAX_POSITIONS:
            raise InexactError(f"these boards have at least {num} positions, too many to be planned")
        return super().exact_model(members, seat)

    @property
    def players(self) -> Mapping[str, Callable[..., Player]]:
        settings, words = self._settings, self._words

        def expert(task: Task, remember: bool = False) -> Player:
            """Opens the cell that is least likely a mine; with `remember` by all that it has seen in the trial."""
            name = f"{EXPERT}(remember={show(remember)})" if remember else EXPERT
            return Expert(name, settings, words, task, remembers=remember)

        def learns_from_failure(task: Task) -> Player:
            """Opens cells that it knows are safe first, then others at random; never the same mine twice."""
            return LearnsFromFailure(LEARNS_FROM_FAILURE, settings, words, task, remembers=True)

        return {EXPERT: expert, LEARNS_FROM_FAILURE: learns_from_failure}

    def start(self, hidden: Board) -> Position:
        return Position(start_of(hidden))

    def actions(self, hidden: Board, position: Position) -> Sequence[str]:
        if self.is_over(hidden, position):
            return ()
        grid, stop = self._settings.grid, self._settings.stop
        opened = position.opened
        cells = [name for cell, name in enumerate(grid.names) if not opened >> cell & 1]
        return cells if stop is None else [*cells, self._words.stop]

    def is_over(self, hidden: Board, position: Position) -> bool:
        opened, num_turns, hit, has_stopped = position
        is_cleared = opened == safe_cells(hidden)
        return hit != _NO_CELL or has_stopped or is_cleared or num_turns >= self._settings.turns

    def after(self, hidden: Board, position: Position, action: str) -> Position:
        num_turns = position.num_turns + 1
        if self._settings.stop is not None and action == self._words.stop:
            return position._replace(num_turns=num_turns, has_stopped=True)
        grid = self._settings.grid
        cell = grid.number_of[action]
        if hidden.mines >> cell & 1:
            return position._replace(num_turns=num_turns, hit=cell)
        return position._replace(num_turns=num_turns, opened=position.opened | opened_by(grid, hidden.mines, cell))

    def tell(self, hidden: Board, position: Position) -> str:
        return self._told(hidden, position)

    def _tell(self, hidden: Board, position: Position) -> str:
        board = self._words.board(self._cells(hidden, position))
        if not self.is_over(hidden, position):
            return f"{board}\n{self._words.turns_left(self._settings.turns - position.num_turns)}"
        score, is_cleared = self.score(hidden, position), self.is_success(hidden, position)
        return f"{board}\n{self._words.ended(score, is_cleared, position.hit != _NO_CELL, position.has_stopped)}"

    def score(self, hidden: Board, position: Position) -> float:
        if position.has_stopped:
            return float(self._settings.stop or 0.0)
        return float(self.is_success(hidden, position))

    def is_success(self, hidden: Board, position: Position) -> bool:
        return position.opened == safe_cells(hidden) and not position.has_stopped

    def facts(self, hidden: Board, position: Position) -> Mapping[str, Fact]:
        cells, columns = self._cells(hidden, position), self._settings.grid.columns
        rows = tuple(tuple(cells[start : start + columns]) for start in range(0, len(cells), columns))
        return {
            "board": rows,
            "mines": self._settings.num_mines,
            "turns_left": self._settings.turns - position.num_turns,
        }

    def _cells(self, hidden: Board, position: Position) -> list[int | str | None]:
        """By cell its number, None where it is closed, or the sign of a mine that was opened."""
        numbers = numbers_of(self._settings.grid, hidden.mines)
        opened = position.opened
        cells: list[int | str | None] = [number if opened >> cell & 1 else None for cell, number in enumerate(numbers)]
        if position.hit != _NO_CELL:
            cells[position.hit] = MINE
        return cells

    def _is_promised(self, board: Board) -> bool:
        """Whether it can be cleared in the turns there are, and without a guess where that is promised."""
        turns = self._settings.turns
        if not 1 <= least_turns(board) <= turns:
            return False
        return self._start is not Start.GUESS_FREE or needs_no_guess(board, turns)

    def _least_positions(self, board: Board) -> int:
        """How many positions a board has at least: cells with a number are opened alone, in any number and order."""
        numbers = numbers_of(self._settings.grid, board.mines)
        num = sum(numbers[cell] > 0 for cell in cells_in(safe_cells(board) & ~start_of(board)))
        return sum(comb(num, turns) for turns in range(min(num, self._settings.turns) + 1))

    def _draw(self, seed: int) -> Board:
        grid, num_mines, turns, is_opened, _ = self._settings
        rng = stream(seed, "board")
        for _ in range(_MOST_DRAWS):
            board = draw_board(grid, num_mines, is_opened, rng)
            if self._is_promised(board):
                return board
        guess = " without a guess" if self._start is Start.GUESS_FREE else ""
        raise ConfigError(
            f"none of {_MOST_DRAWS} boards of {grid.rows} by {grid.columns} cells with {num_mines} mines can be "
            f"cleared in {turns} turns{guess}; give more turns or fewer mines"
        )


def _start(given: Any) -> Start:
    if str(given) not in list(Start):
        raise ConfigError(f"start must be one of {listing(list(Start))}, not {show(given)}")
    return Start(str(given))
