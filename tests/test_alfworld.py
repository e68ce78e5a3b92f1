"""ALFWorld: its rules, what generated games promise, what is told, and what is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import product

import pytest

from mage.agents.parsing import parse_action
from mage.checks.worlds import check_world
from mage.errors import ConfigError
from mage.protocols import Env
from mage.seeds import stream
from mage.types import Task
from mage.worlds.alfworld.game import NONE, Game, Layout, Position, Start, Thing, Verb
from mage.worlds.alfworld.generate import NUM_ROOMS, NUM_SEEN, Level, Size, make_game, parse_level, room_places
from mage.worlds.alfworld.house_words import HouseWords
from mage.worlds.alfworld.kinds import ABILITIES, HOMES, ROOMS, TAKES, Goal
from mage.worlds.alfworld.rules import after, contents, is_accessible, possible, start_of
from mage.worlds.alfworld.world import AlfWorld
from mage.worlds.registry import load_world

SMALL = "alfworld(size=small,turns=10,list_actions=false)"
SPECS = ("alfworld", SMALL, "alfworld(goals=all,rooms=all)", "alfworld(size=small,turns=12,reworded=7)")
LEVEL = "kitchen-12:heat:7"


def task(world: str = "alfworld", seed: int = 0, level: str = "", episodes: int = 3) -> Task:
    return Task(world, (), 0, seed, episodes, False, False, 1000, level)


def world_of(spec: str = "alfworld") -> AlfWorld:
    world = load_world(spec)
    assert isinstance(world, AlfWorld)
    return world


def played(commands: Sequence[str], level: str = LEVEL, spec: str = "alfworld(size=small)") -> Env:
    env = load_world(spec).new_env(task(spec, level=level), 0)
    for command in commands:
        env.step(command)
    return env


def answers(commands: Sequence[str], level: str = LEVEL) -> list[str]:
    env = played((), level)
    told = []
    for command in commands:
        env.step(command)
        told.append(env.observe(0).text)
    return told


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


@pytest.mark.parametrize("spec", [*SPECS, "alfworld(goals=[cool,two],rooms=unseen)"])
def test_the_contract_of_worlds(spec: str) -> None:
    report = check_world(spec, range(2), levels=["bedroom-30:look:0"])
    assert (report.info.lowest, report.info.highest, report.info.num_seats) == (0.0, 1.0, 1)


def test_the_contract_where_any_text_is_a_command() -> None:
    spec = "alfworld(admissible=false,size=small)"
    check_world(spec, range(2), texts=["look", "go to fridge 1", "fly to the moon"])
    env = played(["fly to the moon"], spec=spec)
    assert env.observe(0).text == "Nothing happens."
    assert load_world(spec).info.has_open_actions
    assert "Nothing happens." in load_world(spec).rules(task(spec))


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


def test_the_wording_is_that_of_alfworld() -> None:
    first = played(()).observe(0).text
    assert first.startswith("You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a ")
    assert ", a shelf 1, and a sinkbasin 1.\n\nYour task is to: put a hot plate in sinkbasin." in first
    commands = [
        "inventory",
        "look",
        "go to fridge 1",
        "open fridge 1",
        "close fridge 1",
        "examine fridge 1",
        "look",
    ]
    told = answers(commands)
    assert told[0] == "You are not carrying anything."
    assert told[1] == first.partition("\n")[0]
    assert told[2] == "You arrive at fridge 1. The fridge 1 is closed."
    assert told[3].startswith("You open the fridge 1. The fridge 1 is open. In it, you see ")
    assert told[4:] == [
        "You close the fridge 1.",
        "The fridge 1 is closed.",
        "You are facing the fridge 1. Next to it, you see nothing.",
    ]


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


@pytest.mark.parametrize("spec", SPECS)
def test_what_was_not_seen_may_lie_anywhere_else(spec: str) -> None:
    """Things that change places without having been seen change nothing that is told, offered or known."""
    world, num_moved = world_of(spec), 0
    for seed in range(25):
        game, rng = world.draw(task(spec, seed)), stream(seed, "hidden")
        for position in walk(game, seed, 12):
            unseen = [
                thing for thing, where in enumerate(position.where) if where != NONE and not position.seen >> where & 1
            ]
            places = [place for place in range(len(game.places)) if not position.seen >> place & 1]
            if not unseen or position.is_done:
                continue
            where = list(position.where)
            for thing in unseen:
                where[thing] = rng.choice(places)
            other = position._replace(where=tuple(where))
            num_moved += other != position
            assert world.tell(game, other) == world.tell(game, position)
            assert world.actions(game, other) == world.actions(game, position)
            assert world.facts(game, other) == world.facts(game, position)
    assert num_moved > 100


@pytest.mark.parametrize("spec", SPECS)
def test_text_reads_back_as_the_command_that_was_meant(spec: str) -> None:
    env, rng = load_world(spec).new_env(task(spec, 4), 0), stream(4, "commands")
    while env.to_move() is not None:
        actions = env.observe(0).actions
        assert list(actions) == sorted(actions)
        for action in actions:
            assert parse_action(f"I go. <action> {action.upper()} </action>", actions).action == action
        env.step(rng.choice(actions))


@pytest.mark.parametrize("spec", SPECS)
def test_a_game_is_the_same_in_every_episode_and_for_every_seed_of_its_level(spec: str) -> None:
    world = world_of(spec)
    for seed in range(4):
        first, later = (world.new_env(task(spec, seed), episode).observe(0) for episode in (0, 2))
        other = world.new_env(task(spec, seed + 1000, world.drawn_level(task(spec, seed))), 0).observe(0)
        assert (first.text, first.actions, first.facts) == (later.text, later.actions, later.facts)
        assert first == other


def test_seeds_draw_the_goals_and_rooms_that_are_asked_for() -> None:
    for spec, goals, rooms in (
        ("alfworld", {"pick", "look", "clean", "heat"}, range(1, 25)),
        ("alfworld(goals=new,rooms=unseen)", {"cool", "two"}, range(25, 31)),
        ("alfworld(goals=[look,two],rooms=all)", {"look", "two"}, range(1, 31)),
    ):
        levels = [parse_level(world_of(spec).drawn_level(task(spec, seed))) for seed in range(150)]
        assert {str(level.goal) for level in levels} == goals
        assert {level.room_number for level in levels} <= set(rooms)
        assert len(set(levels)) == 150


def test_the_end_says_whether_the_task_is_done() -> None:
    spec = "alfworld(size=small,turns=4,goals=look)"
    env = load_world(spec).new_env(task(spec), 0)
    for _ in range(4):
        assert env.step("look") == (0.0,)
    result = env.result()
    assert (result.returns, result.successes) == ((0.0,), (False,))
    assert result.outcomes[0].endswith("\nNo turns are left, and the task is not done: 0.")


def test_reworded_games_have_other_words_for_the_same_play() -> None:
    spec = "alfworld(size=small,reworded=7)"
    verbs = {"open", "close", "take", "use", "heat", "cool", "clean", "slice", "go", "look", "examine", "help"}
    usual_words = {*HOMES, *TAKES, *verbs, "hot", "cold", "closed", "sliced"}
    other_world, rng = load_world(spec), stream(0, "commands")
    said = f"{other_world.rules(task(spec))} {other_world.info.reflect} {other_world.info.trial}"
    assert not usual_words & set(said.replace(",", " ").replace(".", " ").split())
    for seed in range(6):
        envs = [load_world(name).new_env(task(name, seed), 0) for name in ("alfworld(size=small)", spec)]
        while envs[0].to_move() is not None:
            usual, other = (env.observe(0) for env in envs)
            assert len(usual.actions) == len(other.actions)
            words = {word.strip(".,:") for text in (other.text, *other.actions) for word in text.split()}
            assert not usual_words & words, other.text
            named = world_of(spec)._words, world_of("alfworld(size=small)")._words
            command = rng.choice(usual.actions)
            game, position = envs[0]._hidden, envs[0]._position  # type: ignore[attr-defined]
            meant = named[1].commands(game, position)[command]
            envs[0].step(command)
            envs[1].step(next(text for text, each in named[0].commands(game, position).items() if each == meant))


@pytest.mark.parametrize(
    "level",
    [
        "",
        "kitchen",
        "kitchen-31:heat:1",
        "kitchen-0:heat:1",
        "attic-1:pick:1",
        "bedroom-1:heat:1",
        "bedroom-1:pick:10000",
    ],
)
def test_levels_that_are_none_are_refused_in_one_line(level: str) -> None:
    with pytest.raises(ConfigError, match=r"is no level; one is ROOM-NUMBER:GOAL:NUMBER") as caught:
        load_world("alfworld").check_level(level)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("alfworld(size=huge)", "size must be one of full, small, not huge"),
        ("alfworld(turns=3)", "turns must be a whole number from 4 to 1000, not 3"),
        ("alfworld(goals=fly)", "goals must be one of all, clean, cool, heat, look, new, pick, trained, two, not fly"),
        ("alfworld(goals=[pick,1])", "not 1"),
        ("alfworld(goals=[])", "goals must have at least one goal"),
        ("alfworld(rooms=3)", "rooms must be one of all, seen, unseen, not 3"),
        ("alfworld(admissible=1)", "admissible must be true or false, not 1"),
        ("alfworld(list_actions=no)", "list_actions must be true or false, not no"),
        ("alfworld(reworded=x)", "reworded must be a whole number"),
        ("alfworld(goals=two,turns=5)", "none of 1000 games (two) can be done in 5 turns"),
        ("alfworld(engine=package)", "engine = package plays ALFWorld's own games; name their folder with games"),
        ("alfworld(engine=fast)", "engine must be one of own, package, not fast"),
        ("alfworld(games=3)", "games must be a folder, not 3"),
        ('alfworld(games="/nowhere")', "games = '/nowhere' has no game.tw-pddl"),
        ("alfworld(place=1)", "unknown parameter 'place'"),
    ],
)
def test_specs_that_cannot_be_played_are_refused_in_one_line(spec: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_world(spec)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
