"""`webshop(…)`: find and buy what is asked for in a shop; the same is asked for in all episodes of a trial.

What is hidden is which products fit. A level is the number of a goal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, lru_cache
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mage.errors import ConfigError, listing
from mage.extras import require
from mage.protocols import Player
from mage.seeds import stream
from mage.spec import Spec, show, whole
from mage.types import Fact, Task
from mage.worlds.solo import SoloWorld
from mage.worlds.webshop.catalogue import Catalogue, Goal, Product
from mage.worlds.webshop.files import read_catalogue
from mage.worlds.webshop.generate import BASE, generated
from mage.worlds.webshop.pages import (
    BACK,
    BUY,
    CLICK,
    DESCRIPTION,
    FEATURES,
    NEXT,
    PREVIOUS,
    SEARCH,
    ShopWords,
    Shown,
    short_title,
)
from mage.worlds.webshop.players import Expert, Shopper
from mage.worlds.webshop.reward import reward
from mage.worlds.webshop.search import Search

_ON_PAGE = 5
"""Results on a page."""


class Page(StrEnum):
    """Where an agent is."""

    SEARCH = "search"
    RESULTS = "results"
    ITEM = "item"
    ABOUT = "about"


class Searching(StrEnum):
    """What may be searched for."""

    OFFERED = "offered"
    """One of the queries that are offered, some of which mislead."""
    FREE = "free"
    """Anything: any text is an action."""


class Position(NamedTuple):
    """The page that is shown, and how it was reached as far as it matters."""

    page: Page = Page.SEARCH
    query: str = ""
    number: int = 0
    """Of the page of results, from 0."""
    item: str = ""
    about: str = ""
    """Description or features."""
    chosen: tuple[str, ...] = ()
    """By group of options the chosen value, empty where none is."""
    turn: int = 0
    is_bought: bool = False
    unknown: str = ""
    """The last action where it was none that the page has."""


class Settings(msgspec.Struct, frozen=True):
    """The parameters of the world."""

    size: int = BASE
    """Products of the generated catalogue."""
    turns: int = 12
    """Turns of an episode."""
    search: Any = Searching.OFFERED.value
    """`offered`: one of six queries. `free`: any text is an action, and agents answer in text."""
    list_actions: bool = True
    """Whether prompts list what can be clicked, and the offered queries."""
    products: Any = ""
    """WebShop's file of products, items_shuffle.json, in place of the generated catalogue."""
    attributes: Any = ""
    """WebShop's file of attributes, items_ins_v2.json."""
    goals: Any = ""
    """WebShop's file of instructions, items_human_ins.json; without it the goals are those of `attributes`."""
    seed: int = 0
    """The seed of the generated catalogue, and of price limits of goals that are read."""
    reworded: int | None = None
    """The seed of neutral words."""

    def check(self) -> None:
        """Raise a ConfigError for values that cannot be played."""
        whole("size", self.size, BASE, 100_000)
        whole("turns", self.turns, 1, 1000)
        whole("seed", self.seed, 0)
        if str(self.search) not in list(Searching):
            raise ConfigError(f"search must be one of {listing(list(Searching))}, not {show(self.search)}")
        if type(self.list_actions) is not bool:
            raise ConfigError(f"list_actions must be true or false, not {show(self.list_actions)}")
        for name in ("products", "attributes", "goals"):
            if not isinstance(getattr(self, name), str | Spec):
                raise ConfigError(f"{name} must be a path, not {show(getattr(self, name))}")
        if bool(self.products) != bool(self.attributes) or (self.goals and not self.products):
            raise ConfigError("WebShop's own files are products and attributes, and goals where there are such")
        if self.products and self.size != BASE:
            raise ConfigError("size is that of the generated catalogue; products have the size of their file")


class WebShop(SoloWorld[Goal, Position]):
    """Find and buy what is asked for in a shop; the same goal in all episodes of a trial."""

    __signature__ = signature(Settings)

    def __init__(self, *values: Any, **named: Any) -> None:
        self._settings = own = Settings(*values, **named)
        own.check()
        require("webshop", "webshop needs")
        self._words = ShopWords(own.reworded)
        self._is_free = str(own.search) == Searching.FREE
        self.has_open_actions, self.lists_actions = self._is_free, own.list_actions
        self.trial, self.reflect_request = self._words.trial, self._words.reflect_request
        self._told = lru_cache(maxsize=4096)(self._tell)
        self._listed = lru_cache(maxsize=4096)(self._list)
        if own.products:
            _ = self._catalogue  # a file that cannot be used is refused at once

    @cached_property
    def _catalogue(self) -> Catalogue:
        own = self._settings
        if not own.products:
            return generated(own.size, own.seed)
        return _read_once(str(own.products), str(own.attributes), str(own.goals), own.seed)

    @cached_property
    def _search(self) -> Search:
        return _search_of(self._catalogue)

    def explain(self) -> str:
        return self._words.rules(self._settings.turns)

    def hidden(self) -> Mapping[Goal, float]:
        return {}

    def draw(self, task: Task) -> Goal:
        goals = self._catalogue.goals
        return goals[int(task.level)] if task.level else goals[stream(task.seed, "hidden").randrange(len(goals))]

    def drawn_level(self, task: Task) -> str:
        """The level of a task, as text."""
        return str(self.draw(task))

    def check_level(self, level: str) -> None:
        num = len(self._catalogue.goals)
        if not (level.isascii() and level.isdecimal() and int(level) < num and level == str(int(level))):
            raise ConfigError(f"the level {level!r} is no goal; goals have the numbers 0 to {num - 1}")

    @property
    def players(self) -> Mapping[str, Callable[..., Player]]:
        return {
            "expert": self._expert,
            "rule-based": self._rule_based,
            "learns-from-failure": self._learns_from_failure,
        }

    def _expert(self, task: Task) -> Player:
        """Knows the catalogue: takes the shortest way to a product that fits."""
        return Expert(self._words, self.draw(task), self._catalogue, self._search, is_free=self._is_free)

    def _rule_based(self, task: Task) -> Player:
        """Searches for what is asked, takes the first result with the options that are named, and buys it."""
        return Shopper("rule-based", self._words, learns=False)

    def _learns_from_failure(self, task: Task) -> Player:
        """The same, but takes no product again that did not fit, and again one that did."""
        return Shopper("learns-from-failure", self._words, learns=True)

    def start(self, hidden: Goal) -> Position:
        return Position()

    def is_over(self, hidden: Goal, position: Position) -> bool:
        return position.is_bought or position.turn >= self._settings.turns

    def actions(self, hidden: Goal, position: Position) -> Sequence[str]:
        if self.is_over(hidden, position):
            return ()
        return self._listed(hidden, position._replace(turn=0, unknown=""))

    def _list(self, hidden: Goal, position: Position) -> tuple[str, ...]:
        words = self._words
        if position.page is Page.SEARCH:
            return () if self._is_free else tuple(map(words.search, hidden.queries))
        return tuple(map(words.click, self._clicks(position)))

    def _clicks(self, position: Position) -> list[str]:
        """What can be clicked on a page, in the usual words."""
        if position.page is Page.SEARCH:
            return []
        if position.page is Page.RESULTS:
            shown = self._results(position)
            turning = [NEXT] * (shown.number + 1 < shown.num_pages) + [PREVIOUS] * (shown.number > 0)
            return [*(product.number for product in shown.products), *turning, BACK]
        if position.page is Page.ABOUT:
            return [PREVIOUS, BACK]
        product = self._product(position)
        values = [value for _, group in product.options for value in group if value not in position.chosen]
        return [*values, DESCRIPTION, FEATURES, BUY, PREVIOUS, BACK]

    def after(self, hidden: Goal, position: Position, action: str) -> Position:
        now = position._replace(turn=position.turn + 1, unknown="")
        verb, what = self._words.read(action)
        is_search = position.page is Page.SEARCH
        if is_search and verb != CLICK and what:
            return now._replace(page=Page.RESULTS, query=what, number=0)
        known = {name.casefold(): name for name in self._clicks(position)}
        if verb == SEARCH or what.casefold() not in known:
            return now._replace(unknown=action)
        return self._clicked(now, known[what.casefold()])

    def _clicked(self, now: Position, what: str) -> Position:
        if what == BACK:
            return Position(turn=now.turn)
        if what == BUY:
            return now._replace(is_bought=True)
        if what in (NEXT, PREVIOUS) and now.page is Page.RESULTS:
            return now._replace(number=now.number + (1 if what == NEXT else -1))
        if what == PREVIOUS:
            is_item = now.page is Page.ITEM
            return now._replace(page=Page.RESULTS, item="", chosen=()) if is_item else now._replace(page=Page.ITEM)
        if now.page is Page.RESULTS:
            product = self._catalogue.by_number[what]
            return now._replace(page=Page.ITEM, item=what, chosen=("",) * len(product.options))
        if what in (DESCRIPTION, FEATURES):
            return now._replace(page=Page.ABOUT, about=what)
        groups = self._product(now).options
        pairs = zip(groups, now.chosen, strict=True)
        return now._replace(chosen=tuple(what if what in values else taken for (_, values), taken in pairs))

    def score(self, hidden: Goal, position: Position) -> float:
        return reward(hidden, self._product(position), position.chosen) if position.is_bought else 0.0

    def tell(self, hidden: Goal, position: Position) -> str:
        return self._told(hidden, position)

    def _tell(self, hidden: Goal, position: Position) -> str:
        if position.is_bought:
            return self._words.bought(self._product(position), position.chosen, self.score(hidden, position))
        left = self._settings.turns - position.turn
        if not left:
            return "No turns are left, and you took nothing: 0."
        lines = [self._words.not_there(position.unknown)] if position.unknown else []
        lines += [self._page(hidden, position), f"Turns left: {left}."]
        if self._is_free and self._settings.list_actions:
            lines.append(f"You can: {', '.join(self._listed(hidden, position) or [self._words.search('WORDS')])}")
        return "\n".join(lines)

    def _page(self, hidden: Goal, position: Position) -> str:
        if position.page is Page.SEARCH:
            return hidden.instruction
        if position.page is Page.RESULTS:
            return self._words.results(self._results(position))
        if position.page is Page.ITEM:
            return self._words.item(self._product(position), position.chosen)
        return self._words.about(self._product(position), position.about)

    def facts(self, hidden: Goal, position: Position) -> Mapping[str, Fact]:
        facts: dict[str, Fact] = {
            "page": "bought" if position.is_bought else position.page.value,
            "asked": hidden.instruction,
            "turns_left": self._settings.turns - position.turn,
        }
        if self._is_free and not position.is_bought:
            facts |= {"clicks": tuple(self._clicks(position)), "unknown": position.unknown}
        if position.page is Page.SEARCH:
            return facts
        facts["query"] = position.query
        if position.page is Page.RESULTS:
            shown = self._results(position)
            rows = tuple((product.number, short_title(product), product.price) for product in shown.products)
            return {**facts, "results": rows, "number": shown.number + 1, "num_pages": shown.num_pages}
        product = self._product(position)
        facts |= {"item": product.number, "title": short_title(product), "price": product.price}
        facts |= {"options": tuple((name, *values) for name, values in product.options), "chosen": position.chosen}
        if position.page is Page.ABOUT:
            facts |= {"about": position.about, "text": self._words.about(product, position.about)}
        return facts

    def _results(self, position: Position) -> Shown:
        found = self._search.find(position.query)
        num_pages = max(1, -(-len(found) // _ON_PAGE))
        numbers = found[position.number * _ON_PAGE : (position.number + 1) * _ON_PAGE]
        return Shown(position.query, position.number, num_pages, [self._catalogue.by_number[n] for n in numbers])

    def _product(self, position: Position) -> Product:
        return self._catalogue.by_number[position.item]


@lru_cache(maxsize=4)
def _read_once(products: str, attributes: str, goals: str, seed: int) -> Catalogue:
    """The catalogue of WebShop's own files, which all wordings of a shop share."""
    return read_catalogue(Path(products), Path(attributes), Path(goals) if goals else None, seed)


@lru_cache(maxsize=8)
def _search_of(catalogue: Catalogue) -> Search:
    """The search over a catalogue, which all wordings of a shop share."""
    return Search(catalogue.products)
