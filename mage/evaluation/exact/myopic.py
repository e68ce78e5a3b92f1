"""Myopic Bayes: in every episode the play that is best for that episode, given all that was seen before.

It remembers and never explores: what it scores over the best memoryless play is the value of memory, and what
Bayes-optimal play of the last episode scores over it is the value of exploration.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import NamedTuple, TypeAlias

import msgspec

from mage.errors import InexactError
from mage.evaluation.exact.planner import (
    MAX_WORK,
    Belief,
    BeliefKey,
    EpisodeScores,
    belief_key,
    check_length,
    normalised,
    posterior,
)
from mage.evaluation.exact.ties import first_of, tied, tolerance
from mage.evaluation.exact.tree import Leaf, Tree


class MyopicScores(msgspec.Struct, frozen=True):
    """The last score of myopic Bayes. Equally good actions may teach differently, so it depends on how ties break."""

    low: float
    """Ties broken worst for the last episode."""
    even: float
    """Ties broken evenly: at every decision all equally good actions have the same probability."""
    high: float
    """Ties broken best for the last episode."""


class MyopicTrial(msgspec.Struct, frozen=True):
    """The scores of myopic Bayes by episode, with ties broken as in `MyopicScores`."""

    low: EpisodeScores
    even: EpisodeScores
    high: EpisodeScores

    @property
    def last(self) -> MyopicScores:
        """The scores of the last episode."""
        return MyopicScores(self.low[-1], self.even[-1], self.high[-1])


_Three: TypeAlias = tuple[EpisodeScores, EpisodeScores, EpisodeScores]
"""`low`, `even` and `high`."""


class _Tied(NamedTuple):
    """A decision that can be reached: the members that may be there, and the places of the best actions."""

    members: Belief
    places: list[int]
    mass: float
    score: float
    """The best score of the episode, times `mass`, the probability of the decision."""


_Ties: TypeAlias = dict[int, _Tied]
"""By the id of a decision."""


class MyopicPlanner:
    """Plans each episode for itself, from every belief that the best actions of the episodes before lead to."""

    def __init__(self, trees: Sequence[Tree], prior: Belief) -> None:
        check_length(trees, len(trees))
        self._trees = trees
        self._prior = normalised(prior)
        self._tolerance = tolerance(trees)
        self._values: dict[tuple[int, BeliefKey], _Three] = {}
        self._work = 0

    def trial_scores(self) -> MyopicTrial:
        """Expected scores by episode."""
        return MyopicTrial(*self._value(0, self._prior))

    def last_scores(self) -> MyopicScores:
        """Expected scores of the last episode."""
        return self.trial_scores().last

    def _value(self, episode: int, belief: Belief) -> _Three:
        """The scores from `episode` on of a player that starts it with `belief`."""
        key = (episode, belief_key(belief))
        if key not in self._values:
            tree, ties = self._trees[episode], _Ties()
            _, score = self._best_play(tree, belief, ties)
            low, even, high = self._later(episode, tree, belief, ties, {})
            self._values[key] = (score, *low), (score, *even), (score, *high)
        return self._values[key]

    def _best_play(self, branches: Tree, belief: Belief, ties: _Ties) -> tuple[float, float]:
        """The probability of these branches, and the best score of the episode times it; best actions go to `ties`."""
        masses, scores = [], []
        for node in branches.values():
            if isinstance(node, Leaf):
                self._count(len(belief))
                masses.append(fsum(posterior(node, belief).values()))
                scores.append(fsum([p * node.gain[m] for m, p in belief.items() if m in node.gain]))
                continue
            within = {m: p for m, p in belief.items() if m in node.members}
            if within and id(node) not in ties:
                options = [self._best_play(seen, within, ties) for seen in node.branches]
                mass, values = options[0][0], [value for _, value in options]
                ties[id(node)] = _Tied(within, tied(values, self._tolerance * mass), mass, max(values))
            if within:
                masses.append(ties[id(node)].mass)
                scores.append(ties[id(node)].score)
        return fsum(masses), fsum(scores)

    def _later(self, episode: int, branches: Tree, belief: Belief, ties: _Ties, known: dict[int, _Three]) -> _Three:
        """The scores of later episodes after the best actions of this one, times the probability of these branches.

        `known` has those of decisions by their ids.
        """
        num_later = len(self._trees) - episode - 1
        none = (0.0,) * num_later
        found = [(none, none, none)]
        for node in branches.values() if num_later else ():
            if isinstance(node, Leaf):
                self._count(len(belief))
                after = posterior(node, belief)
                if mass := fsum(after.values()):
                    low, even, high = self._value(episode + 1, normalised(after))
                    found.append((_times(mass, low), _times(mass, even), _times(mass, high)))
            elif id(node) in ties:  # else no member that is still possible leads here
                if id(node) not in known:
                    within, places, *_ = ties[id(node)]
                    known[id(node)] = self._any_of(
                        [self._later(episode, node.branches[place], within, ties, known) for place in places]
                    )
                found.append(known[id(node)])
        low, even, high = (tuple(map(fsum, zip(*flows, strict=True))) for flows in zip(*found, strict=True))
        return low, even, high

    def _any_of(self, options: Sequence[_Three]) -> _Three:
        """Equally good actions: the worst, all with the same probability, and the best for the last episode."""
        if len(options) == 1:
            return options[0]
        lows, evens, highs = zip(*options, strict=True)
        low = first_of([(-scores[-1], -fsum(scores)) for scores in lows], self._tolerance)
        high = first_of([(scores[-1], fsum(scores)) for scores in highs], self._tolerance)
        return lows[low], tuple(fsum(column) / len(evens) for column in zip(*evens, strict=True)), highs[high]

    def _count(self, work: int) -> None:
        self._work += work
        if self._work > MAX_WORK:
            raise InexactError(f"planning {len(self._trees)} episodes of myopic play against this pool takes too long")


def _times(factor: float, scores: EpisodeScores) -> EpisodeScores:
    return tuple([factor * score for score in scores])
