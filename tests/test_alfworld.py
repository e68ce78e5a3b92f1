"""ALFWorld as a world: its contract, what is told and what is not, levels and seeds, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mage.agents.parsing import parse_action
from mage.checks.worlds import check_world
from mage.errors import ConfigError
from mage.protocols import Env
from mage.seeds import stream
from mage.types import Task
from mage.worlds.alfworld.game import NONE
from mage.worlds.alfworld.generate import parse_level
from mage.worlds.alfworld.kinds import HOMES, TAKES
from mage.worlds.alfworld.world import AlfWorld
from mage.worlds.registry import load_world
from tests.test_alfworld_games import LEVEL, walk

SMALL = "alfworld(size=small,turns=10,list_actions=false)"
SPECS = ("alfworld", SMALL, "alfworld(goals=all,rooms=all)", "alfworld(size=small,turns=12,reworded=7)")


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
