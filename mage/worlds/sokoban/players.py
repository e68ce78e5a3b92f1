"""Players of Sokoban without a model: one that solves the room, and one that learns from its failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mage.errors import InexactError
from mage.seeds import stream
from mage.types import Observation, Reply
from mage.worlds.masks import cells_in
from mage.worlds.sokoban.room import Room, from_board, moved
from mage.worlds.sokoban.solve import solve

_WALK = 0.3
"""What a step of the way to the next box counts beside a step of a box."""


class Expert:
    """Plays a shortest solution; where none is left, or the room is too large to solve, at random."""

    def __init__(self, directions: Sequence[str], moves: int, seed: int) -> None:
        self._directions = directions
        self._moves = moves
        self._seed = seed

    async def act(self, observation: Observation) -> Reply:
        room = room_of(observation.facts)
        try:
            plan = solve(room, room.player, room.boxes)
        except InexactError:
            plan = None
        if plan is not None:
            return Reply(" ".join(self._directions[move] for move in plan[: self._moves]), "", ())
        rng = stream(self._seed, "expert", observation.episode, observation.turn)
        return Reply(rng.choice(observation.actions), "", ())


class LearnsFromFailure:
    """Goes where boxes look nearer to goals, and remembers over episodes which positions are worse than they look.

    Learning real-time A* (Korf 1990), one turn ahead: where all that follows looks worse than a position did, the
    position is marked down to that. Boxes in its estimate do not block each other and can be pushed anywhere, so the
    first episode often fails. A way that solved the room is gone again.
    """

    def __init__(self, directions: Sequence[str], seed: int) -> None:
        self._numbers = {word: number for number, word in enumerate(directions)}
        self._seed = seed
        self._episode = -1
        self._learned: dict[tuple[int, int], float] = {}
        """Costs by player and boxes, where they are more than the estimate."""
        self._way: list[str] = []
        """The actions of this episode."""
        self._solution: list[str] | None = None

    async def act(self, observation: Observation) -> Reply:
        if observation.episode != self._episode:
            self._episode, self._way = observation.episode, []
        action = self._next(observation) if self._solution is None else self._solution[observation.turn]
        return Reply(action, "", ())

    def _next(self, observation: Observation) -> str:
        room = room_of(observation.facts)
        reached = [_after(room, [self._numbers[word] for word in action.split()]) for action in observation.actions]
        costs = [self._cost(room, position) for position in reached]
        least = min(costs)
        rng = stream(self._seed, "learns from failure", observation.episode, observation.turn)
        index = rng.choice([index for index, cost in enumerate(costs) if cost == least])
        here = room.player, room.boxes
        self._learned[here] = max(self._cost(room, here), least + 1)
        self._way.append(observation.actions[index])
        if reached[index][1] == room.goals:
            self._solution = self._way
        return observation.actions[index]

    def _cost(self, room: Room, position: tuple[int, int]) -> float:
        return self._learned[position] if position in self._learned else _estimate(room, *position)


def room_of(facts: Mapping[str, Any]) -> Room:
    """The room as an observation shows it."""
    return from_board(facts["board"])


def _after(room: Room, moves: Sequence[int]) -> tuple[int, int]:
    player, boxes = room.player, room.boxes
    for move in moves:
        player, boxes = moved(room, player, boxes, room.deltas[move]) or (player, boxes)
        if boxes == room.goals:
            break
    return player, boxes


def _estimate(room: Room, player: int, boxes: int) -> float:
    """Steps from boxes to goals, each to the nearest, and a share of those to the next box."""

    def steps(one: int, other: int) -> int:
        (row, column), (other_row, other_column) = divmod(one, room.columns), divmod(other, room.columns)
        return abs(row - other_row) + abs(column - other_column)

    if boxes == room.goals:
        return -1.0
    goals = list(cells_in(room.goals))
    pushes = sum(min(steps(box, goal) for goal in goals) for box in cells_in(boxes))
    return pushes + _WALK * min(steps(player, box) for box in cells_in(boxes & ~room.goals))
