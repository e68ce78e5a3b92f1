"""Games of ALFWorld: the rules of the household, and what generated games promise."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import product

import pytest

from mage.seeds import stream
from mage.worlds.alfworld.game import NONE, Game, Layout, Position, Start, Thing, Verb
from mage.worlds.alfworld.generate import NUM_ROOMS, NUM_SEEN, Level, Size, make_game, parse_level, room_places
from mage.worlds.alfworld.house_words import HouseWords
from mage.worlds.alfworld.kinds import ABILITIES, HOMES, ROOMS, TAKES, Goal
from mage.worlds.alfworld.rules import after, contents, is_accessible, possible, start_of

LEVEL = "kitchen-12:heat:7"


def walk(game: Game, seed: int, num: int) -> list[Position]:
    """The positions of a random walk."""
    rng, positions = stream(seed, "walk"), [start_of(game)]
    for _ in range(num):
        position = positions[-1]
        positions.append(after(game, position, rng.choice(possible(game, position))))
    return positions


def some_games(size: Size = Size.FULL, numbers: Sequence[int] = (3, 17, 28)) -> list[Game]:
    """A game of every goal in some rooms of every kind."""
    places = [(room, goal) for room, kind in ROOMS.items() for goal in kind.goals]
    return [make_game(Level(room, n, goal, n), size) for (room, goal), n in product(places, numbers)]


def test_there_are_enough_kinds_rooms_and_games() -> None:
    assert len(HOMES) >= 60
    assert len(TAKES) >= 30
    levels = [Level(room, n, goal, n) for room, kind in ROOMS.items() for goal in kind.goals for n in range(1, 31)]
    games = [make_game(level._replace(number=n), Size.FULL) for level in levels for n in range(8)]
    words = HouseWords(None)
    told = {(words.told(game, start_of(game)), game.things, game.start.where) for game in games}
    assert len(told) == len(games) == 3360
    assert {thing.kind for game in games for thing in game.things} == set(HOMES)
    assert {place.kind for game in games for place in game.places} == set(TAKES)


def plain(game: Game) -> tuple[object, ...]:
    """A game in numbers and texts."""
    places = [(place.kind, place.number, place.is_openable) for place in game.places]
    things = [(thing.kind, thing.number, int(thing.can)) for thing in game.things]
    return places, things, game.start.where, str(game.wish.goal), game.wish[1:]


@pytest.mark.parametrize("size", list(Size))
def test_a_game_is_the_same_on_every_machine(size: Size) -> None:
    """What lies where in a game of every goal in every room: a change of this number changes all splits."""
    games = [make_game(Level(r, n, g, 5), size) for r, kind in ROOMS.items() for g in kind.goals for n in range(1, 31)]
    text = repr([(game.level, *plain(game)) for game in games])
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert digest == {Size.FULL: "7d9b691494501e6c", Size.SMALL: "9cbd6b62bc64fe06"}[size]


def test_rooms_to_train_in_and_others_differ() -> None:
    for room, size in product(ROOMS, Size):
        places = room_places(room, size)
        assert len(set(places)) == NUM_ROOMS
        assert not set(places[:NUM_SEEN]) & set(places[NUM_SEEN:])
        bounds = (12, 20) if size is Size.FULL else (6, 8)
        assert all(bounds[0] <= len(kinds) <= bounds[1] for kinds in places)


def test_things_begin_where_they_may_lie_and_not_where_they_are_wanted() -> None:
    for size in Size:
        for game in some_games(size):
            for thing, where in zip(game.things, game.start.where, strict=True):
                assert game.places[where].kind in HOMES[thing.kind]
            wanted = [game.places[game.start.where[thing]].kind for thing in game.wanted]
            assert len(wanted) == (2 if game.wish.goal is Goal.TWO else 1)
            assert game.wish.place not in wanted
            assert not start_of(game).is_done


def test_every_thing_has_one_place_and_hands_hold_one() -> None:
    for number, game in enumerate(some_games(Size.SMALL)):
        for position in walk(game, number, 60):
            nowhere = [thing for thing, where in enumerate(position.where) if where == NONE]
            assert nowhere == ([] if position.held == NONE else [position.held])
            lying = [thing for place in range(len(game.places)) for thing in contents(position, place)]
            assert sorted(lying + nowhere) == list(range(len(game.things)))
            assert not position.hot & position.cool
            assert position.location == NONE or position.location in range(len(game.places))


def test_commands_are_possible_as_the_domain_says() -> None:
    """Each precondition, checked on its own in random positions."""
    for number, game in enumerate(some_games(Size.SMALL, (3, 28))):
        for position in walk(game, number, 40):
            commands = possible(game, position)
            assert len(set(commands)) == len(commands)
            for verb, thing, place in commands:
                here = place == NONE or place == position.location
                if verb is Verb.GO:
                    assert place != position.location
                elif verb in (Verb.TAKE, Verb.MOVE, Verb.USE):
                    assert here
                    assert is_accessible(game, position, place)
                    assert (verb is Verb.MOVE) == (position.held == thing)
                elif verb in (Verb.HEAT, Verb.COOL, Verb.CLEAN):
                    assert here
                    assert position.held == thing
                elif verb in (Verb.OPEN, Verb.CLOSE):
                    assert is_accessible(game, position, place) == (verb is Verb.CLOSE)
                elif verb is Verb.SLICE:
                    assert position.held == place
                    assert position.where[thing] == position.location
            missing = position.held == NONE and position.location != NONE
            if missing and is_accessible(game, position, position.location):
                taken = {command.thing for command in commands if command.verb is Verb.TAKE}
                assert taken == {n for n in contents(position, position.location) if game.things[n].kind != "desklamp"}


def test_a_thing_is_heated_cooled_cleaned_and_sliced() -> None:
    """A knife and an apple on a table, in a room with all that treats them."""
    room = make_game(parse_level(LEVEL), Size.SMALL)
    kinds = [place.kind for place in room.places]
    things = tuple(Thing(kind, 1, ABILITIES[kind]) for kind in ("apple", "knife"))
    start = Start((kinds.index("countertop"),) * 2)
    game = Game("made", Layout(room.places, things, TAKES), start, room.wish)
    words, position, told = HouseWords(None), start_of(game), []
    names = {kind: words.place(game, kinds.index(kind)) for kind in ("countertop", "sinkbasin", "microwave", "fridge")}
    for command in (
        f"go to {names['countertop']}",
        f"take knife 1 from {names['countertop']}",
        "slice apple 1 with knife 1",
        f"move knife 1 to {names['countertop']}",
        f"take apple 1 from {names['countertop']}",
        "examine apple 1",
        f"go to {names['fridge']}",
        f"cool apple 1 with {names['fridge']}",
        "examine apple 1",
        f"go to {names['sinkbasin']}",
        f"clean apple 1 with {names['sinkbasin']}",
        f"go to {names['microwave']}",
        f"heat apple 1 with {names['microwave']}",
        "examine apple 1",
        "inventory",
    ):
        position = after(game, position, words.commands(game, position)[command])
        told.append(words.told(game, position))
    assert (position.hot, position.cool, position.clean, position.sliced) == (1, 0, 1, 1)
    assert told[2] == "You sliced the apple 1 with the knife 1."
    assert told[5] == "This is a sliced apple 1."
    assert told[7] == "You cool the apple 1 using the fridge 1."
    assert told[8] == "This is a cool sliced apple 1."
    assert told[13:] == ["This is a hot and clean sliced apple 1.", "You are carrying: a apple 1."]
