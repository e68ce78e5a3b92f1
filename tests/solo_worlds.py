"""Worlds of one seat for tests: a hidden number that is guessed, and a shop in which any text is an action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mage.types import Fact
from mage.worlds.registry import WORLDS
from mage.worlds.solo import SoloWorld


class Guesses(NamedTuple):
    """A position of the hidden number."""

    made: tuple[int, ...] = ()
    coin: str = ""
    """What the coin shows; empty before it is tossed."""


class HiddenNumber(SoloWorld[int, Guesses]):
    """A number from 1 to `size` is guessed in `tries` guesses; a coin that means nothing is tossed before each."""

    def __init__(self, size: int = 4, tries: int = 2, coin: bool = False) -> None:
        self.size, self.tries, self.coin = size, tries, coin

    @property
    def has_chance(self) -> bool:
        return self.size > 1 or self.coin

    def explain(self) -> str:
        return f"Guess a number from 1 to {self.size}. You have {self.tries} guesses."

    def hidden(self) -> Mapping[int, float]:
        return {number: float(number) for number in range(1, self.size + 1)}

    def start(self, hidden: int) -> Guesses:
        return Guesses()

    def actions(self, hidden: int, position: Guesses) -> Sequence[str]:
        over = hidden in position.made or len(position.made) == self.tries
        return [] if over else [str(number) for number in range(1, self.size + 1)]

    def chance(self, hidden: int, position: Guesses) -> Mapping[Guesses, float]:
        if not self.coin or position.coin or self.is_over(hidden, position):
            return {}
        return {position._replace(coin=side): share for side, share in (("heads", 0.25), ("tails", 0.75))}

    def after(self, hidden: int, position: Guesses, action: str) -> Guesses:
        return Guesses((*position.made, int(action)))

    def tell(self, hidden: int, position: Guesses) -> str:
        coin = f" The coin shows {position.coin}." if position.coin else ""
        if not position.made:
            return f"Your first guess?{coin}"
        last = position.made[-1]
        said = "right" if last == hidden else "too low" if last < hidden else "too high"
        return f"{last} is {said}.{coin}"

    def score(self, hidden: int, position: Guesses) -> float:
        return 1.0 / len(position.made) if hidden in position.made else 0.0

    def is_success(self, hidden: int, position: Guesses) -> bool:
        return hidden in position.made

    def facts(self, hidden: int, position: Guesses) -> Mapping[str, Fact]:
        return {"made": position.made}


class Shop(SoloWorld[str, tuple[str, ...]]):
    """Find out which shoes are there with `search[…]`, and buy them with `buy[…]`."""

    has_open_actions = True
    trial = "You visit the same shop {episodes} times."

    def explain(self) -> str:
        return "You are in a shop. Say search[COLOUR shoes] or buy[COLOUR shoes]. Buy shoes that are there: 1."

    def hidden(self) -> Mapping[str, float]:
        return {"red": 1.0, "blue": 1.0}

    def start(self, hidden: str) -> tuple[str, ...]:
        return ()

    def actions(self, hidden: str, position: tuple[str, ...]) -> Sequence[str]:
        return ()

    def is_over(self, hidden: str, position: tuple[str, ...]) -> bool:
        return bool(position) and position[-1].startswith("buy[")

    def after(self, hidden: str, position: tuple[str, ...], action: str) -> tuple[str, ...]:
        return (*position, action)

    def tell(self, hidden: str, position: tuple[str, ...]) -> str:
        if not position:
            return "What do you do?"
        if position[-1] == f"search[{hidden} shoes]":
            return "They are there."
        if position[-1].startswith("search["):
            return "There are none."
        if self.is_over(hidden, position):
            return f"The {hidden} shoes were there."
        return "The shop does not understand that."

    def score(self, hidden: str, position: tuple[str, ...]) -> float:
        return float(bool(position) and position[-1] == f"buy[{hidden} shoes]")


WORLDS.add("test-number", HiddenNumber)
WORLDS.add("test-shop", Shop)
