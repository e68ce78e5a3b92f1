"""The methods of a world of one seat as its environment and its exact model call them: every answer is checked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Generic, TypeVar

from mage.answers import WORLD_ERRORS, check_range, code_error, number, text, texts, weights, wrong_answer
from mage.types import Ending, Fact, Task

H = TypeVar("H", bound=Hashable)
P = TypeVar("P", bound=Hashable)


class AskedWorld(Generic[H, P]):
    """Asks a `SoloWorld`; answers that are not allowed, and what its code raises, are a `PlayError` in one line."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.name: str = type(world).__name__
        """What errors begin with: the spec by which the world was loaded, else the name of its class."""

    def rules(self) -> str:
        return text(self.name, "explain", self._ask("explain"))

    def hidden(self) -> Mapping[H, float]:
        return weights(self.name, "hidden", self._ask("hidden"), "weight")

    def draw(self, task: Task) -> H:
        drawn: H = self._ask("draw", task)
        return drawn

    def unshuffled(self, hidden: H) -> H:
        listed: H = self._ask("unshuffled", hidden)
        return listed

    def reveal(self, hidden: H) -> str:
        return text(self.name, "reveal", self._ask("reveal", hidden))

    def start(self, hidden: H) -> P:
        return self._position("start", hidden)

    def actions(self, hidden: H, position: P) -> tuple[str, ...]:
        return texts(self.name, "actions", self._ask("actions", hidden, position))

    def after(self, hidden: H, position: P, action: str) -> P:
        return self._position("after", hidden, position, action)

    def chance(self, hidden: H, position: P) -> Mapping[P, float]:
        return weights(self.name, "chance", self._ask("chance", hidden, position), "probability")

    def tell(self, hidden: H, position: P) -> str:
        return text(self.name, "tell", self._ask("tell", hidden, position))

    def score(self, hidden: H, position: P) -> float:
        return number(self.name, "score", self._ask("score", hidden, position))

    def final_score(self, hidden: H, position: P) -> float:
        """The score where an episode is over."""
        score = self.score(hidden, position)
        self.check_range(score, Ending.FINISHED)
        return score

    def check_range(self, score: float, ending: Ending) -> None:
        """Raise where an episode ended with a score that the world says it cannot have."""
        check_range(self.name, score, self._world.lowest, self._world.highest, ending)

    def is_over(self, hidden: H, position: P) -> bool:
        return bool(self._ask("is_over", hidden, position))

    def is_success(self, hidden: H, position: P) -> bool:
        return bool(self._ask("is_success", hidden, position))

    def facts(self, hidden: H, position: P) -> Mapping[str, Fact]:
        found = self._ask("facts", hidden, position)
        if not isinstance(found, dict | Mapping):
            raise wrong_answer(self.name, "facts", found, "a mapping")
        return found

    def _position(self, method: str, *given: object) -> P:
        """A position, which must be hashable: exact models keep positions in tables."""
        position: P = self._ask(method, *given)
        if isinstance(position, list | dict | set):
            raise wrong_answer(self.name, method, position, "what is hashable, such as a tuple")
        return position

    def _ask(self, method: str, *given: object) -> Any:
        try:
            return getattr(self._world, method)(*given)
        except WORLD_ERRORS as error:
            raise code_error(self.name, error) from error
