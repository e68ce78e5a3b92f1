"""ALFWorld: its players, its splits, games from files, and how it is drawn."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest
from rich.console import Console

from mage.aio import run_sync
from mage.checks.worlds import check_world
from mage.config.load import load_config
from mage.errors import ConfigError, PlayError
from mage.evaluation.eval_agent import load_eval_agent
from mage.evaluation.held_out import avoid_held_out, refuse_held_out
from mage.evaluation.splits import load_split
from mage.opponents.agent_seat import check_seat_agent, seat_agent
from mage.protocols import Agent
from mage.rollout.trial import play_trial
from mage.runs.drawings import drawing_of
from mage.types import Memory, Task, Trial
from mage.worlds.alfworld.generate import TRAINED_GOALS, parse_level
from mage.worlds.alfworld.world import AlfWorld
from mage.worlds.registry import load_world
from tests.alfworld_made import write_games
from tests.test_alfworld import SMALL, task
from tests.test_alfworld_games import LEVEL

REMEMBERING = "expert(remember=true)"


def trial_of(player: str, one: Task) -> Trial:
    def seated(task: Task, sibling: int) -> Agent:
        return seat_agent(load_world(task.world), player, task)

    return run_sync(play_trial(load_world(one.world), one, 0, seated))


def mean(trials: list[Trial], episode: int) -> float:
    return sum(trial.scores[episode] for trial in trials) / len(trials)


@pytest.mark.parametrize("spec", ["alfworld(goals=all,rooms=all)", "alfworld(goals=all,rooms=all,reworded=7)"])
def test_the_expert_does_every_task_in_a_median_of_8_to_20_turns(spec: str) -> None:
    trials = [trial_of("expert", task(spec, seed, episodes=1)) for seed in range(150)]
    assert {trial.scores for trial in trials} == {(1.0,)}
    assert 8 <= median(len(trial.episodes[0].turns) for trial in trials) <= 20


@pytest.mark.slow
def test_the_expert_does_3000_tasks() -> None:
    spec = "alfworld(goals=all,rooms=all)"
    trials = [trial_of("expert", task(spec, seed, episodes=1)) for seed in range(3000)]
    assert {trial.scores for trial in trials} == {(1.0,)}
    assert 8 <= median(len(trial.episodes[0].turns) for trial in trials) <= 20


def test_players_learn_what_their_names_say() -> None:
    spec = "alfworld(size=small,turns=10,goals=all)"
    trials = {
        player: [trial_of(player, task(spec, seed)) for seed in range(60)]
        for player in ("uniform", "expert", REMEMBERING, "learns-from-failure", "oracle")
    }
    assert mean(trials["uniform"], -1) < 0.1
    assert {trial.scores for trial in trials["oracle"]} == {(1.0, 1.0, 1.0)}
    assert mean(trials["expert"], -1) < 0.95, "it remembers nothing"
    assert mean(trials[REMEMBERING], 0) == mean(trials["expert"], 0)
    assert mean(trials[REMEMBERING], -1) == 1.0
    assert mean(trials["learns-from-failure"], 0) < mean(trials["expert"], 0)
    assert mean(trials["learns-from-failure"], -1) > 0.95


def test_the_control_of_a_player_that_remembers_forgets() -> None:
    player, world = load_eval_agent(REMEMBERING, worlds=["alfworld"]), load_world(SMALL)
    tasks = [task(SMALL, seed) for seed in range(40)]
    make_agent = player.make_agent(world, Memory.NONE)
    control = [run_sync(play_trial(world, one, 0, make_agent)) for one in tasks]
    assert mean(control, -1) < 0.95 < mean([trial_of(REMEMBERING, one) for one in tasks], -1)


def test_players_without_an_oracle_know_only_what_was_shown() -> None:
    """What they do is the same where what they did not see lies elsewhere: they are given observations and no more."""
    world = load_world("alfworld")
    assert isinstance(world, AlfWorld)
    for player in ("expert", REMEMBERING, "learns-from-failure"):
        seen = world.new_env(task(level=LEVEL), 0).observe(0)
        chosen = {
            asyncio.run(world.opponent(player, task(seed=5, level=level), 0).act(seen)).action
            for level in (LEVEL, "bedroom-3:pick:1")
        }
        assert len(chosen) == 1


def test_an_oracle_in_another_game_says_so() -> None:
    world = load_world("alfworld")
    seen = world.new_env(task(level=LEVEL), 0).observe(0)
    with pytest.raises(PlayError, match="the oracle knows the game bedroom-3:pick:1, and this is another"):
        asyncio.run(world.opponent("oracle", task(level="bedroom-3:pick:1"), 0).act(seen))


def test_a_thing_that_is_not_wanted_is_put_down() -> None:
    world = load_world("alfworld(size=small)")
    env = world.new_env(task("alfworld(size=small)", level=LEVEL), 0)
    for command in ("go to diningtable 1", "take winebottle 1 from diningtable 1"):
        env.step(command)
    player = world.opponent("expert", task("alfworld(size=small)", level=LEVEL), 0)
    while env.to_move() is not None:
        env.step(asyncio.run(player.act(env.observe(0))).action)
    assert env.result().returns == (1.0,)


def test_other_players_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match="uniform, expert, learns-from-failure, oracle and models play"):
        check_seat_agent(load_world("alfworld"), "copy", 0)
    with pytest.raises(ConfigError, match="remember must be true or false, not 1"):
        check_seat_agent(load_world("alfworld"), "expert(remember=1)", 0)


@pytest.mark.parametrize("name", ["alfworld", "alfworld-small"])
def test_splits_have_rooms_and_goals_of_their_own(name: str) -> None:
    parts = ("seen", "unseen-rooms", "unseen-goals", "reworded")
    seen, rooms, goals, reworded = (load_split(f"{name}-{part}") for part in parts)
    levels = [[parse_level(member) for member in split.members] for split in (seen, rooms, goals, reworded)]
    assert {level.goal for level in levels[0]} == {level.goal for level in levels[1]} == set(TRAINED_GOALS)
    assert {level.goal for level in levels[2]} == {"cool", "two"}
    assert max(level.room_number for level in levels[0]) <= 24 < min(level.room_number for level in levels[1])
    assert set(levels[3]) <= set(levels[0])
    assert [len(split.members) for split in (seen, rooms, goals, reworded)] == [160, 80, 80, 40]
    oracle = [trial_of("oracle", task(seen.world, level=level, episodes=1)) for level in seen.members[::8]]
    assert {trial.scores for trial in oracle} == {(1.0,)}


def test_training_is_kept_from_held_out_games() -> None:
    unseen = load_split("alfworld-unseen-rooms").members
    refuse_held_out("alfworld", load_split("alfworld-seen").members)
    refuse_held_out("alfworld(size=small)", ())
    with pytest.raises(ConfigError, match=r"is held out by the split 'alfworld-(small-)?unseen-rooms'"):
        refuse_held_out("alfworld(turns=30)", unseen[:1])
    with pytest.raises(ConfigError, match="its wording is held out by the split 'alfworld-reworded'"):
        refuse_held_out("alfworld(reworded=2603)", ())
    config = load_config("doors", ["world=alfworld(goals=all,rooms=all)"])
    given = task("alfworld(goals=all,rooms=all)", seed=3)
    assert avoid_held_out(config, given) == given


def test_games_from_files_are_played_by_our_engine(tmp_path: Path) -> None:
    levels = [
        "bedroom-3:pick:1",
        "livingroom-2:look:4",
        "bathroom-5:clean:2",
        LEVEL,
        "kitchen-26:cool:3",
        "kitchen-12:two:5",
    ]
    write_games(tmp_path / "train", levels, at_one_place=2)
    spec = f'alfworld(games="{tmp_path}")'
    report = check_world(spec, range(3))
    assert all(level.startswith("train:") and level.endswith(":trial_1") for level in report.levels)
    world = load_world(spec)
    assert isinstance(world, AlfWorld)
    drawn = {world.drawn_level(task(spec, seed)) for seed in range(100)}
    assert len(drawn) == len(levels)
    for level in sorted(drawn):
        for player in ("expert", "oracle"):
            assert trial_of(player, task(spec, level=level)).scores == (1.0, 1.0, 1.0)
    heated = next(level for level in drawn if "heat" in level)
    usual = load_world("alfworld(size=small)").new_env(task(level=LEVEL), 0).observe(0)
    assert world.new_env(task(spec, level=heated), 0).observe(0).text == usual.text
    with pytest.raises(ConfigError, match="unknown level 'attic'; known are 6, such as train:"):
        world.check_level("attic")


def test_files_that_are_no_games_are_refused_in_one_line(tmp_path: Path) -> None:
    write_games(tmp_path / "whole", [LEVEL])
    data: dict[str, Any] = json.loads(next(tmp_path.rglob("game.tw-pddl")).read_text())
    sliced = data["pddl_problem"].replace("(isHot ?o)", "(isSliced ?o)")
    broken = (
        ("no json", "JSONDecodeError"),
        ("{}", "KeyError 'pddl_problem'"),
        (json.dumps({**data, "pddl_problem": "((("}), "is none of ALFWorld's"),
        (json.dumps({**data, "pddl_problem": sliced}), "its goal is none of the six"),
    )
    for number, (content, why) in enumerate(broken):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "game.tw-pddl").write_text(content)
        spec = f'alfworld(games="{folder}")'
        with pytest.raises(ConfigError, match=why) as caught:
            load_world(spec).new_env(task(spec), 0)
        assert "\n" not in str(caught.value)


def test_the_terminal_shows_the_task_and_what_was_seen() -> None:
    spec = "alfworld(size=small)"
    env = load_world(spec).new_env(task(spec, level=LEVEL), 0)
    env.step("go to diningtable 1")
    console = Console(width=100, record=True)
    with console.capture() as captured:
        drawn = drawing_of(spec).position(env.observe(0))
        assert drawn is not None
        console.print(drawn)
    text = captured.get()
    assert "Task: put a hot plate in sinkbasin." in text
    assert "At diningtable 1, carrying nothing. Turns left: 49." in text
    assert "diningtable 1: papertowelroll 1, winebottle 1" in text
    assert "fridge" not in text, "it was not looked into"


def test_recorded_trials_read_back(tmp_path: Path) -> None:
    trial = trial_of("learns-from-failure", task(SMALL, 3))
    assert msgspec.json.decode(msgspec.json.encode(trial), type=Trial) == trial
