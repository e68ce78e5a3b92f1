"""A world of one seat for tests: guess a hidden number, with three guesses in every episode of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage.spec import whole
from mage.types import Fact
from mage.worlds.registry import WORLDS
from mage.worlds.solo import SoloWorld

NAME = "hidden_number"
OPEN_NAME = "hidden_word"
NUM_GUESSES = 3


class HiddenNumber(SoloWorld[int, tuple[int, ...]]):
    """A hidden number, the same in all episodes, to be guessed with the answers higher and lower."""

    def __init__(self, highest_number: int = 8) -> None:
        self._highest = whole("highest_number", highest_number, 1)

    def explain(self) -> str:
        return f"A number from 1 to {self._highest} is hidden. You have {NUM_GUESSES} guesses in an episode."

    def hidden(self) -> Mapping[int, float]:
        return dict.fromkeys(range(1, self._highest + 1), 1.0)

    def start(self, hidden: int) -> tuple[int, ...]:
        return ()

    def actions(self, hidden: int, position: tuple[int, ...]) -> Sequence[str]:
        is_over = hidden in position or len(position) == NUM_GUESSES
        return () if is_over else [str(number) for number in self.hidden()]

    def after(self, hidden: int, position: tuple[int, ...], action: str) -> tuple[int, ...]:
        return (*position, int(action))

    def tell(self, hidden: int, position: tuple[int, ...]) -> str:
        if not position:
            return "Guess the number."
        if position[-1] == hidden:
            return f"{hidden} is right."
        return f"It is {'higher' if hidden > position[-1] else 'lower'} than {position[-1]}."

    def score(self, hidden: int, position: tuple[int, ...]) -> float:
        return float(hidden in position)

    def facts(self, hidden: int, position: tuple[int, ...]) -> Mapping[str, Fact]:
        return {"guesses": position}


class HiddenWord(SoloWorld[str, tuple[str, ...]]):
    """A hidden colour to be written; any text is an action."""

    has_open_actions = True

    def explain(self) -> str:
        return "A colour is hidden. Write it; you have two tries."

    def hidden(self) -> Mapping[str, float]:
        return {"red": 1.0, "dark green": 1.0}

    def start(self, hidden: str) -> tuple[str, ...]:
        return ()

    def actions(self, hidden: str, position: tuple[str, ...]) -> Sequence[str]:
        return ()

    def is_over(self, hidden: str, position: tuple[str, ...]) -> bool:
        return hidden in position or len(position) == 2

    def after(self, hidden: str, position: tuple[str, ...], action: str) -> tuple[str, ...]:
        return (*position, action)

    def tell(self, hidden: str, position: tuple[str, ...]) -> str:
        if not position:
            return "Which colour is it?"
        return "That is it." if position[-1] == hidden else f"It is not {position[-1]}."

    def score(self, hidden: str, position: tuple[str, ...]) -> float:
        return float(hidden in position)


def register() -> None:
    """Let both worlds be known in this process; once or many times."""
    WORLDS.add(NAME, HiddenNumber)
    WORLDS.add(OPEN_NAME, HiddenWord)


register()
