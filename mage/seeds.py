"""Named randomness: every draw is a function of a seed and a path, never of what was drawn before.

Nothing here is global. Adding a draw somewhere does not shift draws elsewhere, and the same path gives the
same value in any order, on any worker.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from mage.errors import PlayError


def derive(seed: int, *path: str | int) -> int:
    """A 64-bit seed for the stream called `path` under `seed`.

    Paths are encoded without ambiguity, so ("a/b", "c") and ("a", "b/c") are different streams.

    >>> derive(1, "a/b", "c") == derive(1, "a", "b/c")
    False
    >>> derive(1, "deal", 2) == derive(1, "deal", 2)
    True
    """
    digest = hashlib.blake2b(repr((seed, *path)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def stream(seed: int, *path: str | int) -> random.Random:
    """A generator of its own for everything drawn under `path`."""
    return random.Random(derive(seed, *path))


def uniform(seed: int, *path: str | int) -> float:
    """One number in [0, 1): the cheap way to draw once from a stream that is used only once."""
    return (derive(seed, *path) >> 11) * 2.0**-53


def pick_index(weights: Sequence[float], point: float) -> int:
    """The index that `point` in [0, 1) selects among weights, by inverse distribution function.

    Weights need not sum to one; an index of weight zero is never chosen.

    >>> [pick_index([1, 0, 3], p) for p in (0.0, 0.2, 0.25, 0.99)]
    [0, 0, 2, 2]
    """
    target = point * sum(weights)
    total = 0.0
    last = -1
    for index, weight in enumerate(weights):
        if weight > 0:
            total += weight
            last = index
            if target < total:
                return index
    if last < 0:
        raise PlayError(f"nothing can be drawn from the weights {list(weights)}")
    return last
