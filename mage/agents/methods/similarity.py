"""Text similarity: the cosine between tf-idf vectors of word n-grams, n from 1 to 3.

It needs no model and is deterministic. Punctuation marks count as words, because they may be cells of a board; n-grams
tell "you rock, opponent paper" from "you paper, opponent rock".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import log, sqrt

_WORD = re.compile(r"\w+|[^\w\s]")
_LONGEST = 3
"""Words of the longest n-gram."""


def similarities(query: str, texts: Sequence[str]) -> list[float]:
    """The similarity of the query to each text, from 0 to 1.

    A term that occurs c times in a text weighs (1 + log c) x (1 + log((1 + n) / (1 + k))), where k of the n texts hold
    it: a term in all of them weighs little, but not zero.

    >>> [round(s, 2) for s in similarities("Your card: king.", ["Your card: king.", "Your card: jack.", "a b"])]
    [1.0, 0.45, 0.0]
    """
    held_by = Counter(term for text in texts for term in terms(text))
    vectors = [_vector(terms(text), held_by, len(texts)) for text in texts]
    wanted = _vector(terms(query), held_by, len(texts))
    return [_cosine(wanted, vector) for vector in vectors]


def top_indices(scores: Sequence[float], num: int, least: float = 0.0) -> list[int]:
    """The indices of the highest scores above `least`, highest first; among equals the last index comes first.

    >>> top_indices([0.5, 0.9, 0.0, 0.9], 3), top_indices([0.5, 0.9], 3, 0.6)
    ([3, 1, 0], [1])
    """
    places = [place for place, score in enumerate(scores) if score > least]
    return sorted(places, key=lambda place: (-scores[place], -place))[:num]


@lru_cache(maxsize=4096)
def terms(text: str) -> Mapping[str, int]:
    """The number of occurrences of each n-gram."""
    words = _WORD.findall(text.casefold())
    runs = (words[start : start + size] for size in range(1, _LONGEST + 1) for start in range(len(words) - size + 1))
    return Counter(map(" ".join, runs))


def _vector(counts: Mapping[str, int], held_by: Mapping[str, int], num: int) -> dict[str, float]:
    rarity = {term: 1 + log((1 + num) / (1 + held_by.get(term, 0))) for term in counts}
    return {term: (1 + log(count)) * rarity[term] for term, count in counts.items()}


def _cosine(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    # Summed in the order of one text, so that rounding is reproducible.
    dot = sum(weight * other.get(term, 0.0) for term, weight in one.items())
    length = sqrt(sum(w * w for w in one.values()) * sum(w * w for w in other.values()))
    return dot / length if length else 0.0
