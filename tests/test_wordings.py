"""Training in many wordings: which are drawn, who shares them, what records tell, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

import mage
from mage.cli.show import one_trial
from mage.config.load import load_config
from mage.config.wordings import drawn_wording, wordings_of
from mage.credit.running_stats import EMPTY
from mage.errors import ConfigError
from mage.evaluation.splits import load_split, write_split
from mage.files import read_lines
from mage.league.matches import Match, TaskOrigin
from mage.models.vocabulary import words_of
from mage.opponents.search import _solved
from mage.rollout.trial import play_trial
from mage.runs.store import RunReader
from mage.spec import with_parameters
from mage.training import loop
from mage.training.build import draw_tasks
from mage.training.run import create_run_directory, train_run
from mage.training.setup import Setup, set_up
from mage.training.start import check_start
from mage.training.task_replay import PlayedTask, priorities
from mage.training.teacher import teacher_of
from mage.types import Task, Trial
from mage.view.read.safe_world import rules_of
from mage.worlds.openspiel.game import load_game
from mage.worlds.registry import load_world
from tests.test_schedule import everything, lose_a_step, resumed
from tests.tiny import tiny_config, tiny_parts

NUM = 5
MANY = f"population.wordings={NUM}"
SOLO = ("population.members=[]", "agent.memory=history", "credit.estimator=rloo", "credit.options={}")
RUN = ("steps=4", "checkpoint.every=3", "checkpoint.transcripts=1", "alarms.entropy=0.0", "trial.episodes=2")


def drawn(folder: Path, *overrides: str, step: int = 3, num: int = 40) -> list[Match]:
    return set_up(tiny_parts(*overrides), folder).source.draw(step, {"main": num})


def collected(setup: Setup, step: int) -> loop.Collected:
    found = asyncio.run(loop.collect(setup, step, EMPTY))
    setup.source.update(step, found.played)
    return found


def trained(folder: Path, *overrides: str, max_minutes: float | None = None) -> Path:
    create_run_directory(tiny_config(*RUN, MANY, *overrides), folder)
    train_run(folder, Console(quiet=True), max_minutes)
    return folder


def test_each_task_draws_one_of_the_wordings_and_is_otherwise_what_it_was(tmp_path: Path) -> None:
    plain, many = drawn(tmp_path), drawn(tmp_path, MANY)
    assert {match.task.world for match in plain} == {"rps(rounds=2)"}
    assert {match.task.world for match in many} == set(wordings_of("rps(rounds=2)", NUM))
    usual = [match._replace(task=msgspec.structs.replace(match.task, world="rps(rounds=2)")) for match in many]
    assert usual == plain


def test_draws_repeat_and_are_functions_of_the_tasks_seed_alone(tmp_path: Path) -> None:
    assert drawn(tmp_path, MANY) == drawn(tmp_path, MANY)
    assert drawn(tmp_path, MANY, num=7) == drawn(tmp_path, MANY)[:7]
    later = [match.task.world for match in drawn(tmp_path, MANY, step=4)]
    assert later != [match.task.world for match in drawn(tmp_path, MANY)]
    worlds = [drawn_wording("rps", 4, seed) for seed in range(400)]
    assert all(70 < worlds.count(world) < 130 for world in wordings_of("rps", 4)), "all are drawn about as often"


def test_a_schedule_and_a_league_keep_the_wordings(tmp_path: Path) -> None:
    scheduled = drawn(tmp_path, MANY, "schedule.rounds=[[0.0, 3]]")
    assert {match.task.world for match in scheduled} == set(wordings_of("rps(rounds=3)", NUM))
    setup = set_up(tiny_parts(MANY, "league.learners=2", "batch.groups=12", "batch.size=2"), tmp_path)
    found = collected(setup, 0)
    assert len({group.task.world for group in found.groups}) > 2
    assert all(group.trials and not group.failures for group in found.groups)


def test_siblings_share_a_wording_and_replayed_and_resampled_tasks_have_their_own(tmp_path: Path) -> None:
    replay = ("batch.replay=0.25", "batch.groups=8", "batch.dead=resample", "batch.size=2", "trial.episodes=1")
    setup = set_up(tiny_parts(MANY, *replay), tmp_path)
    worlds: dict[int, str] = {}
    origins: set[TaskOrigin] = set()
    for step in range(5):
        for one in collected(setup, step).played:
            task = one.group.task
            assert {trial.task for trial in one.group.trials} == {task}
            assert worlds.setdefault(task.seed, task.world) == task.world
            assert task.world == drawn_wording("rps(rounds=2)", NUM, task.seed)
            origins.add(one.origin)
    assert origins == set(TaskOrigin)


def test_tasks_in_other_words_are_compared_when_they_are_replayed() -> None:
    task = next(draw_tasks(tiny_config(), "tasks"))
    played = [
        PlayedTask(msgspec.structs.replace(task, world=world), score, 2)
        for world, score in zip(wordings_of("rps(rounds=2)", 2), (1.0, -1.0), strict=True)
    ]
    assert priorities(played) == [0.0, 4.0]


@pytest.mark.parametrize(
    "world",
    [
        ("world=rps(rounds=2)",),
        ("world=hidden(doors)", *SOLO),
        ("world=sokoban(boxes=1)", *SOLO, "agent.model=nano(hidden=16,layers=1,heads=2,context=2048)"),
    ],
)
def test_records_tell_the_wording_and_are_shown_in_it(world: Sequence[str], tmp_path: Path) -> None:
    more = ("steps=2", "agent.context=2048") if "sokoban" in world[0] else ()
    folder = trained(tmp_path / "run", *world, *more)
    own = load_config("rps", world).world
    reader, decode = RunReader(folder), tiny_parts(MANY, *world, *more).loaded.chat_format.decode
    worlds: set[str] = set()
    for line in read_lines(folder / "credit.jsonl"):
        trial = reader.trial(line["trial"])
        assert isinstance(trial, Trial)
        task, rules = trial.task, load_world(trial.task.world).rules(trial.task)
        worlds.add(task.world)
        assert task.world in {own, drawn_wording(own, NUM, task.seed)}
        assert task.world != own or not line["trained"], "played for show only"
        told = decode(trial.streams[0]).replace(" ", "")
        assert "".join(words_of(rules)) in told, "the rules in the task's own words"
        assert rules != load_world(own).rules(msgspec.structs.replace(task, world=own)) or task.world == own
        assert rules_of(task) == rules, "as the viewer shows them"
        page = StringIO()
        Console(file=page, width=2000).print(one_trial(reader, line["trial"]))
        assert task.world in page.getvalue()
        assert " ".join(rules.split())[:60] in " ".join(page.getvalue().split())
    assert worlds > {own}


def test_a_run_is_evaluated_and_shown_in_its_own_words(tmp_path: Path) -> None:
    folder = trained(
        tmp_path / "run", 'evaluation.splits=["rps-constants", "rps-reworded"]', "evaluation.final_trials=1"
    )
    shown = [
        RunReader(folder).trial(line["trial"]) for line in read_lines(folder / "credit.jsonl") if not line["trained"]
    ]
    assert {trial.task.world for trial in shown} >= {"rps(rounds=2)"}
    report = mage.evaluate(mage.open_run(folder), trials=1)
    worlds = {load_split(name).world for name in ("rps-constants", "rps-reworded")}
    assert {split.world for split in report.splits.values()} == worlds


@pytest.mark.parametrize(
    "more", [(), ("rollout.lag=1",), ("batch.dead=resample", "batch.replay=0.25", "batch.groups=4")]
)
def test_a_run_that_was_stopped_or_lost_steps_comes_to_the_same_bits(more: Sequence[str], tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole", *more, "steps=5")
    broken = trained(tmp_path / "broken", *more, "steps=5", max_minutes=0)
    lose_a_step(broken)
    resumed(broken)
    assert everything(broken) == everything(whole)
    with pytest.raises(ConfigError, match=r"population\.wordings cannot change in a run that has begun"):
        resumed(broken, steps=7, population__wordings=NUM + 1)


@pytest.mark.parametrize("teacher", ["bayes-optimal", "best-response:cycle(step=1)"])
def test_teachers_play_in_the_words_of_the_task(teacher: str) -> None:
    config = tiny_config(MANY, "agent.memory=history", "trial.episodes=3")
    make = teacher_of(config, teacher)
    (own,) = wordings_of(config.world, 1)
    task = msgspec.structs.replace(next(draw_tasks(config, "tasks")), opponents=("cycle(step=1)",), world=own)
    trial = asyncio.run(play_trial(load_world(own), task, 0, make))
    assert trial.scores[-1] == 1.0 or teacher != "bayes-optimal"
    moves = load_world(own).new_env(task, 0).observe(0).actions
    assert {turn.action for episode in trial.episodes for turn in episode.turns} <= set(moves)


def test_a_model_of_words_knows_all_wordings() -> None:
    tokenizer = tiny_parts("population.wordings=40").loaded.tokenizer
    few = tiny_parts("population.wordings=1").loaded.tokenizer
    words = [word for spec in wordings_of("rps(rounds=2)", 40) for word in _actions(spec)]
    assert tokenizer.unk_token_id not in tokenizer.encode(" ".join(words), add_special_tokens=False)
    assert few.unk_token_id in few.encode(" ".join(words), add_special_tokens=False)


def _actions(spec: str) -> tuple[str, ...]:
    return load_world(spec).new_env(Task(spec, ("uniform",), 0, 0, 1, False, False, 9), 0).observe(0).actions


def test_a_game_is_solved_once_for_all_wordings() -> None:
    before = _solved.cache_info().misses
    for spec in wordings_of("tic_tac_toe", 3):
        load_world(spec).opponent("minimax", Task(spec, ("minimax",), 0, 0, 1, False, False, 9), 1)
    assert _solved.cache_info().misses <= before + 1


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["population.wordings=-1"], "population.wordings"),
        (["population.wordings=2603"], "the wording reworded=2603 is held out by the split 'rps-reworded'; give a"),
        ([MANY, "world=rps(reworded=7)"], r"world = rps\(reworded=7\) has a wording already; leave reworded out of it"),
        ([MANY, "world=rps(2, 7)"], r"world = rps\(2, 7\) has a wording already"),
        ([MANY, "world=leduc_poker", 'population.members=["uniform"]'], "'leduc_poker' cannot be reworded"),
        ([MANY, "world=priced-doors", *SOLO], "unknown parameter 'reworded' in 'priced-doors"),
        ([MANY, "world=hidden(doors)", "population.members=[red]"], "population.wordings = 5: .*red"),
    ],
)
def test_what_cannot_be_reworded_or_is_held_out_is_refused_in_one_line(overrides: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        check_start(tiny_config(*overrides))
    assert "\n" not in str(caught.value)
    assert "population.wordings" in str(caught.value)


def test_a_wording_that_a_split_of_ones_own_holds_out_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    write_split(path, "rps(reworded=4)", ["copy"], held_out=True, kind="reworded")
    evaluated = f'evaluation.splits=["{path}"]'
    check_start(tiny_config("population.wordings=3", evaluated))
    with pytest.raises(ConfigError, match="the wording reworded=4 is held out by the split 'mine'"):
        check_start(tiny_config("population.wordings=4", evaluated))


def test_no_seed_below_a_held_out_one_gives_the_words_of_it() -> None:
    world = load_split("dilemma-reworded").world  # it has the fewest names, three
    below = [with_parameters(world, {"reworded": seed}) for seed in range(1, 2603)]
    assert load_game(world).words.rules(0) not in {load_game(spec).words.rules(0) for spec in below}
