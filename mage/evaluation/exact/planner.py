"""Planning against an unknown member of a pool: dynamic programming over beliefs, exact up to rounding.

One recursion gives every reference. A belief over members is passed down an episode's tree; each leaf turns it into
the posterior that the next episode starts from. Best response: one member, one episode. Best memoryless: the prior,
one episode. Bayes-optimal: the prior, all episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from enum import StrEnum
from math import fsum
from typing import TypeAlias

from mage.errors import InexactError
from mage.evaluation.exact.ties import first_of, tolerance
from mage.evaluation.exact.tree import Decision, Leaf, Node, Tree

MAX_WORK = 10_000_000
"""Most (leaf, member) pairs that are visited: about a minute on a slow core."""
MAX_FRAMES = 700
"""Deepest recursion, four frames per decision; Python stops at 1000."""

Belief: TypeAlias = Mapping[int, float]
"""Probability by member; impossible members are left out."""
BeliefKey: TypeAlias = tuple[tuple[int, float], ...]
"""A rounded belief as a dictionary key, so that different paths to one posterior share it."""
EpisodeScores: TypeAlias = tuple[float, ...]
"""Expected score by episode, from the current one to the last."""
_Flow: TypeAlias = tuple[float, ...]
"""The probability of some nodes, and the scores by episode from there on times that probability."""
_Flows: TypeAlias = dict[int, _Flow]
"""Of decisions of one episode, by their ids, from one belief at its start."""


class PlanObjective(StrEnum):
    """What Bayes-optimal play maximises over a trial."""

    LAST = "last"
    SUM = "sum"

    def weights(self, episodes: int) -> tuple[float, ...]:
        """The weight of each episode.

        >>> PlanObjective.LAST.weights(3), PlanObjective.SUM.weights(3)
        ((0.0, 0.0, 1.0), (1.0, 1.0, 1.0))
        """
        early = 0.0 if self is PlanObjective.LAST else 1.0
        return (early,) * (episodes - 1) + (1.0,)


class Planner:
    """Maximises the episodes' scores weighted by `objective`, one weight per episode.

    Ties go to the better last episode, then to the larger plain sum, then to the first legal action, so the plan is
    deterministic; where several plans are optimal, `value` is that of one of them.
    """

    def __init__(
        self, trees: Sequence[Tree], prior: Belief, objective: Sequence[float], max_work: int | None = None
    ) -> None:
        self._trees = trees
        self._objective = tuple(objective)
        self._weights = [(0.0, *_scaled(self._objective[episode:])) for episode in range(len(self._objective))]
        """By episode, those of a flow: none of its probability, and of later scores relative to the largest weight."""
        self._tolerance = tolerance(trees)
        self._values: dict[tuple[int, BeliefKey], EpisodeScores] = {}
        self._choices: dict[tuple[int, BeliefKey, int], int] = {}
        self._work = 0
        self._max_work = MAX_WORK if max_work is None else max_work
        self.prior = normalised(prior)
        check_length(trees, len(objective))

    def from_prior(self, prior: Belief) -> Planner:
        """A planner of the same trial that expects other members."""
        other = copy(self)
        other._values, other._choices, other._work = {}, {}, 0
        other.prior = normalised(prior)
        return other

    def trial_scores(self) -> EpisodeScores:
        """Expected scores of a whole trial."""
        return self.value(0, self.prior)

    def value(self, episode: int, belief: Belief) -> EpisodeScores:
        """Expected scores from the start of `episode` on, under optimal play."""
        if episode == len(self._objective):
            return ()
        key = (episode, belief_key(belief))
        if key not in self._values:
            self._values[key] = self._branch_flow(episode, self._trees[episode], belief, {})[1:]
        return self._values[key]

    def choose(self, episode: int, node: Decision, belief: Belief) -> int:
        """The index of the best action among the legal ones."""
        key = (episode, belief_key(belief), id(node))  # nodes live as long as the trees, so ids are unique
        if key not in self._choices:
            flows: _Flows = {}
            options = [self._branch_flow(episode, seen, belief, flows) for seen in node.branches]
            self._choices[key] = self._best(episode, options)
        return self._choices[key]

    def _branch_flow(self, episode: int, branches: Tree, belief: Belief, known: _Flows) -> _Flow:
        flows = [self._node_flow(episode, node, belief, known) for node in branches.values()]
        return flows[0] if len(flows) == 1 else tuple([fsum(values) for values in zip(*flows, strict=True)])

    def _node_flow(self, episode: int, node: Node, belief: Belief, known: _Flows) -> _Flow:
        if isinstance(node, Leaf):
            return self._leaf_flow(episode, node, belief)
        if id(node) in known:
            return known[id(node)]
        within = {m: p for m, p in belief.items() if m in node.members}
        if not within:
            return (0.0,) * (len(self._objective) - episode + 1)
        options = [self._branch_flow(episode, seen, within, known) for seen in node.branches]
        known[id(node)] = options[self._best(episode, options)]
        return known[id(node)]

    def _leaf_flow(self, episode: int, leaf: Leaf, belief: Belief) -> _Flow:
        self._work += len(belief)
        if self._work > self._max_work:
            raise InexactError(f"planning {len(self._objective)} episodes against this pool takes too long")
        score = fsum([p * leaf.gain[m] for m, p in belief.items() if m in leaf.gain])
        after = posterior(leaf, belief)
        mass = fsum(after.values())
        if mass == 0:
            return (0.0,) * (len(self._objective) - episode + 1)
        rest = self.value(episode + 1, normalised(after))
        return (mass, score, *[mass * later for later in rest])

    def _best(self, episode: int, options: Sequence[_Flow]) -> int:
        """The place of the best option; all have the same probability, but for rounding."""
        weights = self._weights[episode]
        ranks = [
            (fsum([w * x for w, x in zip(weights, flow, strict=True)]), flow[-1], fsum(flow[1:])) for flow in options
        ]
        return first_of(ranks, self._tolerance * options[0][0])


def posterior(leaf: Leaf, belief: Belief) -> dict[int, float]:
    """Prior times likelihood, not normalised."""
    return {m: p * leaf.reach[m] for m, p in belief.items() if m in leaf.reach}


def best_value(tree: Tree, belief: Belief) -> float:
    """The highest expected score of a single episode against `belief`: the best memoryless play."""
    return Planner([tree], belief, [1.0]).trial_scores()[0]


def informed_value(tree: Tree, belief: Belief) -> float:
    """The highest expected score of a single episode if the member is told: the best responses, averaged."""
    planner = Planner([tree], belief, [1.0])
    return fsum(p * planner.from_prior({member: 1.0}).trial_scores()[0] for member, p in belief.items())


def normalised(belief: Belief) -> Belief:
    """The belief scaled to sum to 1."""
    total = fsum(belief.values())
    return {m: p / total for m, p in belief.items()}


def check_length(trees: Sequence[Tree], episodes: int) -> None:
    """Raise `InexactError` where a trial is too long for a recursion over its decisions."""
    if episodes * (4 * max(_depth(tree, {}) for tree in trees) + 1) > MAX_FRAMES:
        raise InexactError(f"{episodes} episodes of this length are too long a trial to plan exactly")


def belief_key(belief: Belief) -> BeliefKey:
    """The belief rounded to twelve digits, as a key."""
    return tuple([(m, round(belief[m], 12)) for m in sorted(belief)])


def _scaled(weights: Sequence[float]) -> list[float]:
    """Weights whose largest is 1: small ones, of late episodes, must not make all plays equal."""
    largest = max(map(abs, weights)) or 1.0
    return [weight / largest for weight in weights]


def _depth(tree: Tree, known: dict[int, int]) -> int:
    """One more than the most decisions in an episode; `known` has that of decisions by their ids."""
    for node in tree.values():
        if not isinstance(node, Leaf) and id(node) not in known:
            known[id(node)] = max(_depth(branch, known) for branch in node.branches)
    return 1 + max((known[id(node)] for node in tree.values() if not isinstance(node, Leaf)), default=0)
