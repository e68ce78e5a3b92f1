"""Scripted players of MineSweeper: an expert that infers, and one that also remembers the episodes before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from mage.types import AgentInfo, Observation, Reply, Task
from mage.worlds.minesweeper.board import cells_in
from mage.worlds.minesweeper.board_words import MINE, BoardWords, Settings
from mage.worlds.minesweeper.mine_odds import Known, mine_odds
from mage.worlds.minesweeper.solver import best_cell, clear_chance

EXPERT, LEARNS_FROM_FAILURE = "expert", "learns-from-failure"


class InferringPlayer:
    """Opens the cell that is least likely a mine, and stops where that pays more than going on.

    Where it remembers, it knows what it saw in earlier episodes, and stops in the last one alone: what it finds out
    before is worth more. Without a known chance, because too many boards are possible, it goes on.
    """

    def __init__(self, name: str, settings: Settings, words: BoardWords, task: Task, *, remembers: bool) -> None:
        self.info = AgentInfo(name, None, None)
        self._settings = settings
        self._words = words
        self._last_episode = task.episodes - 1
        self._remembers = remembers
        self._known = Known({})

    async def act(self, observation: Observation) -> Reply:
        grid, num_mines, stop = self._settings.grid, self._settings.num_mines, self._settings.stop
        numbers = {cell: number for cell, number in enumerate(_cells(observation)) if number is not None}
        known = Known({**self._known.numbers, **numbers}, self._known.mines)
        opened = sum(1 << cell for cell in numbers)
        closed = ((1 << grid.num_cells) - 1) & ~opened
        if stop is not None and (not self._remembers or observation.episode == self._last_episode):
            chance = clear_chance(grid, num_mines, known, opened, _turns_left(observation))
            if chance is not None and chance < stop:
                return Reply(observation.actions[-1], "", ())
        cell = best_cell(grid, mine_odds(grid, num_mines, known), closed)
        return Reply(observation.actions[list(cells_in(closed)).index(cell)], "", ())

    async def reflect(self, outcome: Observation) -> Reply | None:
        if self._remembers:
            told = self._words.read(outcome.text)
            numbers = {cell: sign for cell, sign in enumerate(told) if isinstance(sign, int)}
            mines = sum(1 << cell for cell, sign in enumerate(told) if sign == MINE)
            self._known = Known({**self._known.numbers, **numbers}, self._known.mines | mines)
        return None

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()


def _cells(observation: Observation) -> Sequence[int | None]:
    rows = cast(Sequence[Sequence[int | None]], observation.facts["board"])
    return [cell for row in rows for cell in row]


def _turns_left(observation: Observation) -> int:
    return cast(int, observation.facts["turns_left"])
