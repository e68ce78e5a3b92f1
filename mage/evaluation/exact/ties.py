"""When two plays are equally good: the one rule of every exact planner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mage.evaluation.exact.tree import Leaf, Tree

TIE = 1e-12
"""Scores that differ by no more than this share of the largest absolute score, or of 1 where that is larger, are equal.
Scores are sums of products of few factors, added up without loss (`fsum`), so that they carry rounding of about
1e-15."""


def tolerance(trees: Iterable[Tree]) -> float:
    """The largest difference between equal scores of an episode in these trees."""
    distinct = {id(tree): tree for tree in trees}.values()
    return TIE * max(1.0, *map(_largest_score, distinct))


def tied(values: Sequence[float], most: float) -> list[int]:
    """The places of the largest value and of all that differ from it by at most `most`.

    >>> tied([0.1 + 0.2, 0.25, 0.3], 1e-12)
    [0, 2]
    """
    least = max(values) - most
    return [place for place, value in enumerate(values) if value >= least]


def first_of(ranks: Sequence[Sequence[float]], most: float) -> int:
    """The place of the best rank: by the first number, among ties by the second, and so on, then the first place.

    >>> first_of([(1.0, 0.0), (1.0, 2.0), (0.5, 9.0)], 1e-12)
    1
    """
    places = list(range(len(ranks)))
    for column in zip(*ranks, strict=True):
        if len(places) == 1:
            break
        places = [places[kept] for kept in tied([column[place] for place in places], most)]
    return places[0]


def _largest_score(tree: Tree) -> float:
    """The largest absolute mean score of a leaf."""
    found = 0.0
    waiting = list(tree.values())
    known: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in known:
            continue
        known.add(id(node))
        if isinstance(node, Leaf):
            found = max([found, *(abs(gain) / node.reach[m] for m, gain in node.gain.items() if node.reach[m])])
        else:
            waiting += [after for branch in node.branches for after in branch.values()]
    return found
