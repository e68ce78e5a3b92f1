"""The shop's search: BM25 over titles, features, descriptions and options, by the library bm25s."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mage.worlds.webshop.catalogue import Product, words_of

MOST_RESULTS = 50
"""Results of a query, as in WebShop."""
_DECIMALS = 3
"""Scores are compared up to so many decimals, so that rounding on another machine changes no order."""


class Search:
    """An index of products. Queries are remembered."""

    def __init__(self, products: Sequence[Product]) -> None:
        self._index: Any = _import_bm25s().BM25(k1=0.9, b=0.4)
        self._index.index([_stems(_text_of(product)) for product in products], show_progress=False)
        self._numbers = [product.number for product in products]
        self.find = lru_cache(maxsize=8192)(self._find)

    def _find(self, query: str) -> tuple[str, ...]:
        """The numbers of the products that fit a query best, the best first; equal ones in the catalogue's order."""
        known = [word for word in dict.fromkeys(_stems(query)) if word in self._index.vocab_dict]
        if not known:
            return ()
        scores = np.round(self._index.get_scores(known), _DECIMALS)
        best = np.argsort(-scores, kind="stable")[:MOST_RESULTS]
        return tuple(self._numbers[place] for place in best if scores[place] > 0)


def _import_bm25s() -> Any:
    """bm25s, which is slow to import and an extra, without JAX.

    Where JAX is installed, bm25s sorts once with it when it is imported, for which JAX takes three quarters of a GPU's
    memory. It is not used here.
    """
    absent = object()
    jax = sys.modules.get("jax", absent)
    sys.modules["jax"] = None  # type: ignore[assignment]  # an import of it fails
    try:
        return importlib.import_module("bm25s")
    finally:
        if jax is absent:
            del sys.modules["jax"]
        else:
            sys.modules["jax"] = jax  # type: ignore[assignment]


def _text_of(product: Product) -> str:
    values = [value for _, group in product.options for value in group]
    return " ".join([product.title, *product.features, product.description, *values])


def _stems(text: str) -> list[str]:
    """Words without the s of a plural."""
    return [word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word for word in words_of(text)]
