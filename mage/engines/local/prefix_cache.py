"""Which cache slot holds which tokens: prefixes are found again, and the least recently used slot is given up.

A slot holds the keys and values of one token stream. A call leases a slot, extends it and gives it back. A
stream that goes on takes its own slot over and pays only for its new tokens; one that forks, or that shares a
long opening with another, gets a copy of what they share. Here are only the books; tensors are the executor's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

Ids = tuple[int, ...]


class Lease(NamedTuple):
    """A slot for one call, with its first `filled` tokens already read, or to be copied from another slot."""

    slot: int
    filled: int
    source: int | None


class _Node:
    """A run of ids that every stream below shares; `slots` hold exactly the ids from the root to here."""

    __slots__ = ("children", "depth", "parent", "run", "slots")

    def __init__(self, run: Ids, parent: _Node | None) -> None:
        self.run = run
        self.parent = parent
        self.depth: int = len(run) + (0 if parent is None else parent.depth)
        """How many ids lead here, the run included."""
        self.children: dict[int, _Node] = {}
        self.slots: dict[int, None] = {}


class PrefixMatch(NamedTuple):
    """How much of a prompt is known: the longest whole stream that begins it, and the longest shared beginning."""

    whole: int
    slots: tuple[int, ...]
    """Slots that hold exactly the first `whole` ids."""
    shared: int
    donor: int | None
    """A slot that holds at least the first `shared` ids."""


class PrefixCache:
    """A radix tree over the ids that slots hold. Every leaf of it holds a slot."""

    def __init__(self, num_slots: int, share_tokens: int = 32) -> None:
        self.share_tokens = share_tokens
        """A copy, or waiting for another call to read the same tokens, must save at least this many."""
        self._free: dict[int, None] = dict.fromkeys(range(num_slots))
        """Slots that are not leased, least recently used first."""
        self._roots: defaultdict[int, _Node] = defaultdict(lambda: _Node((), None))
        """One tree for every adapter: what one has read is worth nothing to another."""
        self._node_by_slot: dict[int, _Node] = {}

    @property
    def num_free(self) -> int:
        """How many slots are not leased."""
        return len(self._free)

    def is_warm(self, ids: Ids, adapter: int = -1) -> bool:
        """Whether `ids` go on from what a slot holds that is not leased."""
        return any(slot in self._free for slot in self.match(ids, adapter).slots)

    def match(self, ids: Ids, adapter: int = -1) -> PrefixMatch:
        """What an adapter knows of `ids`, leaving one id at least to be read."""
        usable = len(ids) - 1
        slots: tuple[int, ...] = ()
        node, at, whole = self._roots[adapter], 0, 0
        best = node
        while at < usable and (child := node.children.get(ids[at])) is not None:
            run, best = child.run, child
            if at + len(run) > usable or ids[at : at + len(run)] != run:
                at += _common(run, ids[at:usable])
                break
            node, at = child, at + len(run)
            if node.slots:
                whole, slots = at, tuple(node.slots)
        return PrefixMatch(whole, slots, at, _any_slot(best))

    def lease(self, match: PrefixMatch) -> Lease | None:
        """A slot in which to read on from what was matched just now, or None while all are leased."""
        own = None
        for slot in match.slots:
            if slot in self._free:
                own = slot
                break
        taken = own if own is not None else next(iter(self._free), None)
        if taken is None:
            return None
        del self._free[taken]
        held = match.whole if own is not None else 0
        if own is None:
            self._forget(taken)
        if match.shared - held < self.share_tokens:
            return Lease(taken, held, None)
        return Lease(taken, match.shared, None if match.donor == taken else match.donor)

    def keep(self, slot: int, ids: Ids, adapter: int = -1) -> None:
        """Enter that a leased slot now holds `ids` as an adapter read them, which go on from what it held before."""
        old = self._node_by_slot.get(slot)
        if old is not None and not old.children and len(old.slots) == 1:
            old.run += ids[old.depth :]
            old.depth = len(ids)
            return
        node = _extended(old or self._roots[adapter], ids)
        node.slots[slot] = None
        self._node_by_slot[slot] = node
        if old is not None and old is not node:
            del old.slots[slot]
            _prune(old)

    def release(self, slot: int) -> None:
        """Give a slot back. What was kept in it can be found until the slot is needed."""
        self._free[slot] = None

    def clear(self, adapter: int | None = None) -> None:
        """Forget what slots hold that are not leased, of all or of one adapter; fresh slots are then taken in order."""
        of_adapter = None if adapter is None else self._roots[adapter]
        for slot in self._free:
            if of_adapter is None or (slot in self._node_by_slot and _root(self._node_by_slot[slot]) is of_adapter):
                self._forget(slot)
        if adapter is not None:
            return
        self._free = dict.fromkeys(sorted(self._free))

    def _forget(self, slot: int) -> None:
        node = self._node_by_slot.pop(slot, None)
        if node is not None:
            del node.slots[slot]
            _prune(node)


def _root(node: _Node) -> _Node:
    while node.parent is not None:
        node = node.parent
    return node


def _common(run: Ids, ids: Sequence[int]) -> int:
    """How many leading ids are equal."""
    for at, (one, other) in enumerate(zip(run, ids, strict=False)):
        if one != other:
            return at
    return min(len(run), len(ids))


def _extended(node: _Node, ids: Ids) -> _Node:
    """The node for `ids`, which begin with those that lead to `node`."""
    while node.depth < len(ids):
        at = node.depth
        child = node.children.get(ids[at])
        if child is None:
            child = _Node(ids[at:], node)
            node.children[ids[at]] = child
        elif ids[at : at + len(child.run)] != child.run:
            child = _split(child, _common(child.run, ids[at:]))
        node = child
    return node


def _any_slot(node: _Node) -> int | None:
    while not node.slots and node.children:
        node = next(iter(node.children.values()))
    return next(iter(node.slots), None)


def _split(node: _Node, length: int) -> _Node:
    """Put a node for the first `length` ids of a run above the rest of it."""
    parent = node.parent
    assert parent is not None
    upper = _Node(node.run[:length], parent)
    parent.children[upper.run[0]] = upper
    node.run, node.parent = node.run[length:], upper
    upper.children[node.run[0]] = node
    return upper


def _prune(node: _Node) -> None:
    """Remove what no slot needs any more, upwards."""
    while node.parent is not None and not node.slots and not node.children:
        del node.parent.children[node.run[0]]
        node = node.parent
