"""Scripted players of MineSweeper: an expert that infers, and one that only remembers what went wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, cast

from mage.seeds import derive, uniform
from mage.types import AgentInfo, Observation, Reply, Task
from mage.worlds.masks import cells_in
from mage.worlds.minesweeper.board_words import MINE, BoardWords, Settings
from mage.worlds.minesweeper.mine_odds import Known, mine_odds
from mage.worlds.minesweeper.solver import best_cell, clear_chance

EXPERT, LEARNS_FROM_FAILURE = "expert", "learns-from-failure"


class Seen(NamedTuple):
    """A decision: what is known, the cells that are open in this episode, and the turns that are left."""

    known: Known
    opened: int
    closed: int
    turns_left: int
    place: tuple[int, int]
    """The episode and the turn."""


class MinePlayer(ABC):
    """A player that may remember the numbers and mines of earlier episodes.

    Where it does, it stops in the last episode alone: what it finds out before is worth more.
    """

    def __init__(self, name: str, settings: Settings, words: BoardWords, task: Task, *, remembers: bool) -> None:
        self.info = AgentInfo(name, None, None)
        self._settings = settings
        self._words = words
        self._seed = derive(task.seed, "player")
        self._last_episode = task.episodes - 1
        self._remembers = remembers
        self._known = Known({})

    async def act(self, observation: Observation) -> Reply:
        stop = self._settings.stop
        numbers = {cell: number for cell, number in enumerate(_cells(observation)) if number is not None}
        opened = sum(1 << cell for cell in numbers)
        seen = Seen(
            Known({**self._known.numbers, **numbers}, self._known.mines),
            opened,
            ((1 << self._settings.grid.num_cells) - 1) & ~opened,
            cast(int, observation.facts["turns_left"]),
            (observation.episode, observation.turn),
        )
        may_stop = stop is not None and (not self._remembers or observation.episode == self._last_episode)
        if stop is not None and may_stop and self._stops(seen, stop):
            return Reply(observation.actions[-1], "", ())
        return Reply(observation.actions[list(cells_in(seen.closed)).index(self._cell(seen))], "", ())

    async def reflect(self, outcome: Observation) -> Reply | None:
        if self._remembers:
            told = self._words.read(outcome.text)
            numbers = {cell: sign for cell, sign in enumerate(told) if isinstance(sign, int)}
            mines = sum(1 << cell for cell, sign in enumerate(told) if sign == MINE)
            self._known = Known({**self._known.numbers, **numbers}, self._known.mines | mines)
        return None

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()

    @abstractmethod
    def _cell(self, seen: Seen) -> int:
        """The cell to open."""

    @abstractmethod
    def _stops(self, seen: Seen, pay: float) -> bool:
        """Whether to stop, which pays `pay`."""


class Expert(MinePlayer):
    """Opens the cell that is least likely a mine by all that is known; stops where that pays more than going on.

    Where too many boards are possible for a chance to be computed, it goes on.
    """

    def _cell(self, seen: Seen) -> int:
        grid = self._settings.grid
        return best_cell(grid, mine_odds(grid, self._settings.num_mines, seen.known), seen.closed)

    def _stops(self, seen: Seen, pay: float) -> bool:
        grid, num_mines = self._settings.grid, self._settings.num_mines
        chance = clear_chance(grid, num_mines, seen.known, seen.opened, seen.turns_left)
        return chance is not None and chance < pay


class LearnsFromFailure(MinePlayer):
    """Infers nothing from numbers: opens what it knows is safe, those with low numbers first, then any cell.

    It never opens a mine twice. In the last episode it stops unless it knows all mines or all safe cells.
    """

    def _cell(self, seen: Seen) -> int:
        known = [(seen.known.numbers[cell], cell) for cell in cells_in(seen.closed) if cell in seen.known.numbers]
        if known:
            return min(known)[1]
        others = list(cells_in(seen.closed & ~seen.known.mines))
        return others[int(uniform(self._seed, *seen.place) * len(others))]

    def _stops(self, seen: Seen, pay: float) -> bool:
        num_mines = self._settings.num_mines
        knows_all = len(seen.known.numbers) == self._settings.grid.num_cells - num_mines
        return not knows_all and seen.known.mines.bit_count() < num_mines


def _cells(observation: Observation) -> Sequence[int | None]:
    rows = cast(Sequence[Sequence[int | None]], observation.facts["board"])
    return [cell for row in rows for cell in row]
