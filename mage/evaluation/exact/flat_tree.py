"""The tree of an episode as arrays: many plays of it are compared fast, and a play is the set of leaves it allows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mage.evaluation.exact.ties import tied
from mage.evaluation.exact.tree import Leaf, Tree

Array: TypeAlias = NDArray[np.float64]
"""Axes: L leaves, M members, W words."""


class _Branch(NamedTuple):
    """What may be seen next: leaves and decisions, by number."""

    leaves: tuple[int, ...]
    decisions: tuple[int, ...]


class FlatTree:
    """The leaves of an episode as rows; decisions are numbered so that those below another come before it."""

    def __init__(self, tree: Tree, members: Sequence[int]) -> None:
        self._members = members
        self._rows: list[Leaf] = []
        self._decisions: list[tuple[_Branch, ...]] = []
        self._known: dict[int, int] = {}
        """Numbers of decisions by their ids."""
        self._root = self._flatten(tree)
        self.reach_LM: Array = np.array([[leaf.reach.get(m, 0.0) for m in members] for leaf in self._rows])
        self.gain_LM: Array = np.array([[leaf.gain.get(m, 0.0) for m in members] for leaf in self._rows])

    def best_play(self, values_L: Array, most: float, rng: random.Random) -> list[int]:
        """The leaves that the best play allows, where leaves have these values; ties within `most` break by `rng`."""
        leaf_values: list[float] = values_L.tolist()
        best: list[float] = []
        chosen: list[_Branch] = []

        def value(branch: _Branch) -> float:
            return sum([leaf_values[n] for n in branch.leaves]) + sum([best[n] for n in branch.decisions])

        for options in self._decisions:
            found = [value(branch) for branch in options]
            place = rng.choice(tied(found, most))
            best.append(found[place])
            chosen.append(options[place])
        allowed: list[int] = []
        waiting = [self._root]
        while waiting:
            branch = waiting.pop()
            allowed += branch.leaves
            waiting += [chosen[n] for n in branch.decisions]
        return allowed

    def _flatten(self, branches: Tree) -> _Branch:
        leaves, decisions = [], []
        for node in branches.values():
            if isinstance(node, Leaf):
                leaves.append(len(self._rows))
                self._rows.append(node)
            else:
                if id(node) not in self._known:
                    options = tuple(map(self._flatten, node.branches))
                    self._known[id(node)] = len(self._decisions)
                    self._decisions.append(options)
                decisions.append(self._known[id(node)])
        return _Branch(tuple(leaves), tuple(decisions))
