"""Disk cache of planned values.

Keys are hashes of the numbers in the game tree, not of the specs they came from, so changed scripts and custom
opponents never get stale entries. Cache errors only cost time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress

import msgspec

from mage.cache import cache_directory
from mage.evaluation.exact.tree import Leaf, Node, Tree
from mage.files import BAD_JSON, write_atomically

VERSION = 2
"""Version of the planning code: increase it when the same numbers would give other values."""


def fingerprint(*parts: object) -> str:
    """A key for `parts`, whose `repr` must be exact and stable."""
    return hashlib.sha256(repr((VERSION, *parts)).encode()).hexdigest()[:32]


def tree_numbers(tree: Tree, known: dict[int, str] | None = None) -> tuple[object, ...]:
    """The numbers of a tree that planning depends on, without its texts; decisions are hashes, `known` by their ids."""
    found: dict[int, str] = {} if known is None else known
    return tuple(_node_numbers(node, found) for node in tree.values())


def _node_numbers(node: Node, known: dict[int, str]) -> object:
    if isinstance(node, Leaf):
        return sorted(node.reach.items()), sorted(node.gain.items())
    if id(node) not in known:
        known[id(node)] = fingerprint(node.ids, [tree_numbers(branch, known) for branch in node.branches])
    return known[id(node)]


def load_or_compute(name: str, length: int, compute: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
    """The `length` values stored under `name`; computed and stored where missing or unreadable."""
    path = cache_directory() / "exact" / f"{name}.json"
    with suppress(OSError, *BAD_JSON):
        stored = msgspec.json.decode(path.read_bytes(), type=tuple[float, ...])
        if len(stored) == length:
            return stored
    values = compute()
    with suppress(OSError):  # a read-only home is no reason to fail
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.encode(values))
    return values
