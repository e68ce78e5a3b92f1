"""The tree of one episode from a seat's view: decisions, observations, and reach probabilities by hidden type.

The opponent's policy or the level is one of several members, unknown to the seat. Every leaf holds, per member, the
probability of reaching it given the seat's own moves, and the score; all exact values are sums over these numbers.
Where keys do not depend on the order of moves (`MergingModel`), decisions that are reached in several orders are one
node with several parents, so walks over a tree keep what they found by the `id` of the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from mage.errors import InexactError, PlayError
from mage.protocols import Branches, ExactModel, MergingModel

MAX_STATES = 200_000
"""Most states of an episode; rock-paper-scissors with three rounds has about a thousand."""

MAX_DECISIONS = 150
"""Most decisions of the seat in an episode: the walk is recursive, with a few frames per decision."""

Seen = tuple[bool, str]
"""What a seat sees next: (False, the key of its next decision) or (True, what it is told at the end)."""


class Leaf(NamedTuple):
    """All ends that look the same to the seat."""

    reach: Mapping[int, float]
    """By member, the probability of reaching it given the seat's moves; members that cannot are left out."""
    gain: Mapping[int, float]
    """By member, `reach` times the seat's mean score."""


class Decision(NamedTuple):
    """A decision of the seat. Branches are by action, in the order of `ids`, then by the next observation."""

    ids: tuple[int, ...]
    branches: tuple[Mapping[Seen, Node], ...]
    members: frozenset[int]
    """Members that can reach it."""


Node: TypeAlias = Leaf | Decision
Tree: TypeAlias = Mapping[Seen, Node]
"""Nodes by the seat's first observation."""

_Place: TypeAlias = tuple[Any, Mapping[int, float]]
"""A position of the model with its reach by member."""


class _Builder:
    def __init__(self, model: ExactModel[Any], world: str, max_states: int) -> None:
        self.model = model
        self.world = world
        self.max_states = max_states
        self.num_states = 0
        self.merges = isinstance(model, MergingModel) and model.merges
        self.known: dict[tuple[object, ...], Decision] = {}
        """Decisions by key and reach, where equal ones are merged."""

    def forward(self, places: Sequence[_Place], num_decisions: int) -> Tree:
        """Expand until the seat must act or the episode ends; group by observation."""
        model = self.model
        decisions: dict[Seen, list[_Place]] = {}
        ends: dict[Seen, list[_Place]] = {}
        waiting = list(reversed(places))
        while waiting:
            place = waiting.pop()
            position, reach = place
            self.count()
            if branches := model.forward(position, reach):
                waiting += [
                    (after, {m: reach[m] * chance for m, chance in chances.items()})
                    for after, chances in reversed(branches)
                ]
            else:
                seen = model.seen(position)
                (ends if seen[0] else decisions).setdefault(seen, []).append(place)
        nodes: dict[Seen, Node] = {seen: self.leaf(group) for seen, group in ends.items()}
        decide = self.merged_decision if self.merges else self.decision
        nodes.update((seen, decide(seen[1], group, num_decisions)) for seen, group in decisions.items())
        return nodes

    def merged_decision(self, key: str, group: Sequence[_Place], num_decisions: int) -> Decision:
        place = (key, *(tuple(reach.items()) for _, reach in group))
        if place not in self.known:
            self.known[place] = self.decision(key, group, num_decisions)
        return self.known[place]

    def decision(self, key: str, group: Sequence[_Place], num_decisions: int) -> Decision:
        model = self.model
        if num_decisions == MAX_DECISIONS:
            raise InexactError(
                f"an episode of {self.world} can take more than {MAX_DECISIONS} decisions, too many to enumerate"
            )
        ids = model.actions(group[0][0])
        if not ids or any(model.actions(position) != ids for position, _ in group[1:]):
            raise PlayError(
                f"{self.world}: decisions with the key {key!r} have no actions, or different ones; a seat learns from "
                "its list of actions, so where lists differ keys must differ"
            )
        branches = [
            self.forward([(model.after(position, action), reach) for position, reach in group], num_decisions + 1)
            for action in ids
        ]
        return Decision(ids, tuple(branches), frozenset(m for _, reach in group for m in reach))

    def leaf(self, group: Sequence[_Place]) -> Leaf:
        reach: dict[int, float] = {}
        gain: dict[int, float] = {}
        for position, reach_here in group:
            score = self.model.score(position)
            for member, probability in reach_here.items():
                reach[member] = reach.get(member, 0.0) + probability
                gain[member] = gain.get(member, 0.0) + probability * score
        return Leaf(reach, gain)

    def count(self) -> None:
        self.num_states += 1
        if self.num_states > self.max_states:
            raise InexactError(
                f"an episode of {self.world} has more than {self.max_states} states against these members"
            )


def episode_tree(model: ExactModel[Any], start: Branches[Any], world: str, max_states: int | None = None) -> Tree:
    """The tree of an episode that begins with `start`; members are the model's types. `world` names it in errors."""
    return _Builder(model, world, MAX_STATES if max_states is None else max_states).forward(start, 0)
