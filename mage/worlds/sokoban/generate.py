"""Random rooms whose shortest solution has a wanted length, found by searching backwards from the solved room."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from mage.errors import ConfigError, InexactError
from mage.seeds import stream
from mage.worlds.masks import cells_in
from mage.worlds.sokoban.room import Room, reached
from mage.worlds.sokoban.solve import solve

_INNER_WALLS = (0.1, 0.4)
"""The least and the largest share of the inner squares that are drawn as walls."""
_LENGTHS, _TRIES = 8, 100
"""Lengths that are drawn before a wish is refused, and rooms that are tried for each."""
_MOST_IN_LAYER = 3000
"""Positions of one distance that are kept; where there are more, the lower bound of the length is searched for."""


class RoomWish(NamedTuple):
    """What a generated room must be like."""

    rows: int
    columns: int
    boxes: int
    shortest: int
    """The least moves of its shortest solution, and the most."""
    longest: int


def generate(wish: RoomWish, seed: int) -> Room:
    """The room of a seed; every length is as likely as the others where all can be had.

    A ConfigError says that no room was found.
    """
    for number in range(_LENGTHS * _TRIES):
        length = stream(seed, "sokoban length", number // _TRIES).randint(wish.shortest, wish.longest)
        room = _room_of_length(wish, length, stream(seed, "sokoban", number))
        if room is not None:
            return room
    raise ConfigError(
        f"no room of {wish.rows} by {wish.columns} squares with {wish.boxes} boxes was found that takes "
        f"{wish.shortest} to {wish.longest} moves; {_LENGTHS * _TRIES} were tried"
    )


def _room_of_length(wish: RoomWish, length: int, rng: random.Random) -> Room | None:
    """A random room that is solved in `length` moves and in no fewer than the least wanted; None where it has none."""
    room = _empty_room(wish, rng)
    if room is None:
        return None
    is_exact = True
    for moves, layer in enumerate(_layers(room, rng)):
        is_exact = is_exact and len(layer) < _MOST_IN_LAYER
        if moves == length:
            break
    else:
        return None
    off_goals = [position for position in layer if not position[1] & room.goals]
    if not off_goals:
        return None
    player, boxes = rng.choice(off_goals)
    room = room._replace(player=player, boxes=boxes)
    return room if is_exact or _takes(room, wish.shortest) else None


def _takes(room: Room, moves: int) -> bool:
    """Whether a room is known to have no solution of fewer moves."""
    try:
        return solve(room, room.player, room.boxes, moves - 1) is None
    except InexactError:
        return False


def _empty_room(wish: RoomWish, rng: random.Random) -> Room | None:
    """A room with its boxes on the goals; None where it is too small."""
    rows, columns = wish.rows, wish.columns
    inner = [row * columns + column for row in range(1, rows - 1) for column in range(1, columns - 1)]
    num_walls = round(len(inner) * rng.uniform(*_INNER_WALLS))
    rng.shuffle(inner)
    free = sum(1 << square for square in inner[num_walls:])
    everything = (1 << rows * columns) - 1
    room = Room(rows, columns, everything ^ free, 0, 0, inner[-1])
    inside = reached(room.walls, room.player, room.deltas)
    floor = list(cells_in(inside))
    if len(floor) < 2 * wish.boxes + 2:
        return None
    goals = sum(1 << square for square in rng.sample(floor, wish.boxes))
    return room._replace(walls=everything ^ inside, goals=goals, boxes=goals)


def _layers(room: Room, rng: random.Random) -> Iterator[list[tuple[int, int]]]:
    """The positions, player and boxes, from which the solved room is so many moves away: 0, 1, …"""
    free = list(cells_in(((1 << room.rows * room.columns) - 1) ^ room.walls))
    ways = {
        square: [
            (square - delta, 1 << square - delta, 1 << square + delta, 1 << square | 1 << square + delta)
            for delta in room.deltas
            if not room.walls >> square - delta & 1
        ]
        for square in free
    }
    """By square, for each square that the player may come from: that one, its bit, that of a pulled box, its move."""
    layer = [(square, room.boxes) for square in free if not room.boxes >> square & 1]
    seen = set(layer)
    while layer:
        yield layer
        before: list[tuple[int, int]] = []
        for player, boxes in layer:
            for origin, bit, pulled, change in ways[player]:
                if boxes & bit:
                    continue
                walked = origin, boxes
                if walked not in seen:
                    seen.add(walked)
                    before.append(walked)
                if boxes & pulled:
                    drawn = origin, boxes ^ change
                    if drawn not in seen:
                        seen.add(drawn)
                        before.append(drawn)
        layer = before if len(before) <= _MOST_IN_LAYER else rng.sample(before, _MOST_IN_LAYER)
