"""WebShop's own files of products (items_shuffle.json), attributes (items_ins_v2.json), goals (items_human_ins.json).

Goals are shuffled with the seed of WebShop's server, so that 0 to 499 are its test goals where the files are whole.
What WebShop draws without a seed is drawn by ours: a price within a range, and price limits. Without a file of goals a
product has one goal, with drawn options, where WebShop has one for every combination of options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec

from mage.errors import ConfigError
from mage.files import BAD_JSON
from mage.seeds import stream
from mage.worlds.webshop.catalogue import Catalogue, Goal, Product
from mage.worlds.webshop.pages import BUTTONS
from mage.worlds.webshop.queries import offered_queries

T = TypeVar("T")

_SHUFFLE = 233
"""The seed with which WebShop's server shuffles its goals."""
_NO_PRICE = 100.0
"""The price of a product without one, as in WebShop."""
_LIMITS = [10.0 * number for number in range(1, 100)]
_NO_LIMIT = 1_000_000.0
_MOST_ASIN = 10
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class _Value(msgspec.Struct):
    value: str


class _Item(msgspec.Struct):
    asin: str
    name: str
    query: str = ""
    product_category: str = ""
    full_description: str | None = None
    small_description: list[str | None] | str | None = None
    pricing: str | None = None
    customization_options: dict[str, list[_Value] | None] | str | None = None


class _Attributes(msgspec.Struct):
    attributes: list[str] = []
    instruction: str | None = None
    instruction_attributes: list[str] | None = None


class _Instruction(msgspec.Struct):
    instruction: str
    instruction_attributes: list[str]
    instruction_options: list[str] | dict[str, str] = []


class _Asked(NamedTuple):
    """An instruction about a product."""

    product: Product
    text: str
    attributes: Sequence[str]
    options: Sequence[str]


def read_catalogue(products: Path, attributes: Path, goals: Path | None, seed: int) -> Catalogue:
    """The catalogue of WebShop's files; a ConfigError where one of them cannot be used."""
    known = _decoded(attributes, dict[str, _Attributes])
    listed: dict[str, Product] = {}
    for item in _decoded(products, list[_Item]):
        if item.asin != "nan" and len(item.asin) <= _MOST_ASIN:
            listed.setdefault(item.asin, _product(item, known.get(item.asin), seed))
    if goals is None:
        asked = list(_drawn_goals(listed.values(), known, seed))
    else:
        asked = list(_written_goals(listed, _decoded(goals, dict[str, list[_Instruction]])))
    if not asked:
        raise ConfigError(f"{str(goals or attributes)!r} has no instruction about a product of {str(products)!r}")
    Random(_SHUFFLE).shuffle(asked)
    kinds = sorted({product.query for product in listed.values()})
    return Catalogue(tuple(listed.values()), [_goal(number, one, kinds, seed) for number, one in enumerate(asked)])


def _decoded(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    except BAD_JSON as error:
        raise ConfigError(f"{str(path)!r} is not as WebShop's files are: {error}") from None


def _product(item: _Item, known: _Attributes | None, seed: int) -> Product:
    bullets = item.small_description
    features = [bullets] if isinstance(bullets, str) else bullets or []
    return Product(
        number=_line(item.asin),
        title=_line(item.name),
        query=_line(item.query).lower(),
        category=tuple(filter(None, map(_line, item.product_category.split("›")))),
        price=_price(item, seed),
        attributes=tuple(map(_line, known.attributes)) if known else (),
        features=tuple(filter(None, (_line(text or "") for text in features))),
        description=_line(item.full_description or ""),
        options=tuple(_options(item)),
    )


def _price(item: _Item, seed: int) -> float:
    """The price, drawn where a range of prices is given."""
    prices = [float(number.replace(",", "")) for number in _NUMBER.findall(item.pricing or "")][:2]
    if len(prices) == 2:
        return round(stream(seed, "price", item.asin).uniform(*sorted(prices)), 2)
    return prices[0] if prices else _NO_PRICE


def _options(item: _Item) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Groups of options; a value that an earlier group or a button has is left out, for it could not be clicked."""
    taken = {*BUTTONS, ""}
    groups: Any = item.customization_options
    for name, values in groups.items() if isinstance(groups, dict) else ():
        shown = dict.fromkeys(_line(one.value.replace("/", " | ")).lower() for one in values or ())
        kept = tuple(value for value in shown if value not in taken)
        taken.update(kept)
        if kept:
            yield _line(name).lower(), kept


def _written_goals(listed: Mapping[str, Product], written: Mapping[str, list[_Instruction]]) -> Iterator[_Asked]:
    """The goals of instructions that people wrote, in the order of the products."""
    for asin, product in listed.items():
        for one in written.get(asin, ()):
            given = one.instruction_options
            options = [*given.values()] if isinstance(given, dict) else given
            if one.instruction_attributes:
                text = _line(one.instruction).strip(".")
                yield _Asked(
                    product, text, [*map(_line, one.instruction_attributes)], [_line(o).lower() for o in options]
                )


def _drawn_goals(products: Any, known: Mapping[str, _Attributes], seed: int) -> Iterator[_Asked]:
    """A goal for each product that has an instruction, with drawn options."""
    for product in products:
        own = known.get(product.number)
        if own is None or not own.instruction or not own.instruction_attributes:
            continue
        rng = stream(seed, "options", product.number)
        drawn = {name: rng.choice(values) for name, values in product.options}
        told = ", and ".join(f"{name}: {value}" for name, value in drawn.items())
        text = _line(own.instruction).strip(".") + (f" with {told}" if told else "")
        yield _Asked(product, text, [*map(_line, own.instruction_attributes)], [*drawn.values()])


def _goal(number: int, asked: _Asked, kinds: Sequence[str], seed: int) -> Goal:
    product = asked.product
    rng = stream(seed, "goal", number)
    limits = [limit for limit in _LIMITS if limit > product.price][:4]
    limit = max(rng.sample(limits, 2)) if len(limits) >= 2 else _NO_LIMIT
    told = f", and price lower than {limit:.2f} dollars" if limit < _NO_LIMIT else ""
    other = rng.choice([kind for kind in kinds if kind != product.query] or [product.query])
    return Goal(
        number=number,
        instruction=f"{asked.text}{told}",
        attributes=tuple(asked.attributes),
        options=tuple(asked.options),
        price_limit=limit,
        wanted=product,
        queries=offered_queries(product.query, asked.attributes, asked.options, other, rng),
    )


def _line(text: str) -> str:
    """A text on one line, without characters that cannot be printed."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
