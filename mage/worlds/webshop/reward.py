"""WebShop's reward for a purchase (Yao et al. 2022, arXiv 2207.01206, and the code that was published with it).

    reward = type * (attributes met + options met + price met) / (attributes asked + options asked + 1)

Where it departs from that code: nouns of a title are not found by spaCy but are its words without numbers, stop words
and the words of the product's own attributes and options; an option counts once, and only where it was asked for, as
the paper has it; colours are compared as they are written, without a table of colour names.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mage.worlds.webshop.catalogue import Goal, Product, words_of

ALIKE = 0.85
"""Texts are the same where their similarity is above this."""
_EXACT = "size"
"""The group of options whose values must be equal."""
_STOP_WORDS = frozenset(
    ("a", "an", "and", "as", "at", "by", "for", "from", "in", "is", "of", "on", "or", "per", "the", "to", "with")
)


def reward(goal: Goal, product: Product, chosen: Sequence[str]) -> float:
    """The reward for buying a product with the options chosen in its groups, empty where none is; from 0 to 1."""
    attributes = sum(has_attribute(product, attribute) for attribute in goal.attributes)
    options = sum(_is_chosen(product, chosen, option) for option in goal.options)
    price = product.price <= goal.price_limit
    return type_reward(goal, product) * (attributes + options + price) / (len(goal.attributes) + len(goal.options) + 1)


@lru_cache(maxsize=65536)
def type_reward(goal: Goal, product: Product) -> float:
    """Whether a product is of the kind that is asked for: 1, 0.5, 0.1 or 0."""
    wanted = goal.wanted
    asked = nouns(wanted)
    title_score = len(asked & nouns(product)) / len(asked) if asked else 0.2
    if title_score < 0.1:
        return 0.1 if title_score else 0.0
    is_same_category = len({*wanted.category} & {*product.category}) >= 2
    return 1.0 if wanted.query == product.query or is_same_category or title_score > 0.2 else 0.5


@lru_cache(maxsize=65536)
def nouns(product: Product) -> frozenset[str]:
    """The words of a title that name the product: its brand and its kind."""
    values = [value for _, group in product.options for value in group]
    others = {word for text in (*product.attributes, *values) for word in words_of(text)}
    return frozenset(
        word for word in words_of(product.title) if word.isalpha() and word not in _STOP_WORDS and word not in others
    )


@lru_cache(maxsize=65536)
def has_attribute(product: Product, attribute: str) -> bool:
    """Whether a product has an attribute: in its list, or word for word in a text about it."""
    if any(similarity(own, attribute) > ALIKE for own in product.attributes):
        return True
    return any(attribute in text.lower() for text in (product.title, " ".join(product.features), product.description))


def option_fits(group: str, value: str, asked: str) -> bool:
    """Whether the value of a group of options is one that is asked for."""
    return value == asked if group == _EXACT else similarity(value, asked) > ALIKE


def _is_chosen(product: Product, chosen: Sequence[str], asked: str) -> bool:
    pairs = zip(product.options, chosen, strict=True)
    return any(value and option_fits(group, value, asked) for (group, _), value in pairs)


@lru_cache(maxsize=65536)
def similarity(one: str, other: str) -> float:
    """The similarity of two texts as sets of words, from 0 to 1.

    >>> similarity("dark blue", "Blue"), similarity("water resistant", "water resistance") > ALIKE
    (1.0, True)
    """
    from rapidfuzz.fuzz import token_set_ratio  # an extra
    from rapidfuzz.utils import default_process

    return token_set_ratio(one, other, processor=default_process) / 100
