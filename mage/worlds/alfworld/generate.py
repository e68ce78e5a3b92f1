"""Generated games: rooms by kind and number, and games in them by goal and number, the same on every machine."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from mage.errors import ConfigError, listing
from mage.seeds import stream
from mage.worlds.alfworld.game import Game, Layout, Place, Start, Thing, Wish
from mage.worlds.alfworld.kinds import ABILITIES, HOMES, LAMP, OPENABLE, ROOMS, STATION, TAKES, Can, Goal

NUM_ROOMS, NUM_SEEN = 30, 24
"""Rooms of each kind, and how many of them are to train in; the others are for evaluation."""
TRAINED_GOALS = (Goal.PICK, Goal.LOOK, Goal.CLEAN, Goal.HEAT)
"""The goals that the papers train; they evaluate on all six."""
MAX_NUMBER = 9999
"""The largest number of a game of one goal in one room."""
_LEVEL = re.compile(r"([a-z]+)-([1-9]\d?):([a-z]+):(0|[1-9]\d{0,3})", re.ASCII)
_SEED = 2603
_MOST_DRAWS = 100_000
_NEEDS = {Goal.CLEAN: Can.CLEAN, Goal.HEAT: Can.HEAT, Goal.COOL: Can.COOL}


class Size(StrEnum):
    """How much there is in a room."""

    FULL = "full"
    SMALL = "small"


class _Bounds(NamedTuple):
    """The least and the most of receptacles in a room, of kinds of objects in a game, and of objects of a kind."""

    places: tuple[int, int]
    kinds: tuple[int, int]
    alike: int


_SIZES = {Size.FULL: _Bounds((12, 20), (12, 16), 3), Size.SMALL: _Bounds((6, 8), (5, 7), 1)}


class Level(NamedTuple):
    """What a generated game is known by."""

    room: str
    """The kind of the room."""
    room_number: int
    goal: Goal
    number: int

    def __str__(self) -> str:
        return f"{self.room}-{self.room_number}:{self.goal}:{self.number}"


def parse_level(text: str) -> Level:
    """The level of a text; a `ConfigError` where it is none.

    >>> parse_level("kitchen-12:heat:7") == Level("kitchen", 12, Goal.HEAT, 7)
    True
    """
    found = _LEVEL.fullmatch(text)
    if (
        not found
        or found[1] not in ROOMS
        or not 1 <= int(found[2]) <= NUM_ROOMS
        or found[3] not in ROOMS[found[1]].goals
    ):
        goals = "; ".join(f"{room}: {listing(list(kind.goals))}" for room, kind in ROOMS.items())
        raise ConfigError(
            f"{text!r} is no level; one is ROOM-NUMBER:GOAL:NUMBER, such as kitchen-12:heat:7, with rooms from 1 to "
            f"{NUM_ROOMS}, games from 0 to {MAX_NUMBER} and these goals: {goals}"
        )
    return Level(found[1], int(found[2]), Goal(found[3]), int(found[4]))


def draw_level(goals: Sequence[Goal], room_numbers: Sequence[int], rng: random.Random) -> Level:
    """A random level: every goal is equally likely, then every kind of room that has it, then every room and game."""
    goal = rng.choice(goals)
    room = rng.choice([name for name, kind in ROOMS.items() if goal in kind.goals])
    return Level(room, rng.choice(room_numbers), goal, rng.randint(0, MAX_NUMBER))


class GeneratedGames(NamedTuple):
    """Where the games of a world come from: which are drawn, and in rooms of which size."""

    size: Size
    goals: tuple[Goal, ...]
    room_numbers: Sequence[int]

    def draw(self, seed: int) -> str:
        """A random level."""
        return str(draw_level(self.goals, self.room_numbers, stream(seed, "alfworld")))

    def make(self, level: str) -> Game:
        """The game of a level."""
        return make_game(parse_level(level), self.size)


def make_game(level: Level, size: Size) -> Game:
    """The game of a level in rooms of a size: no wanted object begins where it is wanted."""
    places = _numbered_places(room_places(level.room, size)[level.room_number - 1])
    kinds = [place.kind for place in places]
    rng = stream(_SEED, "alfworld game", size, str(level))
    thing, target = rng.choice(_choices(level.room, level.goal, kinds))
    wish = Wish(level.goal, thing, target, rng.randrange(2))
    num_wanted = 2 if level.goal is Goal.TWO else 1
    drawn = [(thing, _draw_place(thing, places, rng, target)) for _ in range(num_wanted)]
    others = [kind for kind in ROOMS[level.room].things if kind != thing and HOMES[kind] & set(kinds)]
    bounds = _SIZES[size]
    for kind in rng.sample(others, min(len(others), rng.randint(*bounds.kinds))):
        drawn += [(kind, _draw_place(kind, places, rng)) for _ in range(rng.randint(1, bounds.alike))]
    if HOMES[LAMP] & set(kinds) and Goal.LOOK in ROOMS[level.room].goals:
        drawn.append((LAMP, _draw_place(LAMP, places, rng)))
    drawn.sort(key=lambda each: each[0])
    things = _numbered_things([kind for kind, _ in drawn])
    return Game(str(level), Layout(places, things, TAKES), Start(tuple(place for _, place in drawn)), wish)


@cache
def room_places(room: str, size: Size) -> tuple[tuple[str, ...], ...]:
    """The kinds of receptacles in each room of a kind; no two rooms have the same."""
    bounds = _SIZES[size].places
    counts = ROOMS[room].full if size is Size.FULL else ROOMS[room].small
    found: dict[tuple[str, ...], None] = {}
    rng = stream(_SEED, "alfworld rooms", size, room)
    for _ in range(_MOST_DRAWS):
        drawn = {kind: rng.randint(least, most) for kind, (least, most) in counts.items()}
        kinds = tuple(kind for kind in sorted(drawn) for _ in range(drawn[kind]))
        if bounds[0] <= len(kinds) <= bounds[1] and _has_all_goals(room, kinds):
            found[kinds] = None
        if len(found) == NUM_ROOMS:
            return tuple(found)
    raise AssertionError(f"too few rooms: {room}, {size}")


def _has_all_goals(room: str, places: Sequence[str]) -> bool:
    return all(_choices(room, goal, places) for goal in ROOMS[room].goals)


def _choices(room: str, goal: Goal, places: Sequence[str]) -> list[tuple[str, str]]:
    """The kinds of object and receptacle that a goal may be about: the object has another place to begin in."""
    kinds = set(places)
    things = [kind for kind in ROOMS[room].things if goal not in _NEEDS or ABILITIES[kind] & _NEEDS[goal]]
    if goal is Goal.LOOK:
        has_light = bool(HOMES[LAMP] & kinds)
        return [(kind, LAMP) for kind in things if has_light and HOMES[kind] & kinds]
    return [
        (kind, place)
        for kind in things
        for place in sorted(HOMES[kind] & kinds)
        if HOMES[kind] & kinds - {place} and place != STATION.get(goal)
    ]


def _numbered_places(kinds: Sequence[str]) -> tuple[Place, ...]:
    """The receptacles of a room in the order in which ALFWorld tells them: of a kind, the highest number first."""
    left = {kind: kinds.count(kind) for kind in kinds}
    found = []
    for location, kind in enumerate(kinds):
        found.append(Place(kind, left[kind], kind in OPENABLE, location))
        left[kind] -= 1
    return tuple(found)


def _draw_place(kind: str, places: Sequence[Place], rng: random.Random, without: str = "") -> int:
    """A receptacle that an object may lie in or on, of another kind than `without`."""
    return rng.choice([n for n, place in enumerate(places) if place.kind in HOMES[kind] and place.kind != without])


def _numbered_things(kinds: Sequence[str]) -> tuple[Thing, ...]:
    left = {kind: kinds.count(kind) for kind in kinds}
    found = []
    for kind in kinds:
        found.append(Thing(kind, left[kind], ABILITIES[kind]))
        left[kind] -= 1
    return tuple(found)
