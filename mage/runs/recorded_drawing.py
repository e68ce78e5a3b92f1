"""The drawing of a recorded trial; facts that do not fit the game, as in a damaged file, are shown as they are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from rich.console import RenderableType

from mage.errors import ConfigError
from mage.runs.drawings import Drawing, FactsDrawing, drawing_of
from mage.types import Episode, Observation

S = TypeVar("S")
T = TypeVar("T")
MISFITS = (ConfigError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What code for a game raises on facts, levels and parameters that are not the game's."""


class RecordedDrawing:
    """A drawing that draws what it can."""

    def __init__(self, game: str) -> None:
        self._plain = FactsDrawing()
        self._drawing: Drawing = self._plain
        with suppress(*MISFITS):
            self._drawing = drawing_of(game)

    def private(self, observation: Observation) -> str:
        return _first(self._drawing.private, self._plain.private, observation)

    def position(self, observation: Observation) -> RenderableType | None:
        return _first(self._drawing.position, self._plain.position, observation)

    def revealed(self, episode: Episode) -> RenderableType:
        return _first(self._drawing.revealed, self._plain.revealed, episode)

    def menu(self, observation: Observation) -> str:
        return _first(self._drawing.menu, self._plain.menu, observation)


def _first(draw: Callable[[S], T], otherwise: Callable[[S], T], recorded: S) -> T:
    try:
        return draw(recorded)
    except MISFITS:
        return otherwise(recorded)
