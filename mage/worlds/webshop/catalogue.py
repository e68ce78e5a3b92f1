"""Products and goals of WebShop, and the catalogue that holds both."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

_WORD = re.compile(r"[a-z0-9]+")


class Product(NamedTuple):
    """A product as the shop lists it."""

    number: str
    """What it is clicked by; Amazon's ASIN in WebShop's files."""
    title: str
    query: str
    """The kind of product; in WebShop's files the query that it was found by."""
    category: tuple[str, ...]
    """Its category and those above it."""
    price: float
    attributes: tuple[str, ...]
    """What the reward asks for. Not shown as such."""
    features: tuple[str, ...]
    description: str
    options: tuple[tuple[str, tuple[str, ...]], ...]
    """Groups of options with their values. No value is in two groups."""


class Goal(NamedTuple):
    """What is asked for in a trial. All but `wanted` is in the instruction."""

    number: int
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    """Values, each to be chosen in one of the product's groups."""
    price_limit: float
    wanted: Product
    """The product that the instruction was written about. It is hidden; others may fit as well."""
    queries: tuple[str, ...] = ()
    """The queries that are offered where search is not free."""

    def __str__(self) -> str:
        return str(self.number)


class Catalogue:
    """Products and the goals that are about them."""

    def __init__(self, products: Sequence[Product], goals: Sequence[Goal]) -> None:
        self.products = products
        self.goals = goals

    @cached_property
    def by_number(self) -> dict[str, Product]:
        """The products by what they are clicked by."""
        return {product.number: product for product in self.products}

    def fingerprint(self) -> str:
        """The SHA-256 of all products and goals."""
        return hashlib.sha256(msgspec.json.encode((list(self.products), list(self.goals)))).hexdigest()


def words_of(text: str) -> list[str]:
    """The words and numbers of a text in lower case.

    >>> words_of("Hi-Res sound, 10 inch")
    ['hi', 'res', 'sound', '10', 'inch']
    """
    return _WORD.findall(text.lower())
