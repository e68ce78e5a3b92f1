"""The queries that are offered where search is not free: good ones, and misleading ones."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


def offered_queries(
    kind: str, attributes: Sequence[str], options: Sequence[str], other_kind: str, rng: Random
) -> tuple[str, ...]:
    """Six queries in random order, made of what is asked for and of another kind of product alone.

    One has the kind, the attributes and the options, one no options. Of the misleading ones one names another kind, one
    no kind, one a single attribute, and one nothing but the kind.
    """
    parts = [
        (kind, *attributes, *options),
        (kind, *attributes),
        (other_kind, *attributes),
        (*attributes, *options),
        (kind, attributes[0]),
        (kind,),
    ]
    queries = list(dict.fromkeys(" ".join(part) for part in parts))
    rng.shuffle(queries)
    return tuple(queries)
