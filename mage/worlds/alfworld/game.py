"""Games of the household as values: rooms with their objects and a goal, commands, and immutable positions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from mage.worlds.alfworld.kinds import Can, Goal

NONE = -1
"""No object, no receptacle, no location."""


class Verb(IntEnum):
    """What a command does; the 15 actions, the start of an episode, and a command that does nothing."""

    START = 0
    NOTHING = 1
    LOOK = 2
    INVENTORY = 3
    HELP = 4
    GO = 5
    OPEN = 6
    CLOSE = 7
    TAKE = 8
    MOVE = 9
    USE = 10
    HEAT = 11
    COOL = 12
    CLEAN = 13
    SLICE = 14
    EXAMINE_PLACE = 15
    EXAMINE_THING = 16


class Command(NamedTuple):
    """A command: what it does, to which object, and at which receptacle; with which object where it slices."""

    verb: Verb
    thing: int = NONE
    place: int = NONE


LOOK, INVENTORY, HELP = Command(Verb.LOOK), Command(Verb.INVENTORY), Command(Verb.HELP)
STARTED, NOTHING = Command(Verb.START), Command(Verb.NOTHING)


class Place(NamedTuple):
    """A receptacle."""

    kind: str
    number: int
    is_openable: bool
    location: int
    """Where an agent stands at it; in ALFWorld's games several may share one."""


class Thing(NamedTuple):
    """An object."""

    kind: str
    number: int
    can: Can
    inside: tuple[int, ...] = ()
    """The objects that are told to be inside where it can hold some; they do not change."""


class Wish(NamedTuple):
    """The goal of a game."""

    goal: Goal
    thing: str
    """The kind of object."""
    place: str
    """The kind of receptacle; of the lamp where the goal is to look."""
    wording: int = 0
    """Which of its two sentences tells it."""
    told: str = ""
    """A sentence of its own, in games from files."""


class Layout(NamedTuple):
    """What there is in a game, in the order in which it is told."""

    places: tuple[Place, ...]
    things: tuple[Thing, ...]
    takes: Mapping[str, frozenset[str]]
    """By kind of receptacle the kinds of objects that can be put there."""


class Start(NamedTuple):
    """How an episode begins."""

    where: tuple[int, ...]
    """By object its receptacle, or `NONE`."""
    location: int = NONE
    opened: int = 0
    """The mask of the open receptacles."""
    located: frozenset[tuple[int, int]] = frozenset()
    """Objects and the locations they are known at; in games from files alone."""
    states: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    """The masks of the objects that are clean, hot, cool, turned on and sliced."""


class Game:
    """A room with its objects and a goal. Games are compared by identity; a world makes each once."""

    def __init__(self, level: str, layout: Layout, start: Start, wish: Wish, *, is_original: bool = False) -> None:
        self.level = level
        self.layout = layout
        self.places, self.things, self.takes = layout
        self.start = start
        self.wish = wish
        self.is_original = is_original
        """Whether it is one of ALFWorld's files, with the peculiarities of its domain: what lies in a closed receptacle
        can be sliced."""

    def __str__(self) -> str:
        return self.level

    @cached_property
    def at_location(self) -> Mapping[int, tuple[int, ...]]:
        """By location the receptacles there."""
        found: dict[int, tuple[int, ...]] = {}
        for number, place in enumerate(self.places):
            found[place.location] = (*found.get(place.location, ()), number)
        return found

    @cached_property
    def wanted(self) -> tuple[int, ...]:
        """The objects of the kind that the goal is about."""
        return tuple(n for n, thing in enumerate(self.things) if thing.kind == self.wish.thing)


class Position(NamedTuple):
    """Where an episode stands; sets of objects and receptacles are masks."""

    where: tuple[int, ...]
    """By object its receptacle, or `NONE` where it is held or nowhere."""
    location: int
    held: int = NONE
    opened: int = 0
    seen: int = 0
    """The receptacles whose contents were told in this episode."""
    clean: int = 0
    hot: int = 0
    cool: int = 0
    used: int = 0
    sliced: int = 0
    located: frozenset[tuple[int, int]] = frozenset()
    left: frozenset[tuple[int, int]] = frozenset()
    """Objects and the receptacles they were taken from; in games from files alone."""
    did: Command = STARTED
    turn: int = 0
    is_done: bool = False
    """Whether the goal is reached."""
