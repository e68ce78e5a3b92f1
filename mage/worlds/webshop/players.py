"""Players of WebShop without a model: one that knows the catalogue, one that goes by words, one that also learns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mage.types import AgentInfo, Observation, Reply
from mage.worlds.webshop.catalogue import Catalogue, Goal, words_of
from mage.worlds.webshop.generate import best_options, fits, full_query
from mage.worlds.webshop.pages import BACK, BUY, NEXT, SEARCH, ShopWords
from mage.worlds.webshop.search import MOST_RESULTS, Search


class Expert:
    """Knows the catalogue: searches so that a product that fits is listed early, and buys it with its options.

    Where none is listed for any query, it buys nothing.
    """

    def __init__(self, words: ShopWords, goal: Goal, catalogue: Catalogue, search: Search, *, is_free: bool) -> None:
        self._words = words
        self._goal = goal
        self._catalogue = catalogue
        queries = [full_query(goal)] if is_free else goal.queries
        self._query = min(queries, key=lambda query: self._place(search.find(query)))

    def _place(self, results: Sequence[str]) -> int:
        """The place of the first result that fits; behind all of them where none does."""
        fitting = (place for place, number in enumerate(results) if fits(self._goal, self._catalogue.by_number[number]))
        return next(fitting, MOST_RESULTS)

    async def act(self, observation: Observation) -> Reply:
        return Reply(self._next(observation.facts), "", ())

    def _next(self, facts: Any) -> str:
        click, by_number = self._words.click, self._catalogue.by_number
        if facts["page"] == "search":
            return self._words.search(self._query)
        if facts["page"] == "results" and facts["query"] == self._query:
            fitting = [row[0] for row in facts["results"] if fits(self._goal, by_number[row[0]])]
            is_last = facts["number"] == facts["num_pages"]
            return click(fitting[0] if fitting else BACK if is_last else NEXT)
        if facts["page"] == "item" and fits(self._goal, by_number[facts["item"]]):
            wanted = best_options(self._goal, by_number[facts["item"]])
            missing = [value for value, taken in zip(wanted, facts["chosen"], strict=True) if value and value != taken]
            return click(missing[0] if missing else BUY)
        return click(BACK)


class Shopper:
    """Searches for what is asked, takes the first result with the options that are named, and buys it.

    One that learns remembers what it bought: later it takes the first result that it has not bought in vain, and buys
    again what has fitted.
    """

    def __init__(self, name: str, words: ShopWords, *, learns: bool) -> None:
        self.info = AgentInfo(name, None, None)
        self._words = words
        self._learns = learns
        self._bought: dict[str, bool] = {}
        """By number of a product, whether it fitted."""
        self._item = ""
        """What was bought in this episode."""

    async def act(self, observation: Observation) -> Reply:
        return Reply(self._next(observation), "", ())

    async def reflect(self, outcome: Observation) -> Reply | None:
        if self._learns and self._item:
            self._bought[self._item] = bool(outcome.facts["success"])
        self._item = ""
        return None

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()

    def _next(self, observation: Observation) -> str:
        facts: Any = observation.facts
        click, asked = self._words.click, words_of(facts["asked"])
        if facts["page"] == "search":
            return _closest(observation.actions, asked, self._words) or self._words.search(facts["asked"])
        if facts["page"] == "results":
            return click(self._taken([row[0] for row in facts["results"]], facts["number"] < facts["num_pages"]))
        if facts["page"] == "item":
            pairs = zip(facts["options"], facts["chosen"], strict=True)
            named = [_named(values, asked) for (_, *values), taken in pairs if not taken]
            choice = next(filter(None, named), BUY)
            self._item = facts["item"] if choice == BUY else ""
            return click(choice)
        return click(BACK)

    def _taken(self, numbers: Sequence[str], has_more: bool) -> str:
        fitted = [number for number in numbers if self._bought.get(number)]
        fresh = [number for number in numbers if number not in self._bought]
        return [*fitted, *fresh, NEXT if has_more else BACK][0]


def _closest(actions: Iterable[str], asked: Sequence[str], words: ShopWords) -> str:
    """The offered query with the most words of what is asked, and the fewest others; empty where none is offered."""

    def shared(action: str) -> tuple[int, int]:
        own = {*words_of(words.read(action)[1])}
        return len(own & {*asked}), -len(own)

    return max((action for action in actions if words.read(action)[0] == SEARCH), key=shared, default="")


def _named(values: Sequence[str], asked: Sequence[str]) -> str:
    """The value of a group whose words are all among those of what is asked, the longest first; empty where none is."""
    found = [value for value in values if {*words_of(value)} <= {*asked}]
    return max(found, key=lambda value: len(words_of(value)), default="")
