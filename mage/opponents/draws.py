"""What a maker draws for one trial, and every way the draws can fall.

Makers draw a phase, a first move or a member with `draw`, and seeds with `draw_seed`. Handed a `ListingRandom`,
the same maker shows each player it can build, and how likely that one is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from mage.errors import ConfigError

T = TypeVar("T")

MAX_WAYS = 10_000
"""Most players that one spec may stand for where they are listed."""


class InexactError(ConfigError):
    """A figure that is well defined but cannot be computed exactly: too large, or drawn from a continuum."""


def draw(rng: random.Random, odds: Sequence[float]) -> int:
    """One index, by odds that need not sum to one."""
    return int(rng.choices(range(len(odds)), odds)[0])


def draw_seed(rng: random.Random) -> int:
    """A seed for a member that was given none."""
    return rng.getrandbits(63)


class ListingRandom(random.Random):
    """Follows `script` through its draws, then takes the first value that can come; `drawn` says what it took."""

    def __init__(self, script: Sequence[int] = ()) -> None:
        super().__init__(0)
        self._script = script
        self.drawn: list[tuple[int, tuple[float, ...]]] = []

    def choices(self, population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1) -> list[Any]:
        if weights is None or k != 1:
            self._refuse()
        total = sum(weights)
        odds = tuple([weight / total for weight in weights])
        at = len(self.drawn)
        taken = self._script[at] if at < len(self._script) else _possible(odds)[0]
        self.drawn.append((taken, odds))
        return [population[taken]]

    def random(self) -> float:
        self._refuse()

    def getrandbits(self, k: int, /) -> int:
        self._refuse()

    @property
    def probability(self) -> float:
        """How likely the draws so far are."""
        product = 1.0
        for taken, odds in self.drawn:
            product *= odds[taken]
        return product

    def _refuse(self) -> NoReturn:
        raise InexactError("it draws from too many values to list them; a seed in the spec fixes it")


def every_way(build: Callable[[random.Random], T], limit: int = MAX_WAYS) -> list[tuple[float, T]]:
    """All that `build` can return, each with its probability, in the order of the draws.

    >>> every_way(lambda rng: draw(rng, [1, 0, 3]))
    [(0.25, 0), (0.75, 2)]
    """
    found: list[tuple[float, T]] = []
    scripts: list[tuple[int, ...]] = [()]
    while scripts:
        script = scripts.pop()
        rng = ListingRandom(script)
        built = build(rng)
        found.append((rng.probability, built))
        if len(found) > limit:
            raise InexactError(f"it stands for more than {limit} players")
        path = tuple([taken for taken, _ in rng.drawn])
        for at in range(len(script), len(path)):  # last draws on top, so that they vary fastest
            others = [i for i in _possible(rng.drawn[at][1]) if i != path[at]]
            scripts += [(*path[:at], other) for other in reversed(others)]
    return found


def _possible(odds: Sequence[float]) -> list[int]:
    return [i for i, share in enumerate(odds) if share > 0]
