"""The tables of the household: which things there are, what can be done with them, where they lie, and what rooms have.

Kinds, abilities and places are those of ALFWorld's domain, with a few of our own where it has too few.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag, StrEnum
from typing import NamedTuple


class Goal(StrEnum):
    """The kinds of goal."""

    PICK = "pick"
    """Put a thing somewhere."""
    LOOK = "look"
    """Hold a thing in the light of a lamp."""
    CLEAN = "clean"
    """Clean a thing and put it somewhere; so with hot and cool."""
    HEAT = "heat"
    COOL = "cool"
    TWO = "two"
    """Put two things of a kind in one place."""


class Can(IntFlag):
    """What can be done with a thing."""

    TAKE = 1
    CLEAN = 2
    HEAT = 4
    COOL = 8
    USE = 16
    """Turn it on: a lamp."""
    SLICE = 32
    CUT = 64
    """Slice other things with it."""
    HOLD = 128
    """Have things inside, which are then shown when it is examined."""


OPENABLE = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe", "wardrobe"})
SINK, MICROWAVE, FRIDGE, LAMP = "sinkbasin", "microwave", "fridge", "desklamp"
STATION = {Goal.CLEAN: SINK, Goal.HEAT: MICROWAVE, Goal.COOL: FRIDGE}
"""Where a thing is cleaned, heated and cooled."""

_ABILITIES = {"c": Can.CLEAN, "h": Can.HEAT, "k": Can.COOL, "s": Can.SLICE, "x": Can.CUT, "o": Can.HOLD}
_TABLES = "countertop diningtable coffeetable sidetable"
_STANDS = f"{_TABLES} desk dresser shelf"
_SMALL = f"{_STANDS} drawer safe sofa armchair ottoman"
_WASH = f"{_TABLES} shelf cabinet drawer garbagecan toilet cart"
_FOOD = f"{_TABLES} fridge garbagecan"
_SEATS = "sofa armchair ottoman footstool"
_PAPER = f"{_TABLES} shelf garbagecan toilet cart"

_THINGS = f"""
alarmclock    : {_STANDS}
apple      chks: {_FOOD} microwave sinkbasin
baseballbat   : {_TABLES} bed wardrobe
basketball    : {_TABLES} desk dresser bed {_SEATS}
book          : {_STANDS} drawer cabinet bed {_SEATS}
boots         : wardrobe shelf footstool
bowl       cko: {_STANDS} cabinet fridge microwave sinkbasin
box        o  : {_STANDS} cabinet wardrobe {_SEATS}
bread      hks: {_FOOD} microwave toaster
butterknife cx: {_TABLES} drawer sinkbasin
candle        : {_STANDS} drawer cabinet toilet cart windowsill
cd            : {_STANDS} drawer cabinet safe garbagecan
cellphone     : {_SMALL} bed
cloth      c  : {_STANDS} drawer cabinet sinkbasin bathtubbasin garbagecan toilet cart laundryhamper wardrobe
creditcard    : {_SMALL}
cup        chko: {_STANDS} cabinet fridge microwave sinkbasin
desklamp      : sidetable desk dresser shelf
dishsponge c  : {_WASH} sinkbasin bathtubbasin
egg        chks: {_FOOD} microwave sinkbasin
fork       c  : {_TABLES} drawer sinkbasin
glassbottle   : {_STANDS} cabinet fridge microwave sinkbasin
handtowel     : {_WASH} sinkbasin bathtubbasin handtowelholder
houseplant    : {_TABLES} dresser windowsill
kettle     c  : {_TABLES} cabinet shelf stoveburner sinkbasin
keychain      : {_SMALL}
knife      cx : {_TABLES} drawer sinkbasin
ladle      c  : {_TABLES} drawer cabinet sinkbasin
laptop        : {_TABLES} desk dresser bed {_SEATS}
lettuce    cks: {_FOOD} sinkbasin
mug        chko: {_STANDS} cabinet fridge microwave sinkbasin coffeemachine cart
newspaper     : {_STANDS} drawer cabinet garbagecan toilet bed {_SEATS}
pan        cko: {_TABLES} cabinet fridge stoveburner sinkbasin
papertowel    : {_PAPER}
papertowelroll: {_PAPER}
pen           : {_STANDS} drawer garbagecan
pencil        : {_STANDS} drawer garbagecan
peppershaker  : {_TABLES} drawer cabinet shelf
pillow        : bed wardrobe {_SEATS}
plate      chko: {_STANDS} cabinet fridge microwave sinkbasin
plunger       : cabinet cart
pot        cko: {_TABLES} cabinet fridge shelf stoveburner sinkbasin
potato     chks: {_FOOD} microwave sinkbasin
remotecontrol : {_STANDS} drawer tvstand {_SEATS}
saltshaker    : {_TABLES} drawer cabinet shelf
scrubbrush    : cabinet cart
soapbar    c  : {_WASH} sinkbasin bathtubbasin
soapbottle    : {_WASH} desk
spatula    c  : {_TABLES} drawer sinkbasin
spoon      c  : {_TABLES} drawer sinkbasin
spraybottle   : {_WASH} desk dresser
statue        : {_STANDS} safe cart windowsill
teddybear     : bed {_SEATS}
tennisracket  : {_TABLES} desk dresser bed wardrobe
tissuebox     : {_STANDS} drawer cabinet garbagecan toilet cart tvstand
toiletpaper   : {_WASH} toiletpaperhanger
toiletpaperroll: {_WASH} toiletpaperhanger
tomato     chks: {_FOOD} microwave sinkbasin
towel         : towelholder laundryhamper wardrobe
vase          : {_STANDS} cabinet safe cart windowsill
watch         : {_STANDS} drawer safe
wateringcan   : {_STANDS} drawer cabinet
winebottle k  : {_STANDS} cabinet fridge garbagecan
"""
"""By kind of thing what can be done with it, in letters, and the receptacles that it may lie in or on."""


class Room(NamedTuple):
    """What a kind of room may have."""

    goals: tuple[Goal, ...]
    full: Mapping[str, tuple[int, int]]
    """By kind of receptacle the least and the most of it."""
    small: Mapping[str, tuple[int, int]]
    things: tuple[str, ...]


def _room(goals: tuple[Goal, ...], full: str, small: str, things: str) -> Room:
    return Room(goals, _counts(full), _counts(small), tuple(things.split()))


def _counts(text: str) -> dict[str, tuple[int, int]]:
    """The counts in a text such as `bed 1-2, desk 0-1, sofa 1`."""
    found: dict[str, tuple[int, int]] = {}
    for part in text.split(","):
        kind, counts = part.split()
        least, _, most = counts.partition("-")
        found[kind] = int(least), int(most or least)
    return found


ROOMS: Mapping[str, Room] = {
    "kitchen": _room(
        (Goal.PICK, Goal.CLEAN, Goal.HEAT, Goal.COOL, Goal.TWO),
        "countertop 1-3, cabinet 2-5, drawer 1-4, fridge 1, microwave 1, sinkbasin 1, stoveburner 1-2, "
        "diningtable 0-1, garbagecan 1, coffeemachine 1, toaster 0-1, shelf 0-2, sidetable 0-1, windowsill 0-1",
        "countertop 1-2, cabinet 1-2, drawer 0-2, fridge 1, microwave 1, sinkbasin 1, diningtable 0-1, shelf 0-1, "
        "garbagecan 0-1, stoveburner 0-1",
        "apple bowl bread butterknife cup dishsponge egg fork glassbottle houseplant kettle knife ladle lettuce mug "
        "pan papertowel papertowelroll peppershaker plate pot potato saltshaker soapbottle spatula spoon tomato vase "
        "winebottle",
    ),
    "bathroom": _room(
        (Goal.PICK, Goal.CLEAN, Goal.TWO),
        "cabinet 1-4, drawer 0-3, sinkbasin 1-2, toilet 1, toiletpaperhanger 1, towelholder 1, handtowelholder 1-2, "
        "garbagecan 1, countertop 0-1, bathtubbasin 0-1, shelf 0-2, cart 0-1, dresser 0-1, laundryhamper 0-1, "
        "windowsill 0-1",
        "cabinet 1-2, drawer 0-2, sinkbasin 1, toilet 1, countertop 0-1, shelf 0-1, garbagecan 0-1, "
        "bathtubbasin 0-1, cart 0-1",
        "candle cloth dishsponge handtowel newspaper plunger scrubbrush soapbar soapbottle spraybottle statue "
        "tissuebox toiletpaper toiletpaperroll towel vase",
    ),
    "livingroom": _room(
        (Goal.PICK, Goal.LOOK, Goal.TWO),
        "sofa 1-2, armchair 1-2, sidetable 1-3, coffeetable 0-2, diningtable 0-1, drawer 0-4, cabinet 0-2, "
        "shelf 0-4, tvstand 0-1, dresser 0-1, desk 0-1, ottoman 0-1, footstool 0-1, garbagecan 1, safe 0-1, "
        "windowsill 0-1",
        "sofa 1, armchair 0-1, sidetable 1-2, coffeetable 0-1, drawer 0-2, cabinet 0-1, shelf 0-2, garbagecan 0-1, "
        "safe 0-1",
        "bowl book box candle cellphone creditcard houseplant keychain laptop newspaper pen pencil pillow plate "
        "remotecontrol statue teddybear tissuebox vase watch wateringcan",
    ),
    "bedroom": _room(
        (Goal.PICK, Goal.LOOK, Goal.TWO),
        "bed 1-2, drawer 1-5, desk 0-2, sidetable 0-2, dresser 0-1, shelf 0-4, safe 0-1, laundryhamper 0-1, "
        "armchair 0-1, garbagecan 1, cabinet 0-2, wardrobe 0-1, footstool 0-1",
        "bed 1, drawer 1-2, desk 0-1, sidetable 0-1, dresser 0-1, shelf 0-1, cabinet 0-1, safe 0-1, "
        "laundryhamper 0-1, wardrobe 0-1",
        "alarmclock baseballbat basketball book boots bowl box cd cellphone cloth creditcard keychain laptop mug "
        "pen pencil pillow remotecontrol statue teddybear tennisracket tissuebox vase watch",
    ),
}


def _tables() -> tuple[dict[str, Can], dict[str, frozenset[str]]]:
    can: dict[str, Can] = {}
    homes: dict[str, frozenset[str]] = {}
    for line in _THINGS.strip().splitlines():
        thing, _, places = line.partition(":")
        kind, *letters = thing.split()
        can[kind] = Can.USE if kind == LAMP else Can.TAKE
        for letter in "".join(letters):
            can[kind] |= _ABILITIES[letter]
        homes[kind] = frozenset(places.split())
    return can, homes


ABILITIES, HOMES = _tables()
"""By kind of thing what can be done with it, and the kinds of receptacle that it may lie in or on."""
TAKES: Mapping[str, frozenset[str]] = {
    place: frozenset(kind for kind, homes in HOMES.items() if place in homes)
    for place in sorted(frozenset[str]().union(*HOMES.values()))
}
"""By kind of receptacle the kinds of thing that may lie in or on it."""
