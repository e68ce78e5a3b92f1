"""The random draws of an opponent for one trial, and their enumeration.

Makers draw a phase, a first move or a member with `draw`, and seeds with `draw_seed`. `enumerate_draws` calls a maker
with an `EnumeratingRandom` for each outcome of its draws, and returns all policies with their probabilities.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from mage.errors import InexactError

T = TypeVar("T")

MAX_OUTCOMES = 10_000
"""Default limit of enumerated outcomes."""


def draw(rng: random.Random, odds: Sequence[float]) -> int:
    """One index, by odds that need not sum to one."""
    return int(rng.choices(range(len(odds)), odds)[0])


def draw_seed(rng: random.Random) -> int:
    """A seed for a member that was given none."""
    return rng.getrandbits(63)


class EnumeratingRandom(random.Random):
    """Takes the outcomes in `script`, then the first possible one; `drawn` records outcomes and their probabilities."""

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
        """The probability of the draws so far."""
        product = 1.0
        for taken, odds in self.drawn:
            product *= odds[taken]
        return product

    def _refuse(self) -> NoReturn:
        raise InexactError("it draws from too many values to list them; a seed in the spec fixes it")


def enumerate_draws(build: Callable[[random.Random], T], limit: int = MAX_OUTCOMES) -> list[tuple[float, T]]:
    """All values that `build` can return, with their probabilities, in the order of the draws.

    >>> enumerate_draws(lambda rng: draw(rng, [1, 0, 3]))
    [(0.25, 0), (0.75, 2)]
    """
    found: list[tuple[float, T]] = []
    scripts: list[tuple[int, ...]] = [()]
    while scripts:
        script = scripts.pop()
        rng = EnumeratingRandom(script)
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
