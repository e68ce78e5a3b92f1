"""Small worlds of one seat, with and without a value of exploration; importing this registers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from mage.worlds.registry import WORLDS
from mage.worlds.solo import SoloWorld
from tests.exact_worlds import OneMove

Moves = tuple[str, ...]
"""A position: the moves so far."""


class Negotiation(OneMove):
    """Four issues; the other insists on one. Conceding one or two keeps the rest if that one is among them."""

    types, highest = 4, 3.0

    def moves(self) -> Sequence[str]:
        return ["+".join(some) for size in (1, 2) for some in combinations("1234", size)]

    def score(self, hidden: int, position: Moves) -> float:
        if not position:
            return 0.0
        conceded = position[0].split("+")
        return 4.0 - len(conceded) if str(hidden) in conceded else 0.0

    def tell(self, hidden: int, position: Moves) -> str:
        return ("Accepted." if self.score(hidden, position) else "Refused.") if position else "Concede."


class Recipe(SoloWorld[str, Moves]):
    """The right pair of four herbs; selling pays 0.3, the right pair 1. Told: how many herbs were right."""

    def hidden(self) -> Mapping[str, float]:
        return {"+".join(pair): 1.0 for pair in combinations("abcd", 2)}

    def actions(self, hidden: str, position: Moves) -> Sequence[str]:
        return () if position else ["sell", *self.hidden()]

    def score(self, hidden: str, position: Moves) -> float:
        return (0.3 if position[0] == "sell" else float(position[0] == hidden)) if position else 0.0

    def tell(self, hidden: str, position: Moves) -> str:
        if not position or position[0] == "sell":
            return "Sold." if position else "Brew or sell."
        return f"{len(set(position[0].split('+')) & set(hidden.split('+')))} right."


class Haggling(SoloWorld[int, Moves]):
    """A buyer pays up to 1, 2 or 3; an accepted price is the score."""

    highest = 3.0

    def hidden(self) -> Mapping[int, float]:
        return {1: 0.55, 2: 0.15, 3: 0.30}

    def actions(self, hidden: int, position: Moves) -> Sequence[str]:
        return () if position else ["1", "2", "3"]

    def score(self, hidden: int, position: Moves) -> float:
        return float(position[0]) if position and int(position[0]) <= hidden else 0.0

    def tell(self, hidden: int, position: Moves) -> str:
        return f"You got {self.score(hidden, position):g}." if position else "Your price?"


class Dilemma(SoloWorld[str, Moves]):
    """The prisoner's dilemma (5, 3, 1, 0), four rounds, the mean; the other is a script that begins anew."""

    highest = 5.0
    points: Mapping[str, float] = {"CC": 3.0, "CD": 0.0, "DC": 5.0, "DD": 1.0}

    def hidden(self) -> Mapping[str, float]:
        return {"AllC": 0.3, "AllD": 0.1, "TFT": 0.1, "Grim": 0.5}

    def actions(self, hidden: str, position: Moves) -> Sequence[str]:
        return () if len(position) == 4 else ("C", "D")

    def replies(self, hidden: str, position: Moves) -> str:
        """What the other played in the rounds so far."""
        if hidden == "TFT":
            return "".join(("C", *position)[: len(position)])
        if hidden == "Grim":
            return "".join("D" if "D" in position[:k] else "C" for k in range(len(position)))
        return hidden[-1] * len(position)

    def score(self, hidden: str, position: Moves) -> float:
        rounds = zip(position, self.replies(hidden, position), strict=True)
        return sum(self.points[mine + theirs] for mine, theirs in rounds) / 4

    def tell(self, hidden: str, position: Moves) -> str:
        return f"They played {self.replies(hidden, position)}."


class Mines(SoloWorld[str, Moves]):
    """Four cells, one mine: 1 for opening all others, 0 for the mine; where allowed, stopping pays 0.5."""

    def __init__(self, stop: bool = False) -> None:
        self.stop = stop

    def hidden(self) -> Mapping[str, float]:
        return dict.fromkeys("abcd", 1.0)

    def actions(self, hidden: str, position: Moves) -> Sequence[str]:
        is_over = hidden in position or "stop" in position or len(position) == 3
        return () if is_over else [*(c for c in "abcd" if c not in position), *(("stop",) if self.stop else ())]

    def score(self, hidden: str, position: Moves) -> float:
        if "stop" in position:
            return 0.5
        return float(hidden not in position and len(position) == 3)

    def tell(self, hidden: str, position: Moves) -> str:
        return "A mine." if hidden in position else f"{len(position)} open."


class DarkRoom(SoloWorld[str, Moves]):
    """Nine cells, an exit in one that is not the middle; from there four steps, 1 for reaching it."""

    steps: Mapping[str, tuple[int, int]] = {"n": (0, -1), "e": (1, 0), "s": (0, 1), "w": (-1, 0)}

    def hidden(self) -> Mapping[str, float]:
        return {f"{x}{y}": 1.0 for x in range(3) for y in range(3) if (x, y) != (1, 1)}

    def path(self, position: Moves) -> list[str]:
        """The cells so far; a wall leaves one where one is."""
        x = y = 1
        cells = []
        for step in position:
            x, y = (min(2, max(0, at + by)) for at, by in zip((x, y), self.steps[step], strict=True))
            cells.append(f"{x}{y}")
        return cells

    def actions(self, hidden: str, position: Moves) -> Sequence[str]:
        return () if hidden in self.path(position) or len(position) == 4 else tuple(self.steps)

    def score(self, hidden: str, position: Moves) -> float:
        return float(hidden in self.path(position))

    def tell(self, hidden: str, position: Moves) -> str:
        return "The exit." if hidden in self.path(position) else "Dark."


for _name, _world in {
    "solo-negotiation": Negotiation,
    "solo-recipe": Recipe,
    "solo-haggling": Haggling,
    "solo-dilemma": Dilemma,
    "solo-mines": Mines,
    "solo-dark-room": DarkRoom,
}.items():
    WORLDS.add(_name, _world)
