"""The texts of WebShop in usual or neutral words: rules, pages as an agent reads them, actions as it writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mage.worlds.openspiel.words.base import lexicon, signed
from mage.worlds.webshop.catalogue import Product

SEARCH, CLICK = "search", "click"
BUY, BACK, NEXT, PREVIOUS, DESCRIPTION, FEATURES = BUTTONS = (
    "buy now",
    "back to search",
    "next >",
    "< prev",
    "description",
    "features",
)
_TERMS = ("shop", "product", "price", SEARCH, CLICK, *BUTTONS)
_MOST_TITLE = 80
"""Most characters of a title in a list of results; WebShop's own titles can be as long as a page."""
_MOST_ABOUT = 600
"""Most characters of a description, and of a list of features."""
_RULES = (
    "You are in a {shop} and are told what to find. {search}[WORDS] lists what fits the words best. {click}[NUMBER] "
    "opens a {product}, {click}[{next >}] and {click}[{< prev}] turn pages, {click}[{back to search}] starts over. On "
    "the page of a {product}, {click}[VALUE] chooses an option, {click}[{description}] and {click}[{features}] tell "
    "more, and {click}[{buy now}] ends the episode. You score the share of what you were told that your {product} "
    "meets: each feature, each option that you chose, and the {price}. All of it: +1. The wrong kind of {product}: 0. "
    "Nothing taken in {turns} turns: 0."
)


class Shown(NamedTuple):
    """A page of results."""

    query: str
    number: int
    """From 0."""
    num_pages: int
    products: Sequence[Product]


class ShopWords:
    """Texts in the usual words, or in neutral ones."""

    def __init__(self, reworded: int | None) -> None:
        self._words = lexicon("webshop", _TERMS, reworded)
        self._said = {shown.casefold(): term for term, shown in self._words.items() if term in BUTTONS}
        verbs = "|".join(re.escape(self._words[verb]) for verb in (SEARCH, CLICK))
        self._action = re.compile(rf"\s*({verbs})\s*\[(.*)\]\s*", re.IGNORECASE)

    def rules(self, turns: int) -> str:
        """The rules."""
        return _RULES.format(turns=turns, **self._words)

    @property
    def trial(self) -> str:
        """What stays the same in a trial."""
        return f"You play {{episodes}} episodes in the same {self._words['shop']}: what you are to find stays the same."

    @property
    def reflect_request(self) -> str:
        """The request for a reflection."""
        return (
            f"Write a short note to yourself: which words and which {self._words['product']} did you take, what did it "
            "miss, and what will you do next?"
        )

    def search(self, query: str) -> str:
        """The action that searches."""
        return f"{self._words[SEARCH]}[{query}]"

    def click(self, what: str) -> str:
        """The action that clicks on a button, a product or an option."""
        return f"{self._words[CLICK]}[{self._words.get(what, what)}]"

    def read(self, action: str) -> tuple[str, str]:
        """What an action does, and what with, in the usual words: the reverse of `search` and `click`.

        A text without brackets does what its page is for.

        >>> [ShopWords(None).read(action) for action in ("Click[Buy Now]", "Features", "search[a  b]")]
        [('click', 'buy now'), ('', 'features'), ('search', 'a b')]
        """
        found = self._action.fullmatch(action)
        verb = "" if found is None else SEARCH if found[1].casefold() == self._words[SEARCH].casefold() else CLICK
        what = " ".join((action if found is None else found[2]).split())
        return verb, what if verb == SEARCH else self._said.get(what.casefold(), what)

    def results(self, shown: Shown) -> str:
        """A page of results."""
        if not shown.products:
            return f"Nothing was found for: {shown.query}"
        lines = [f"{product.number} {short_title(product)} {price_tag(product)}" for product in shown.products]
        return "\n".join([f"Page {shown.number + 1} of {shown.num_pages} for: {shown.query}", *lines])

    def item(self, product: Product, chosen: Sequence[str]) -> str:
        """The page of a product."""
        lines = [
            f"{name}: {', '.join(f'{value} (chosen)' if value == taken else value for value in values)}"
            for (name, values), taken in zip(product.options, chosen, strict=True)
        ]
        return "\n".join([f"{product.number} {short_title(product)} {price_tag(product)}", *lines])

    def about(self, product: Product, button: str) -> str:
        """The description or the features of a product."""
        told = product.description if button == DESCRIPTION else "; ".join(product.features)
        return f"{product.number} {self._words[button]}: {shortened(told, _MOST_ABOUT) or 'none'}"

    def bought(self, product: Product, chosen: Sequence[str], score: float) -> str:
        """What is told after a purchase."""
        options = "".join(f", {value}" for value in chosen if value)
        verdict = "All of it fits" if score == 1.0 else "Not all of it fits"
        taken = f"{product.number} {short_title(product)}{options}, {price_tag(product)}"
        return f"You took {taken}. {verdict}: {signed(score)}."

    def not_there(self, action: str) -> str:
        """What is told about a text that is no action here."""
        return f"Nothing here is called {shortened(action, _MOST_TITLE)!r}."


def price_tag(product: Product) -> str:
    """A price, without cents where there are none."""
    return f"${product.price:.2f}".removesuffix(".00")


def short_title(product: Product) -> str:
    """A title as lists show it."""
    return shortened(product.title, _MOST_TITLE)


def shortened(text: str, most: int) -> str:
    """The beginning of a text."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
