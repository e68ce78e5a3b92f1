"""Ways of choosing tasks with one learner and with several: each does what it says and is resumed to the same bits."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from rich.console import Console

from mage.config.schema import Config
from mage.credit.dead_groups import is_dead
from mage.credit.running_stats import EMPTY
from mage.errors import ConfigError
from mage.files import count_lines, read_lines
from mage.league.matches import TaskOrigin
from mage.training import loop
from mage.training.checkpoint import checkpoints, read_state
from mage.training.loop import Collected
from mage.training.run import create_run_directory, train_run
from mage.training.setup import Setup, set_up
from mage.training.start import check_start
from mage.types import DeadGroups, Sample
from tests.processes import Mage, when
from tests.tiny import tiny_config, tiny_parts

LEAGUE = (
    "league.learners=2",
    "league.snapshot_every=2",
    "league.snapshots=2",
    "league.exploit_every=3",
    'league.explore=["learner.lr"]',
    "batch.groups=8",
)
HARD = ("population.sampler=prioritised", 'population.options={kind="hard"}', "population.half_life=8")
TUTORED = (
    "agent.memory=reflections",
    "agent.reflection_tokens=3",
    r"agent.tutor=opponent (\w+)",
    "agent.tutor_steps=2",
)
SCHEDULE = "schedule.rounds=[[0.0, 1], [1.0, 3]]"
REPLAY, RESAMPLE = "batch.replay=0.25", "batch.dead=resample"
COMBINATIONS = {
    "prioritised": HARD,
    "prioritised, replay, resample": (*HARD, REPLAY, RESAMPLE, SCHEDULE, "batch.groups=4"),
    "prioritised, tutor": (*HARD, *TUTORED),
    "league, replay": (*LEAGUE, REPLAY),
    "league, resample": (*LEAGUE, RESAMPLE, "batch.size=2"),
    "league, tutor": (*LEAGUE, *TUTORED),
    "league, everything": (*LEAGUE, *HARD, *TUTORED, REPLAY, RESAMPLE, SCHEDULE, "batch.size=2"),
    "adapters, replay, resample": (*LEAGUE, REPLAY, RESAMPLE, "batch.size=2", "learner.lora_rank=2"),
}


def setup_of(folder: Path, *overrides: str) -> Setup:
    setup = set_up(tiny_parts(*overrides), folder)
    asyncio.run(setup.learners.prepare(0))
    return setup


def collected(setup: Setup, step: int) -> Collected:
    found = asyncio.run(loop.collect(setup, step, EMPTY))
    setup.source.update(step, found.played)
    return found


def test_a_league_replays_each_learner_s_tasks_with_continued_siblings(tmp_path: Path) -> None:
    setup = setup_of(tmp_path, *LEAGUE, REPLAY)
    seen: set[tuple[str, int]] = set()
    again: Counter[str] = Counter()
    for step in range(5):
        for one in collected(setup, step).played:
            if not one.is_drawn:
                continue
            siblings = [trial.sibling for trial in one.group.trials]
            is_again = (one.learner, one.group.task.seed) in seen
            assert is_again == (one.origin is TaskOrigin.REPLAYED) == (siblings[0] > 0)
            assert siblings == list(range(siblings[0], siblings[0] + 4))
            again[one.learner] += is_again
            seen.add((one.learner, one.group.task.seed))
    assert min(again["learner-0"], again["learner-1"]) > 0


@pytest.mark.parametrize("rule", DeadGroups)
def test_a_league_resamples_the_dead_groups_of_each_learner_where_asked_for(rule: DeadGroups, tmp_path: Path) -> None:
    setup = setup_of(tmp_path, *LEAGUE, "batch.size=2", "batch.groups=48", f"batch.dead={rule}", "credit.options={}")
    found = collected(setup, 0)
    origins = [one.origin for one in found.played]
    first = origins.index(TaskOrigin.REPLACEMENT) if TaskOrigin.REPLACEMENT in origins else len(origins)
    drawn = zip(found.played[:first], found.advantages[:first], strict=True)
    dead = Counter(one.learner for one, advantages in drawn if one.is_drawn and is_dead(advantages))
    more = Counter(one.learner for one in found.played[first:] if one.is_drawn)
    assert dead.total() > 0
    assert more == (dead if rule is DeadGroups.RESAMPLE else Counter())
    assert len({one.group.task.seed for one in found.played if one.is_drawn}) == 48 + more.total()
    for name in setup.learners.names:
        metrics = loop.metrics_of(setup.parts, found.of(name).played)
        assert metrics["groups/replacements"] == more[name]


def test_a_tutor_keeps_the_notes_of_a_league_s_learners(tmp_path: Path) -> None:
    rocks = ('population.members=["always:rock"]', "population.options={share=0.9}", "trial.episodes=3")
    setup = setup_of(tmp_path, *LEAGUE, *TUTORED, *rocks)
    for step, is_tutored in ((0, True), (1, True), (2, False)):
        played = [one for one in collected(setup, step).played if one.opponents == ("always:rock",)]
        assert {one.learner for one in played} == {"learner-0", "learner-1"}
        for trial in (trial for one in played for trial in one.group.trials):
            told = setup.parts.loaded.chat_format.decode(trial.streams[-1])
            notes = told.split("Your notes")[1].split("Episode 3")[0]
            assert (notes.count("rock") == 2) == is_tutored


def test_notes_of_a_league_s_learners_have_no_advantage_while_the_tutor_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, tutored = loop.to_batch, []

    def listening(*args: Any) -> list[Sample]:
        tutored.append(list(args[4]) == list(args[3]))
        return honest(*args)

    monkeypatch.setattr(loop, "to_batch", listening)
    create_run_directory(tiny_config(*LEAGUE, *TUTORED, "batch.dead=keep", "steps=3"), tmp_path / "run")
    train_run(tmp_path / "run", Console(quiet=True))
    assert tutored == [True] * 4 + [False] * 2, "two learners in each of three steps"


def test_what_cannot_go_together_is_refused_in_one_place() -> None:
    refused = {
        ("population.sampler=anchored",): "without a league all members are anchors; uniform draws them alike",
        (*HARD, "credit.estimator=cloning"): "a teacher's scores do not show which opponents the agent fails",
        (*LEAGUE, "credit.estimator=cloning"): "league.learners = 2: a teacher plays with credit.estimator = cloning",
        (*LEAGUE, "batch.groups=5"): "batch.groups = 5: must be a multiple of league.learners = 2",
        ("population.sampler=best",): "unknown sampler 'best'",
        ("population.sampler=weighted", "population.options={share=1}"): "sampler 'weighted'",
    }
    for overrides, says in refused.items():
        with pytest.raises(ConfigError, match=says) as caught:
            check_start(tiny_config(*overrides))
        assert "\n" not in str(caught.value)
    check_start(tiny_config("population.options={share=0.5}"))  # of a league, whose control has none


def everything(folder: Path) -> dict[str, bytes]:
    """What must be bit-identical at the end of equal runs."""
    logs = ("metrics.jsonl", "trials.jsonl", "events.jsonl", "credit.jsonl")
    newest = checkpoints(folder / "checkpoints")[-1]
    places = [folder / name for name in (*logs, "league.json")]
    places += [path for place in (newest, folder / "snapshots") for path in place.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in places if path.exists()}


def differences(one: Path, other: Path) -> list[str]:
    found, wanted = everything(one), everything(other)
    return [name for name in {*found, *wanted} if found.get(name) != wanted.get(name)]


def killed_after_step_4(mage: Mage, config: Config, folder: Path) -> Path:
    """A run that was killed after its checkpoint of step 3 and before the next: a busy machine may kill it later."""
    for number in range(5):
        run = folder / f"broken-{number}"
        create_run_directory(config, run)
        moment = when(lambda metrics=run / "metrics.jsonl": count_lines(metrics) >= 4, SIGKILL)  # type: ignore[misc]
        ended = mage("train", "--resume", run, meanwhile=moment)
        if ended.code == -SIGKILL and len(checkpoints(run / "checkpoints")) == 1:
            return run
    raise AssertionError(f"no run was killed in time: {ended.said}")


@pytest.mark.parametrize("name", COMBINATIONS)
def test_every_combination_trains_and_is_resumed_to_the_same_bits(mage: Mage, name: str, tmp_path: Path) -> None:
    whole, settings = tmp_path / "whole", COMBINATIONS[name]
    config = tiny_config(*settings, "steps=5", "checkpoint.every=3", "checkpoint.transcripts=1")
    create_run_directory(config, whole)
    ended = mage("train", "--resume", whole)
    assert ended.code == 0, ended.said
    metrics = list(read_lines(whole / "metrics.jsonl"))
    assert len(metrics) == 5
    assert any(line.get("groups/replayed", 0) > 0 for line in metrics) == (REPLAY in settings)
    assert sum(line["groups/replacements"] for line in metrics) == 0 or RESAMPLE in settings
    rounds = [1.0, 2.0, 2.0, 2.0, 3.0] if SCHEDULE in settings else []
    assert [line["world/rounds"] for line in metrics if "world/rounds" in line] == rounds
    broken = killed_after_step_4(mage, config, tmp_path)
    ended = mage("train", "--resume", broken)
    assert ended.code == 0, ended.said
    assert (broken / "metrics.jsonl.superseded").exists()
    assert differences(broken, whole) == []
    state, is_league = read_state(checkpoints(whole / "checkpoints")[-1]), LEAGUE[0] in settings
    assert bool(state.payoffs) == (not is_league)
    assert bool(state.learners_played_tasks) == (is_league and REPLAY in settings)


def test_opponents_drawn_by_pay_offs_need_no_league(mage: Mage, tmp_path: Path) -> None:
    """One learner becomes what a league of one becomes that never plays itself, to the last bit of its weights."""
    common = ("batch.groups=4", "steps=4", 'population.members=["copy", "beat-last", "cycle(step=1)"]', *HARD)
    league = ("league.learners=1", "league.itself=false", "league.snapshot_every=0")
    for name, more in (("alone", ()), ("league", league)):
        create_run_directory(tiny_config(*common, *more), tmp_path / name)
        ended = mage("train", "--resume", tmp_path / name)
        assert ended.code == 0, ended.said
    one, other = (tmp_path / name / "checkpoints" / "step-000004" for name in ("alone", "league"))
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    assert not (tmp_path / "alone" / "league.json").exists()
    assert read_state(one).payoffs["main"].keys() == {"copy", "beat-last", "cycle(step=1)"}


FOUR = (
    *LEAGUE,
    "league.learners=4",
    "league.exploit_every=2",
    "league.snapshots=3",
    "batch.groups=16",
    "batch.size=2",
    "learner.lr=0.02",
    REPLAY,
    "steps=8",
    "checkpoint.every=3",
    "checkpoint.transcripts=1",
)


@pytest.mark.slow
def test_a_league_of_four_with_replayed_tasks_killed_several_times_goes_on_to_the_same_bits(
    mage: Mage, tmp_path: Path
) -> None:
    unbroken, folder = tmp_path / "unbroken", tmp_path / "run"
    for path in (unbroken, folder):
        create_run_directory(tiny_config(*FOUR), path)
    ended = mage("train", "--resume", unbroken)
    assert ended.code == 0, ended.said
    replayed = [line.get("groups/replayed", 0.0) for line in read_lines(unbroken / "metrics.jsonl")]
    assert replayed[0] == 0.0
    assert max(replayed) >= 3.0
    assert {"snapshot", "evict"} <= {event["league"] for event in read_lines(unbroken / "events.jsonl")}
    metrics, saved = folder / "metrics.jsonl", folder / "checkpoints"
    moments = [
        lambda: count_lines(metrics) >= 2,  # before the first checkpoint
        lambda: any(saved.glob(".writing-*/learners/*")),
        lambda: count_lines(metrics) >= 5,  # after steps with replayed tasks
        lambda: (saved / "step-000006").exists() and count_lines(metrics) >= 7,
    ]
    for moment in moments:
        assert mage("train", "--resume", folder, meanwhile=when(moment, SIGKILL)).code == -SIGKILL
    ended = mage("train", "--resume", folder)
    assert ended.code == 0, ended.said
    assert differences(folder, unbroken) == []
    played = read_state(saved / "step-000008").learners_played_tasks
    assert played.keys() == {"learner-0", "learner-1", "learner-2", "learner-3"}
    assert max(entry.siblings for own in played.values() for entry in own) > 2


def test_a_k1_penalty_is_refused_where_it_begins_and_where_it_goes_on(tmp_path: Path) -> None:
    """Its mean gradient is zero. A run of an earlier version that has it goes on once its weight is 0."""
    measured = tiny_config("learner.divergence=k1", "steps=1")
    check_start(measured)
    says = r"learner.divergence = k1 with learner.divergence_weight = 0.1: the mean gradient of k1 is zero, so it holds"
    with pytest.raises(ConfigError, match=says):
        check_start(tiny_config("learner.divergence=k1", "learner.divergence_weight=0.1"))
    create_run_directory(measured, tmp_path / "old")
    path = tmp_path / "old" / "run.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"divergence_weight": 0.0', '"divergence_weight": 0.1'), encoding="utf-8")
    with pytest.raises(ConfigError, match=says):
        train_run(tmp_path / "old", Console(quiet=True))
    recorder = train_run(tmp_path / "old", Console(quiet=True), values={"learner.divergence_weight": 0.0})
    assert recorder.is_finished
