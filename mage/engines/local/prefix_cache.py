"""The prefix cache: a radix tree of which KV cache slot holds which token ids, with LRU eviction.

A slot holds the keys and values of one token stream. A call leases a slot, extends it and releases it. A stream that
continues reuses its own slot and computes only its new tokens; one that forks, or that shares a long prefix with
another, gets a copy of the shared part. This module only keeps the index; the tensors belong to the executor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

Ids = tuple[int, ...]


class Lease(NamedTuple):
    """A slot for one call; its first `filled` tokens are cached in it, or are to be copied from the slot `source`."""

    slot: int
    filled: int
    source: int | None


class _Node:
    """A node of the radix tree; `run` is its edge label, `slots` hold exactly the ids from the root to here."""

    __slots__ = ("children", "depth", "parent", "run", "slots")

    def __init__(self, run: Ids, parent: _Node | None) -> None:
        self.run = run
        self.parent = parent
        self.depth: int = len(run) + (0 if parent is None else parent.depth)
        """Number of ids from the root, the run included."""
        self.children: dict[int, _Node] = {}
        self.slots: dict[int, None] = {}


class PrefixMatch(NamedTuple):
    """How much of a prompt is cached: the longest whole cached stream, and the longest prefix shared with one."""

    whole: int
    slots: tuple[int, ...]
    """Slots that hold exactly the first `whole` ids."""
    shared: int
    donor: int | None
    """A slot that holds at least the first `shared` ids."""


class PrefixCache:
    """A radix tree over the ids in slots. Every leaf has a slot."""

    def __init__(self, num_slots: int, share_tokens: int = 32) -> None:
        self.share_tokens = share_tokens
        """Least tokens to save by copying a prefix, or by waiting for another call that computes it."""
        self._free: dict[int, None] = dict.fromkeys(range(num_slots))
        """Slots that are not leased, least recently used first."""
        self._roots: defaultdict[int, _Node] = defaultdict(lambda: _Node((), None))
        """One tree per adapter: their keys and values differ."""
        self._node_by_slot: dict[int, _Node] = {}

    @property
    def num_free(self) -> int:
        """How many slots are not leased."""
        return len(self._free)

    def has_free_slot_with(self, ids: Ids, adapter: int = -1) -> bool:
        """Whether a slot that is not leased holds a whole prefix of `ids`."""
        return any(slot in self._free for slot in self.match(ids, adapter).slots)

    def match(self, ids: Ids, adapter: int = -1) -> PrefixMatch:
        """The longest cached prefix of `ids` for an adapter; at least one id is left to compute."""
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
        """A slot to continue from a match, or None while all slots are leased."""
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
            self._evict(taken)
        if match.shared - held < self.share_tokens:
            return Lease(taken, held, None)
        return Lease(taken, match.shared, None if match.donor == taken else match.donor)

    def keep(self, slot: int, ids: Ids, adapter: int = -1) -> None:
        """Record that a leased slot now holds `ids` for an adapter; they extend what it held before."""
        old = self._node_by_slot.get(slot)
        if old is not None and not old.children and len(old.slots) == 1:
            old.run += ids[old.depth :]
            old.depth = len(ids)
            return
        node = _node_for(old or self._roots[adapter], ids)
        node.slots[slot] = None
        self._node_by_slot[slot] = node
        if old is not None and old is not node:
            del old.slots[slot]
            _prune(old)

    def release(self, slot: int) -> None:
        """End a lease. The slot's ids can be matched until the slot is evicted."""
        self._free[slot] = None

    def clear(self, adapter: int | None = None) -> None:
        """Evict all slots that are not leased, of one adapter or of all; free slots are then used in order."""
        of_adapter = None if adapter is None else self._roots[adapter]
        for slot in self._free:
            if of_adapter is None or (slot in self._node_by_slot and _root(self._node_by_slot[slot]) is of_adapter):
                self._evict(slot)
        if adapter is not None:
            return
        self._free = dict.fromkeys(sorted(self._free))

    def _evict(self, slot: int) -> None:
        node = self._node_by_slot.pop(slot, None)
        if node is not None:
            del node.slots[slot]
            _prune(node)


def _root(node: _Node) -> _Node:
    while node.parent is not None:
        node = node.parent
    return node


def _common(run: Ids, ids: Sequence[int]) -> int:
    """Length of the common prefix."""
    for at, (one, other) in enumerate(zip(run, ids, strict=False)):
        if one != other:
            return at
    return min(len(run), len(ids))


def _node_for(node: _Node, ids: Ids) -> _Node:
    """Find or add the node for `ids` below `node`, whose ids are a prefix of them."""
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
    """Split a node's run after `length` ids and return the new upper node."""
    parent = node.parent
    assert parent is not None
    upper = _Node(node.run[:length], parent)
    parent.children[upper.run[0]] = upper
    node.run, node.parent = node.run[length:], upper
    upper.children[node.run[0]] = node
    return upper


def _prune(node: _Node) -> None:
    """Remove a node without slots and children, and then such parents."""
    while node.parent is not None and not node.slots and not node.children:
        del node.parent.children[node.run[0]]
        node = node.parent
