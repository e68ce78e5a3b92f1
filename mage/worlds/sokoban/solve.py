"""A solver for Sokoban: shortest solutions in moves, by A* over positions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from heapq import heappop, heappush

from mage.errors import InexactError
from mage.worlds.masks import cells_in
from mage.worlds.sokoban.room import Room, moved

MOST_POSITIONS = 400_000
"""Most positions that are looked at before the search gives up."""


@lru_cache(maxsize=4096)
def solve(room: Room, player: int, boxes: int, most_moves: int | None = None) -> tuple[int, ...] | None:
    """A shortest solution as directions by number; None where there is none, or none of `most_moves`.

    An `InexactError` says that too many positions would have to be looked at.

    >>> from mage.worlds.sokoban.room import parse_level
    >>> room = parse_level("6#|#@-$.#|6#")
    >>> solve(room, room.player, room.boxes)
    (3, 3)
    """
    distances = push_distances(room)
    estimate = _to_go(distances, boxes)
    if estimate is None:
        return None
    start, goals = (player, boxes), room.goals
    came: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}
    best = {start: 0}
    queue = [(estimate, 0, start)]
    """Estimated length, minus the moves so far, position: of equal estimates the deepest first."""
    while queue:
        estimate, minus_moves, position = heappop(queue)
        if position[1] == goals:
            return _path(came, position)
        moves = 1 - minus_moves
        if moves > best[position] + 1:
            continue
        if len(best) > MOST_POSITIONS:
            raise InexactError(f"the room {room} is too large to solve: more than {MOST_POSITIONS} positions")
        for direction, delta in enumerate(room.deltas):
            after = moved(room, *position, delta)
            if after is None or best.get(after, moves + 1) <= moves:
                continue
            to_go = estimate + minus_moves if after[1] == position[1] else _to_go(distances, after[1])
            if to_go is None or (most_moves is not None and moves + to_go > most_moves):
                continue
            best[after] = moves
            came[after] = position, direction
            heappush(queue, (moves + to_go, -moves, after))
    return None


@lru_cache(maxsize=4096)
def push_distances(room: Room) -> Mapping[int, int]:
    """By square, the least pushes that bring a box from there to a goal if nothing is in the way.

    From squares that are left out no box comes to a goal.
    """
    found = dict.fromkeys(cells_in(room.goals), 0)
    queue = list(found)
    for square in queue:
        for delta in room.deltas:
            before, behind = square - delta, square - 2 * delta
            if before not in found and not room.walls >> before & 1 and not room.walls >> behind & 1:
                found[before] = found[square] + 1
                queue.append(before)
    return found


def _to_go(distances: Mapping[int, int], boxes: int) -> int | None:
    """A lower bound of the moves to a solution; None where a box is lost."""
    total = 0
    for square in cells_in(boxes):
        if square not in distances:
            return None
        total += distances[square]
    return total


def _path(came: Mapping[tuple[int, int], tuple[tuple[int, int], int]], position: tuple[int, int]) -> tuple[int, ...]:
    found: list[int] = []
    while position in came:
        position, direction = came[position]
        found.append(direction)
    return tuple(reversed(found))
