"""Myopic Bayes: in every episode the play that is best for that episode, given all that was seen before.

It remembers and never explores: what it scores over the best memoryless play is the value of memory, and what
Bayes-optimal play of the last episode scores over it is the value of exploration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from mage.errors import InexactError
from mage.evaluation.exact.planner import (
    MAX_WORK,
    Belief,
    BeliefKey,
    belief_key,
    check_length,
    normalised,
    posterior,
)
from mage.evaluation.exact.tree import Leaf, Tree

TIE = 1e-10
"""Actions whose scores differ by no more than this share of the largest absolute score are equally good. Sums over
branches and posteriors carry rounding of about 1e-15."""


class MyopicScores(msgspec.Struct, frozen=True):
    """The last score of myopic Bayes. Equally good actions may teach differently, so it depends on how ties break."""

    low: float
    """Ties broken worst for the last episode."""
    even: float
    """Ties broken evenly: at every decision all equally good actions have the same probability."""
    high: float
    """Ties broken best for the last episode."""


_Last: TypeAlias = tuple[float, float, float]
"""`low`, `even` and `high`."""
_Ties: TypeAlias = dict[int, tuple[Belief, list[int]]]
"""By the id of a decision that can be reached: the members that may be there, and the places of the best actions."""


class MyopicPlanner:
    """Plans each episode for itself, from every belief that the best actions of the episodes before lead to."""

    def __init__(self, trees: Sequence[Tree], prior: Belief) -> None:
        check_length(trees, len(trees))
        self._trees = trees
        self._prior = normalised(prior)
        self._tolerance = TIE * max(_largest_score(tree) for tree in {id(tree): tree for tree in trees}.values())
        self._values: dict[tuple[int, BeliefKey], _Last] = {}
        self._work = 0

    def last_scores(self) -> MyopicScores:
        """Expected scores of the last episode."""
        return MyopicScores(*self._value(0, self._prior))

    def _value(self, episode: int, belief: Belief) -> _Last:
        """The last scores of a player that starts `episode` with `belief`."""
        key = (episode, belief_key(belief))
        if key not in self._values:
            tree, ties = self._trees[episode], _Ties()
            _, score = self._best_play(tree, belief, ties)
            is_last = episode == len(self._trees) - 1
            self._values[key] = (score,) * 3 if is_last else self._later(episode, tree, belief, ties)
        return self._values[key]

    def _best_play(self, branches: Tree, belief: Belief, ties: _Ties) -> tuple[float, float]:
        """The probability of these branches, and the best score of the episode times it; best actions go to `ties`."""
        mass, score = 0.0, 0.0
        for node in branches.values():
            if isinstance(node, Leaf):
                self._count(len(belief))
                mass += sum(posterior(node, belief).values())
                score += sum([p * node.gain[m] for m, p in belief.items() if m in node.gain])
                continue
            within = {m: p for m, p in belief.items() if m in node.members}
            if within:
                options = [self._best_play(seen, within, ties) for seen in node.branches]
                best = max(options, key=lambda option: option[1])
                least = best[1] - self._tolerance * best[0]
                ties[id(node)] = within, [place for place, (_, value) in enumerate(options) if value >= least]
                mass, score = mass + best[0], score + best[1]
        return mass, score

    def _later(self, episode: int, branches: Tree, belief: Belief, ties: _Ties) -> _Last:
        """The last scores after the best actions of this episode, times the probability of these branches."""
        low, even, high = 0.0, 0.0, 0.0
        for node in branches.values():
            if isinstance(node, Leaf):
                self._count(len(belief))
                after = posterior(node, belief)
                mass = sum(after.values())
                found = [self._value(episode + 1, normalised(after))] if mass else []
            elif id(node) in ties:
                within, places = ties[id(node)]
                mass, found = 1.0, [self._later(episode, node.branches[place], within, ties) for place in places]
            else:
                continue  # no member that is still possible leads here
            if found:
                lows, evens, highs = zip(*found, strict=True)
                low += mass * min(lows)
                even += mass * sum(evens) / len(evens)
                high += mass * max(highs)
        return low, even, high

    def _count(self, work: int) -> None:
        self._work += work
        if self._work > MAX_WORK:
            raise InexactError(f"planning {len(self._trees)} episodes of myopic play against this pool takes too long")


def _largest_score(tree: Tree) -> float:
    """The largest absolute mean score of a leaf."""
    found = 0.0
    waiting = list(tree.values())
    while waiting:
        node = waiting.pop()
        if isinstance(node, Leaf):
            found = max([found, *(abs(gain) / node.reach[m] for m, gain in node.gain.items() if node.reach[m])])
        else:
            waiting += [after for branch in node.branches for after in branch.values()]
    return found
