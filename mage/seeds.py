"""Random numbers by name: every draw is a function of a seed and a path, never of earlier draws.

There is no global state. Adding a draw in one place does not change draws in another, and a path gives the
same value in any order, on any worker.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mage.errors import PlayError

_MASK = 2**64 - 1
_GOLDEN, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The constants of splitmix64."""


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
    """A random generator of its own for the stream called `path`."""
    return random.Random(derive(seed, *path))


def uniform(seed: int, *path: str | int) -> float:
    """One number in [0, 1): cheaper than `stream` where only one number is drawn."""
    return (derive(seed, *path) >> 11) * 2.0**-53


def nth_uniform(seed: int, index: int) -> float:
    """The number at `index` of the sequence that `seed` starts, in [0, 1): splitmix64 (Steele et al. 2014).

    >>> 0.0 <= nth_uniform(7, 0) != nth_uniform(7, 1) < 1.0
    True
    """
    mixed = (seed + (index + 1) * _GOLDEN) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * _MIX_1) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * _MIX_2) & _MASK
    return ((mixed ^ (mixed >> 31)) >> 11) * 2.0**-53


def uniforms(seeds: Sequence[int], starts: Sequence[int], count: int) -> NDArray[np.float64]:
    """`nth_uniform` of every seed at `count` indices from its start on, one row per seed.

    >>> bool(uniforms([5, 7], [0, 3], 2)[1, 1] == nth_uniform(7, 4))
    True
    """
    seed_R1 = np.array([seed & _MASK for seed in seeds], np.uint64)[:, None]
    index_RK = np.array(starts, np.uint64)[:, None] + np.arange(1, count + 1, dtype=np.uint64)
    mixed = np.asarray(seed_R1 + index_RK * np.uint64(_GOLDEN), np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_MIX_1)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_MIX_2)
    return np.asarray((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11), np.float64) * 2.0**-53


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
