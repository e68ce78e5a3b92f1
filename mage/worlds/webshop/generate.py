"""A generated catalogue: products and goals from the words in `stock.toml`, the same for a seed on every machine.

A product is a function of the seed and its place, so that a smaller catalogue is the beginning of a larger one. Goals
are about the first `BASE` products alone, whatever the size: a larger catalogue only has more that fit less.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from math import ceil
from random import Random
from typing import Any, NamedTuple

from mage.seeds import stream
from mage.worlds.webshop.catalogue import Catalogue, Goal, Product
from mage.worlds.webshop.queries import offered_queries
from mage.worlds.webshop.reward import option_fits, reward
from mage.worlds.webshop.search import Search

BASE = 5040
"""Products of the smallest catalogue."""
NUM_GOALS = 1000
SHOWN_RESULTS = 10
"""A goal is kept where one of so many first results of a full query fits it."""
_ATTRIBUTES = 4
"""Attributes of a product, of which its title has up to two."""
_CHEAP = 0.3
"""Goals are about products in this lower part of their kind's prices, in logarithms, so that limits leave many out."""
_BRANDS = 7
"""Brands of a kind of products. No brand makes two kinds, so that a shared brand does not pass for a shared kind."""
_SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in ("a", "e", "i", "o", "u")]


class Kind(NamedTuple):
    """A kind of products with the words of its category."""

    name: str
    lowest: int
    highest: int
    category: Mapping[str, Any]
    brands: tuple[str, ...]


@cache
def kinds() -> tuple[Kind, ...]:
    """All kinds of products, of the categories in turn."""
    text = (resources.files("mage") / "worlds" / "webshop" / "stock.toml").read_text(encoding="utf-8")
    categories = tomllib.loads(text)["category"]
    names = stream(0, "brands").sample(range(len(_SYLLABLES) ** 2), 4 * _BRANDS * len(categories))
    brands = iter([_SYLLABLES[n // len(_SYLLABLES)] + _SYLLABLES[n % len(_SYLLABLES)] for n in names])
    rows = zip(*(category["kinds"] for category in categories), strict=True)
    return tuple(
        Kind(name, lowest, highest, category, tuple(next(brands).capitalize() for _ in range(_BRANDS)))
        for row in rows
        for (name, lowest, highest), category in zip(row, categories, strict=True)
    )


@cache
def generated(size: int, seed: int) -> Catalogue:
    """The catalogue of so many products."""
    base = _products(BASE, seed)
    products = base if size == BASE else _products(size, seed)
    return Catalogue(products, _goals(seed))


@cache
def _products(size: int, seed: int) -> tuple[Product, ...]:
    return tuple(_product(place, kinds()[place % len(kinds())], seed) for place in range(size))


def _product(place: int, kind: Kind, seed: int) -> Product:
    rng, words = stream(seed, "product", place), kind.category
    attributes = rng.sample(words["attributes"], _ATTRIBUTES)
    brand = rng.choice(kind.brands)
    shown = rng.sample(attributes, rng.randint(1, 2))
    price = round(kind.lowest * (kind.highest / kind.lowest) ** rng.random())
    options = [(name, tuple(_some(values, rng))) for name, *values in words["options"]]
    return Product(
        number=f"B{place:04d}",
        title=", ".join([f"{brand} {kind.name}", *shown]),
        query=kind.name,
        category=(*words["path"], kind.name),
        price=float(price),
        attributes=tuple(attributes),
        features=tuple(attributes),
        description=f"{brand} {kind.name} made for {rng.choice(words['uses'])}.",
        options=tuple(options),
    )


def _some(values: list[str], rng: Random) -> list[str]:
    """Two or more of the values of a group, but not all, in their order."""
    kept = rng.sample(values, rng.randint(2, len(values) - 1))
    return [value for value in values if value in kept]


@cache
def _goals(seed: int) -> tuple[Goal, ...]:
    """Goals about different products, each met by one of the first results of a query for all that is asked."""
    products = _products(BASE, seed)
    search = Search(products)
    by_number = {product.number: product for product in products}
    places = stream(seed, "wanted").sample(range(BASE), BASE)
    found: list[Goal] = []
    for place in places:
        kind = kinds()[place % len(kinds())]
        if products[place].price > kind.lowest * (kind.highest / kind.lowest) ** _CHEAP:
            continue
        goal = _goal(len(found), products[place], stream(seed, "goal", place))
        results = [by_number[number] for number in search.find(full_query(goal))[:SHOWN_RESULTS]]
        if any(fits(goal, product) for product in results):
            found.append(goal)
        if len(found) == NUM_GOALS:
            return tuple(found)
    raise AssertionError(f"only {len(found)} goals")


def full_query(goal: Goal) -> str:
    """A query for all that is asked: the kind, the attributes and the options."""
    return " ".join([goal.wanted.query, *goal.attributes, *goal.options])


def fits(goal: Goal, product: Product) -> bool:
    """Whether buying the product with the best options has the full reward."""
    return reward(goal, product, best_options(goal, product)) == 1.0


def best_options(goal: Goal, product: Product) -> tuple[str, ...]:
    """By group of options the value that is asked for; empty where there is none."""

    def asked(group: str, values: tuple[str, ...]) -> Iterator[str]:
        return (value for value in values for option in goal.options if option_fits(group, value, option))

    return tuple(next(asked(group, values), "") for group, values in product.options)


def _goal(number: int, wanted: Product, rng: Random) -> Goal:
    attributes = tuple(rng.sample(wanted.attributes, rng.choice((2, 2, 3))))
    groups = sorted(rng.sample(range(len(wanted.options)), rng.randint(1, len(wanted.options))))
    options = [(wanted.options[group][0], rng.choice(wanted.options[group][1])) for group in groups]
    limit = ceil(wanted.price * rng.uniform(1.0, 1.15))
    told = "".join(f", {name}: {value}" for name, value in options)
    others = [kind.name for kind in kinds() if kind.category["path"] == list(wanted.category[:2])]
    goal = Goal(
        number=number,
        instruction=f"Find: {wanted.query}, {', '.join(attributes)}{told}, for at most ${limit}.",
        attributes=attributes,
        options=tuple(value for _, value in options),
        price_limit=float(limit),
        wanted=wanted,
    )
    other = rng.choice([name for name in others if name != wanted.query])
    return goal._replace(queries=offered_queries(wanted.query, attributes, goal.options, other, rng))
