"""Scripts for tic-tac-toe: the first free cell of a fixed order. Cells are numbered in reading order."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from mage.errors import ConfigError
from mage.opponents.parameters import one_of, values
from mage.opponents.policy import Policy
from mage.spec import show, whole
from mage.worlds.openspiel.game import Game

_CORNERS, _EDGES = (0, 2, 6, 8), (1, 3, 5, 7)

ORDERS: Mapping[str, tuple[int, ...]] = {
    "centre": (4, *_CORNERS, *_EDGES),
    "corners": (*_CORNERS, 4, *_EDGES),
    "edges": (*_EDGES, 4, *_CORNERS),
    "main-diagonal": (0, 4, 8, 2, 6, *_EDGES),
    "anti-diagonal": (2, 4, 6, 0, 8, *_EDGES),
    "corners-reversed": (*reversed(_CORNERS), 4, *reversed(_EDGES)),
}


def preferred(game: Game, seat: int, rng: random.Random, order: Any) -> Policy:
    """The first free cell: centre, corners, edges, main-diagonal, anti-diagonal, corners-reversed or a list of nine."""
    cells = _nine(order) if isinstance(order, tuple) else ORDERS[one_of("the order", order, tuple(ORDERS))]

    @lru_cache(maxsize=512)
    def odds(free: tuple[int, ...]) -> tuple[float, ...]:
        chosen = next(cell for cell in cells if cell in free)
        return tuple([float(cell == chosen) for cell in free])

    return lambda observation: odds(observation.ids)


def _nine(order: Any) -> tuple[int, ...]:
    cells = tuple(whole("a cell", cell, 0, 8) for cell in values("the order", order, 9))
    if len(set(cells)) < 9:
        raise ConfigError(f"the order must have each cell from 0 to 8 once, not {show(order)}")
    return cells
