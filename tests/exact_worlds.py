"""Small worlds of one seat whose exact values can be worked out by hand; importing this registers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage.worlds.registry import WORLDS
from mage.worlds.solo import SoloWorld

ROOT: tuple[str, ...] = ()


class OneMove(SoloWorld[int, tuple[str, ...]]):
    """One move an episode; subclasses say what it scores and tells. A position is the moves so far."""

    types: int
    leave: str = "leave"
    pays: float = 0.5

    def explain(self) -> str:
        return "Choose one action."

    def hidden(self) -> Mapping[int, float]:
        return dict.fromkeys(range(1, self.types + 1), 1.0)

    def start(self, hidden: int) -> tuple[str, ...]:
        return ROOT

    def moves(self) -> Sequence[str]:
        return [self.leave, *map(str, range(1, self.types + 1))]

    def actions(self, hidden: int, position: tuple[str, ...]) -> Sequence[str]:
        return () if position else self.moves()

    def after(self, hidden: int, position: tuple[str, ...], action: str) -> tuple[str, ...]:
        return (*position, action)

    def tell(self, hidden: int, position: tuple[str, ...]) -> str:
        return f"You scored {self.score(hidden, position):g}." if position else "Choose."

    def score(self, hidden: int, position: tuple[str, ...]) -> float:
        if not position:
            return 0.0
        return self.pays if position[0] == self.leave else float(position[0] == str(hidden))


class Doors(OneMove):
    """A lucky door of three: 1 behind it, 0 behind the others, 0.5 for leaving."""

    types = 3


class Scout(OneMove):
    """A prize in one of four chests; leaving pays 0.3, looking pays nothing and tells where it is."""

    types, pays = 4, 0.3

    def moves(self) -> Sequence[str]:
        return [*super().moves(), "look"]

    def tell(self, hidden: int, position: tuple[str, ...]) -> str:
        return f"It is in chest {hidden}." if position == ("look",) else super().tell(hidden, position)


class Diagnosis(OneMove):
    """Four faults; referring pays 0.5, each of two tests pays 0.4 and tells one bit, a repair pays 1 or 0."""

    types, leave = 4, "refer"

    def moves(self) -> Sequence[str]:
        return [*super().moves(), "test-0", "test-1"]

    def score(self, hidden: int, position: tuple[str, ...]) -> float:
        return 0.4 if position and position[0].startswith("test") else super().score(hidden, position)

    def tell(self, hidden: int, position: tuple[str, ...]) -> str:
        if not (position and position[0].startswith("test")):
            return super().tell(hidden, position)
        return f"The test says {(hidden - 1) >> int(position[0][-1]) & 1}."


class Coin(SoloWorld[str, str]):
    """A coin is fair or loaded (heads nine times in ten). It is flipped, then named; nothing is told afterwards."""

    def explain(self) -> str:
        return "Is the coin fair or loaded?"

    def hidden(self) -> Mapping[str, float]:
        return {"fair": 1.0, "loaded": 1.0}

    def start(self, hidden: str) -> str:
        return "flip"

    def chance(self, hidden: str, position: str) -> Mapping[str, float]:
        heads = 0.5 if hidden == "fair" else 0.9
        return {"heads": heads, "tails": 1 - heads} if position == "flip" else {}

    def actions(self, hidden: str, position: str) -> Sequence[str]:
        return ("fair", "loaded") if position in ("heads", "tails") else ()

    def after(self, hidden: str, position: str, action: str) -> str:
        return action

    def tell(self, hidden: str, position: str) -> str:
        return position if position in ("heads", "tails") else "Thank you."

    def score(self, hidden: str, position: str) -> float:
        return float(hidden == position)


class Unlike(Doors):
    """What is hidden changes the words of the actions, or their number, and nothing else that is told."""

    def __init__(self, by: str = "words") -> None:
        self.by = by

    def actions(self, hidden: int, position: tuple[str, ...]) -> Sequence[str]:
        listed = super().actions(hidden, position)
        return listed[:-1] if self.by == "number" and hidden == 2 else [f"{word}!"[: 4 + hidden] for word in listed]


class Corridor(SoloWorld[int, int]):
    """Walk on for a number of steps; 0 means that it never ends."""

    def __init__(self, steps: int = 0, by_chance: bool = False) -> None:
        self.steps = steps
        self.by_chance = by_chance

    def explain(self) -> str:
        return "Walk on."

    def hidden(self) -> Mapping[int, float]:
        return {1: 1.0}

    def start(self, hidden: int) -> int:
        return 0

    def chance(self, hidden: int, position: int) -> Mapping[int, float]:
        return {position + 1: 1.0} if self.by_chance else {}

    def actions(self, hidden: int, position: int) -> Sequence[str]:
        return () if position == self.steps and self.steps else ("on",)

    def after(self, hidden: int, position: int, action: str) -> int:
        return position + 1

    def tell(self, hidden: int, position: int) -> str:
        return f"Step {position}."

    def score(self, hidden: int, position: int) -> float:
        return float(position == self.steps)


class Shouting(Doors):
    """Any text is an action."""

    has_open_actions = True

    def is_over(self, hidden: int, position: tuple[str, ...]) -> bool:
        return bool(position)


class Unlisted(Doors):
    """Too much can be hidden to list it."""

    def hidden(self) -> Mapping[int, float]:
        return {}


for _name, _world in {
    "solo-doors": Doors,
    "solo-scout": Scout,
    "solo-diagnosis": Diagnosis,
    "solo-coin": Coin,
    "solo-unlike": Unlike,
    "solo-corridor": Corridor,
    "solo-shouting": Shouting,
    "solo-unlisted": Unlisted,
}.items():
    WORLDS.add(_name, _world)
