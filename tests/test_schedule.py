"""Schedules of a world's parameters: their values, what is refused, and runs that follow them and are resumed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

import mage
from mage.config.load import load_config, to_toml, validated
from mage.config.schedule import value_at
from mage.config.schema import Config
from mage.credit.running_stats import EMPTY
from mage.errors import ConfigError
from mage.files import read_lines
from mage.league.matches import TaskOrigin
from mage.rollout.trial import play_trial
from mage.runs.store import RunReader, read_info
from mage.training import loop
from mage.training.build import draw_tasks
from mage.training.checkpoint import checkpoints
from mage.training.resume_changes import config_of
from mage.training.run import create_run_directory, train_run
from mage.training.setup import set_up
from mage.training.start import check_start
from mage.training.teacher import teacher_of
from mage.types import Trial
from mage.worlds.registry import WORLDS, load_world
from tests.exact_worlds import Doors
from tests.tiny import MODEL, tiny_config, tiny_parts


class PricedDoors(Doors):
    """Three doors, and a price for leaving that the rules name."""

    def __init__(self, leave: float = 0.5, doors: int = 3) -> None:
        if not 0 <= leave < 1:
            raise ConfigError(f"leave must be from 0 to below 1, not {leave}")
        self.pays = leave
        self.types = doors
        self.leave = "leave" if doors < 9 else "depart"

    def explain(self) -> str:
        return f"Choose a door, or leave for {self.pays:g}."


if "priced-doors" not in WORLDS:
    WORLDS.add("priced-doors", PricedDoors)

DOORS = (
    "world=priced-doors",
    "population.members=[]",
    "agent.memory=history",
    "credit.estimator=rloo",
    "credit.options={}",
    "trial.episodes=2",
    "steps=4",
    "checkpoint.every=3",
    "checkpoint.transcripts=1",
    "alarms.entropy=0.0",
)
JUMP = "schedule.leave=[[0.5,0.0],[0.5,0.5]]"
RAMP = "schedule.leave=[[0.0,0.0],[1.0,0.9]]"


def trained(folder: Path, *overrides: str, max_minutes: float | None = None) -> Path:
    """A run of the doors; with `max_minutes = 0` it is stopped after its first step."""
    create_run_directory(tiny_config(*DOORS, *overrides), folder)
    return resumed(folder, max_minutes)


def resumed(folder: Path, max_minutes: float | None = None, **values: object) -> Path:
    train_run(
        folder,
        Console(quiet=True),
        max_minutes,
        values={key.replace("__", "."): value for key, value in values.items()},
    )
    return folder


def lose_a_step(folder: Path) -> None:
    """Leave a run as a kill before the next checkpoint does: with lines in the logs that no checkpoint knows of."""
    resumed(folder, 0)
    shutil.rmtree(checkpoints(folder / "checkpoints")[-1])


def leaves(folder: Path) -> list[float]:
    return [line["world/leave"] for line in read_lines(folder / "metrics.jsonl") if "world/leave" in line]


def everything(folder: Path) -> dict[str, bytes]:
    """What must be bit-identical at the end of equal runs."""
    logs = [folder / name for name in ("metrics.jsonl", "trials.jsonl", "events.jsonl", "credit.jsonl")]
    newest = checkpoints(folder / "checkpoints")[-1]
    return {str(path.relative_to(folder)): path.read_bytes() for path in (*logs, *newest.iterdir())}


@pytest.mark.parametrize(
    ("points", "share", "before", "at"),
    [
        (((0.5, 0.0), (0.5, 0.5)), 0.49, 0.0, 0.0),
        (((0.5, 0.0), (0.5, 0.5)), 0.5, 0.0, 0.5),
        (((0.2, 1.0), (0.8, -1.0)), 0.1, 1.0, 1.0),
        (((0.2, 1.0), (0.8, -1.0)), 0.35, 0.5, 0.5),
        (((0.2, 1.0), (0.8, -1.0)), 0.9, -1.0, -1.0),
        (((0.0, 0.0), (1.0, 1.0)), 1 / 3, 0.3333, 0.3333),
        (((0.0, 0.0), (1.0, 1 / 3)), 1.0, 1 / 3, 1 / 3),
        (((0.0, 2), (1.0, 5)), 0.45, 3, 3),
        (((0.3, 1.0), (0.3, 2.0), (0.3, 3.0), (1.0, 3.0)), 0.3, 1.0, 3.0),
    ],
)
def test_values_are_linear_between_points_and_jump_where_two_share_a_place(
    points: Any, share: float, before: float, at: float
) -> None:
    found = value_at(points, share, is_before=True), value_at(points, share)
    assert found == (before, at)
    assert {type(value) for value in found} == {type(points[0][1])}


def test_a_schedule_is_overridden_written_and_read_like_other_keys(tmp_path: Path) -> None:
    config = tiny_config(*DOORS, JUMP)
    assert config.schedule == {"leave": ((0.5, 0.0), (0.5, 0.5))}
    assert validated(config.model_dump(mode="json"), "json") == config
    (tmp_path / "a.toml").write_text(to_toml(config), encoding="utf-8")
    assert load_config(str(tmp_path / "a.toml")) == config
    (tmp_path / "b.toml").write_text('world = "rps"\nschedule = { rounds = [[0, 3], [1, 5]] }\n', encoding="utf-8")
    more = load_config(f"{tmp_path}/b.toml", ["schedule.reworded=[[0, 1.5], [1, 2]]"])
    assert more.schedule == {"rounds": ((0.0, 3), (1.0, 5)), "reworded": ((0.0, 1.5), (1.0, 2.0))}
    assert load_config(f"{tmp_path}/b.toml", ["schedule={}"]) == Config(world="rps")


def test_configs_without_a_schedule_are_written_as_before() -> None:
    assert "schedule" not in Config().model_dump(mode="json")
    assert "schedule" not in to_toml(Config())


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("schedule.leave=0.5", r"schedule.leave = 0.5: a schedule is a list of points \[share of training, value\]"),
        ("schedule.leave=[]", "a schedule is a list of points"),
        ("schedule.leave=[0.5, 0.0]", "a schedule is a list of points"),
        ("schedule.leave=[[0.5, true]]", "a schedule is a list of points"),
        ("schedule.leave=[[0.5, nan]]", "a schedule is a list of points"),
        ("schedule.leave=[[0.5, 0.0], [1.5, 0.0]]", "the share of training 1.5 is not from 0 to 1"),
        ("schedule.leave=[[0.5, 0.0], [0.4, 0.0]]", "the share of training falls from 0.5 to 0.4"),
        ("schedule=0.5", "schedule = 0.5: input should be a valid"),
        ("schedule.leave=[[0.5, 0.0], [1, 1.5]]", "schedule, leave = 1.5: leave must be from 0 to below 1, not 1.5"),
        ("schedule.price=[[0.5, 0.0]]", "schedule, price = 0.0: unknown parameter 'price' in 'priced-doors"),
        ("schedule.reworded=[[0.5, 1]]", "schedule.reworded: a wording is not a quantity"),
    ],
)
def test_bad_schedules_are_refused_in_one_line(override: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        check_start(tiny_config(*DOORS, override))
    assert "\n" not in str(caught.value)


def test_opponents_and_seats_must_suit_every_world_of_a_schedule() -> None:
    players = "schedule.players=[[0.5, 2], [0.5, 3]]"
    with pytest.raises(ConfigError, match=r"schedule, players = 3: .* has 3 seats, and .* has another number"):
        check_start(tiny_config("world=kuhn_poker", 'population.members=["uniform"]', players))
    with pytest.raises(ConfigError, match=r"schedule, rounds = 0: "):
        check_start(tiny_config("schedule.rounds=[[0.5, 2], [0.5, 0]]"))


def test_a_run_plays_and_tells_the_scheduled_value_and_is_shown_and_evaluated_at_its_own(tmp_path: Path) -> None:
    own = "priced-doors(leave=0.7)"
    folder = trained(tmp_path / "run", JUMP, f"world={own}")
    assert leaves(folder) == [0.0, 0.0, 0.5, 0.5]
    reader, decode = RunReader(folder), tiny_parts(*DOORS, JUMP, f"world={own}").loaded.chat_format.decode
    worlds: set[str] = set()
    for line in read_lines(folder / "credit.jsonl"):
        trial = reader.trial(line["trial"])
        assert isinstance(trial, Trial)
        worlds.add(trial.task.world)
        price = 0.7 if trial.task.world == own else 0.0 if line["step"] < 2 else 0.5
        assert trial.task.world == f"priced-doors(leave={price})"
        assert not (line["trained"] and price == 0.7), "played for show only"
        told = decode(trial.streams[0]).replace(" ", "")
        assert f"leavefor{price:g}" in told, "the rules are those of the task's world"
        left = [episode.result.returns[0] for episode in trial.episodes if episode.turns[0].action == "leave"]
        assert left == [price] * len(left)
    assert len(worlds) == 3
    report = mage.evaluate(mage.open_run(folder), trials=1)
    assert {split.world for split in report.splits.values()} == {own}


@pytest.mark.parametrize("more", [(RAMP,), (RAMP, "tokens=900"), (JUMP, "batch.dead=resample")])
def test_a_run_that_was_stopped_or_lost_steps_comes_to_the_same_bits(more: Sequence[str], tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole", *more, "steps=5")
    broken = trained(tmp_path / "broken", *more, "steps=5", max_minutes=0)
    lose_a_step(broken)
    resumed(broken)
    assert everything(broken) == everything(whole)
    values = leaves(whole)
    assert len(set(values)) > 1
    if "tokens=900" in more:
        tokens = [line["learner/tokens"] for line in read_lines(whole / "metrics.jsonl") if "learner/tokens" in line]
        assert values == [round(0.9 * sum(tokens[:step]) / 900, 4) for step in range(len(values))]
        assert sum(tokens) >= 900


def test_a_schedule_runs_over_the_new_length_of_a_resumed_run_and_may_change(tmp_path: Path) -> None:
    folder = trained(tmp_path / "run", RAMP)
    assert leaves(folder) == [0.0, 0.3, 0.6, 0.9]
    resumed(folder, steps=7)
    assert leaves(folder) == [0.0, 0.3, 0.6, 0.9, 0.6, 0.75, 0.9]
    resumed(folder, steps=9, schedule__leave=[[0.0, 0.25]])
    assert leaves(folder)[7:] == [0.25, 0.25]
    change = read_info(folder).changes[-1]
    assert (change.step, change.key, change.new) == (7, "schedule.leave", [[0.0, 0.25]])
    with pytest.raises(ConfigError, match="leave must be from 0 to below 1"):
        resumed(folder, steps=12, schedule__leave=[[0.0, 2.0]])


def test_a_schedule_that_a_resumed_run_gives_up_is_gone_for_good(tmp_path: Path) -> None:
    folder = trained(tmp_path / "run", RAMP)
    resumed(folder, steps=5, schedule={})
    assert config_of(folder).schedule == {}
    change = read_info(folder).changes[-1]
    assert (change.step, change.key, change.old, change.new) == (4, "schedule.leave", [[0.0, 0.0], [1.0, 0.9]], None)
    resumed(folder, steps=6)
    assert leaves(folder) == [0.0, 0.3, 0.6, 0.9], "none after that"
    resumed(folder, steps=7, schedule__leave=[[0.0, 0.5]])
    assert leaves(folder)[4:] == [0.5]


def test_replayed_and_resampled_tasks_are_played_at_the_present_value(tmp_path: Path) -> None:
    replay = ("batch.replay=0.25", "batch.groups=8", "batch.dead=resample", "batch.size=2")
    setup = set_up(tiny_parts(*DOORS, JUMP, *replay), tmp_path)
    origins: dict[str, set[TaskOrigin]] = {}
    for step in range(4):
        found = asyncio.run(loop.collect(setup, step, EMPTY))
        for one in found.played:
            assert one.group.task.world == f"priced-doors(leave={0.0 if step < 2 else 0.5})"
            origins.setdefault(one.group.task.world, set()).add(one.origin)
        setup.source.update(step, found.played)
    assert origins["priced-doors(leave=0.5)"] == set(TaskOrigin)


def test_returns_are_those_of_the_world_that_was_played() -> None:
    parts = tiny_parts("schedule.rounds=[[0.5, 1], [0.5, 3]]", "credit.objective=final", "credit.to_go=true")
    (task,) = parts.tasks(1, "tasks")
    assert parts.return_spec(task).turns == 2
    assert parts.return_spec(msgspec.structs.replace(task, world="rps(rounds=3)")).turns == 3


@pytest.mark.parametrize("teacher", ["bayes-optimal", "best-response:cycle(step=1)"])
def test_teachers_play_the_world_of_the_task(teacher: str) -> None:
    config = tiny_config("schedule.rounds=[[0.5, 1], [0.5, 3]]", "agent.memory=history", "trial.episodes=3")
    make = teacher_of(config, teacher)
    task = msgspec.structs.replace(next(draw_tasks(config, "tasks")), opponents=("cycle(step=1)",))
    for world, rounds in (("rps(rounds=1)", 1), ("rps(rounds=3)", 3)):
        trial = asyncio.run(play_trial(load_world(world), msgspec.structs.replace(task, world=world), 0, make))
        assert [len(episode.turns) for episode in trial.episodes] == [2 * rounds] * 3
        assert trial.scores[-1] == 1.0 or teacher != "bayes-optimal"


def test_a_model_of_words_knows_the_actions_of_every_scheduled_world() -> None:
    parts = tiny_parts(*DOORS, "schedule.doors=[[0.5, 3], [0.5, 9]]", f"agent.model={MODEL}")
    tokenizer = parts.loaded.tokenizer
    assert tokenizer.unk_token_id not in tokenizer.encode("leave depart", add_special_tokens=False)
    assert tokenizer.unk_token_id in tokenizer.encode("abscond", add_special_tokens=False)
