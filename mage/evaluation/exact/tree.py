"""The tree of one episode from a seat's view: decisions, observations, and reach probabilities by opponent.

The opponent is one of several members, unknown to the seat. Every leaf holds, per member, the probability of reaching
it given the seat's own moves, and the score; all exact values are sums over these numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from mage.errors import InexactError
from mage.opponents.policy import Policy
from mage.worlds.openspiel.game import Game
from mage.worlds.openspiel.words.base import State

MAX_STATES = 200_000
"""Most states of an episode; rock-paper-scissors with three rounds has about a thousand."""

MAX_LENGTH = 150
"""Most moves of an episode: the walk is recursive, with a few frames per move."""

Seen = tuple[bool, str]
"""What a seat sees next: (False, the key of its next decision) or (True, what it is told at the end)."""


class Leaf(NamedTuple):
    """All terminal states that look the same to the seat."""

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


class _Place(NamedTuple):
    """A state with its reach by member, and the number of the opponent's moves."""

    state: State
    reach: Mapping[int, float]
    turn: int


class _Builder:
    def __init__(self, game: Game, seat: int, policies: Sequence[Policy], episode: int) -> None:
        self.game = game
        self.seat = seat
        self.policies = policies
        self.episode = episode
        self.num_states = 0

    def forward(self, places: Sequence[_Place]) -> Tree:
        """Expand chance and the opponent until the seat must act or the episode ends; group by observation."""
        decisions: dict[Seen, list[_Place]] = {}
        ends: dict[Seen, list[_Place]] = {}
        waiting = list(reversed(places))
        while waiting:
            place = waiting.pop()
            state = place.state
            self.count()
            if state.is_terminal():
                ends.setdefault((True, self.game.words.outcome(state, self.seat)), []).append(place)
            elif drawn := self.game.chance(state):
                waiting += [
                    _Place(state.child(outcome), {m: p * chance for m, p in place.reach.items()}, place.turn)
                    for outcome, chance in reversed(drawn)
                ]
            elif state.current_player() == self.seat:
                decisions.setdefault((False, self.game.key(state, self.seat)), []).append(place)
            else:
                waiting += reversed(self.answers(place))
        nodes: dict[Seen, Node] = {seen: self.leaf(group) for seen, group in ends.items()}
        nodes.update((seen, self.decision(group)) for seen, group in decisions.items())
        return nodes

    def answers(self, place: _Place) -> list[_Place]:
        """The state after each move that some member makes, with the reach of those members."""
        observation = self.game.observe(place.state, 1 - self.seat, self.episode, place.turn)
        reach_by_action: dict[int, dict[int, float]] = {action: {} for action in observation.ids}
        for member, reach in place.reach.items():
            for action, probability in zip(observation.ids, self.policies[member](observation), strict=True):
                if probability > 0:
                    reach_by_action[action][member] = reach * probability
        return [
            _Place(place.state.child(action), reach, place.turn + 1)
            for action, reach in reach_by_action.items()
            if reach
        ]

    def decision(self, group: Sequence[_Place]) -> Decision:
        ids = tuple(group[0].state.legal_actions())
        branches = [self.forward([_Place(p.state.child(action), p.reach, p.turn) for p in group]) for action in ids]
        return Decision(ids, tuple(branches), frozenset(m for place in group for m in place.reach))

    def leaf(self, group: Sequence[_Place]) -> Leaf:
        reach: dict[int, float] = {}
        gain: dict[int, float] = {}
        for place in group:
            score = self.game.scores(place.state)[self.seat]
            for member, probability in place.reach.items():
                reach[member] = reach.get(member, 0.0) + probability
                gain[member] = gain.get(member, 0.0) + probability * score
        return Leaf(reach, gain)

    def count(self) -> None:
        self.num_states += 1
        if self.num_states > MAX_STATES:
            raise InexactError(
                f"an episode of {self.game.spec} has more than {MAX_STATES} states against these members"
            )


def episode_tree(game: Game, seat: int, policies: Sequence[Policy], episode: int) -> Tree:
    """The tree of one episode for `seat` of a two-player game; members are indices into `policies`."""
    check_countable(game)
    builder = _Builder(game, seat, policies, episode)
    reach = dict.fromkeys(range(len(policies)), 1.0)
    return builder.forward([_Place(game.start(0), reach, 0)])


def check_countable(game: Game) -> None:
    """Raise `InexactError` on games whose episodes cannot be enumerated."""
    if game.num_seats != 2:
        raise InexactError(f"{game.spec} has {game.num_seats} seats; exact references need two")
    if game.samples_chance_itself:
        raise InexactError(f"{game.spec} samples chance internally, so its outcomes cannot be enumerated")
    length: int = game.rules.max_game_length()
    if length > MAX_LENGTH:
        raise InexactError(f"an episode of {game.spec} can take {length} moves, too many to enumerate")
