"""A run that was killed, interrupted or timed out goes on to the very bits of one that was not."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from signal import SIGINT, SIGKILL

import msgspec
import pytest

from mage.files import count_lines, read_lines
from mage.runs.store import RunReader, RunWriter
from tests.processes import Mage, RunEnd, alone, when

LOGS = ("metrics.jsonl", "trials.jsonl", "index.jsonl", "events.jsonl", "credit.jsonl")
STEPS = 8
# Everything that carries state from step to step is in use: statistics, optimizer, schedules, the entropy floor,
# alarms that roll back, the best checkpoint.
RECIPE = f"""
seed = 7
steps = {STEPS}
world = "rps(rounds=3)"

[trial]
episodes = 3

[population]
split = "rps-trained"

[agent]
model = "nano(hidden=16,layers=1,heads=2,context=512)"
memory = "history"
context = 512

[batch]
groups = 2
size = 2

[credit]
estimator = "agent-specific"
options = {{ scale = "none", unit = "turn" }}

[learner]
lr = 0.01
decay = true
epochs = 2
minibatches = 2
entropy_start = 0.1
entropy_end = 0.02
entropy_floor = 0.9999

[checkpoint]
every = 2
transcripts = 1

[evaluation]
every = 3
splits = ["rps-seven"]
trials = 2
final_trials = 2

[alarms]
entropy = 0.985
patience = 2
drop = 0.05
action = "rollback"
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipes") / "small.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def unbroken(mage: Mage, recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made by a process like any user's; the server that forks the others gets ready meanwhile."""
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    ended = alone("train", recipe, "--run", folder, PYTHONHASHSEED="12345")
    assert ended.code == 0, ended.said
    return folder


def everything(folder: Path) -> dict[str, bytes]:
    """What must be bit-identical at the end of equal runs."""
    newest = folder / "checkpoints" / f"step-{STEPS:06d}"
    names = [*LOGS, *(str(path.relative_to(folder)) for path in newest.iterdir())]
    final = msgspec.json.decode((folder / "evaluations" / "final.json").read_bytes())
    return {
        **{name: (folder / name).read_bytes() for name in names},
        "final": msgspec.json.encode(final["reports"]),
    }


def assert_equal(folder: Path, unbroken: Path) -> None:
    found, wanted = everything(folder), everything(unbroken)
    assert sorted(found) == sorted(wanted)
    assert [name for name in wanted if found[name] != wanted[name]] == []
    assert RunReader(folder).damage == ()
    assert [path.name for path in folder.rglob(".*")] == []


def checkpoints_of(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_the_run_of_these_tests_uses_what_they_are_about(unbroken: Path) -> None:
    events = list(read_lines(unbroken / "events.jsonl"))
    assert 1 <= sum("rollback" in event for event in events) <= 3
    metrics = list(read_lines(unbroken / "metrics.jsonl"))
    assert [line["step"] for line in metrics if "learner/lr" in line] == list(range(1, STEPS + 1))
    assert [line["step"] for line in metrics if "eval/rps-seven/score_3" in line] == [3, 6, STEPS]
    state = msgspec.json.decode((unbroken / "checkpoints" / f"step-{STEPS:06d}" / "state.json").read_bytes())
    assert state["learner"]["entropy_factor"] > 1
    assert state["stats"]["entries"]
    assert state["best"][1] in (3, 6)
    assert f"step-{state['best'][1]:06d}" in checkpoints_of(unbroken)
    credits = list(read_lines(unbroken / "credit.jsonl"))
    # Two siblings of every step, and the showcase: before the first step, at checkpoints and evaluations, at the end.
    assert [line["step"] for line in credits if not line["trained"]] == [0, 2, 3, 4, 6, STEPS]
    assert len(credits) == 2 * STEPS + 6


def test_the_same_config_and_seed_give_the_same_run(mage: Mage, recipe: Path, unbroken: Path, tmp_path: Path) -> None:
    ended = mage("train", recipe, "--run", tmp_path / "run")
    assert ended.code == 0, ended.said
    assert_equal(tmp_path / "run", unbroken)
    assert checkpoints_of(tmp_path / "run") == checkpoints_of(unbroken)


def test_another_seed_gives_another_run(mage: Mage, recipe: Path, unbroken: Path, tmp_path: Path) -> None:
    # An alarm of this seed's must not end the run; before the first one it does not matter what alarms do.
    assert mage("train", recipe, "seed=6", "alarms.action=print", "--run", tmp_path / "run").code == 0
    found, wanted = everything(tmp_path / "run"), everything(unbroken)
    for name in ("metrics.jsonl", "trials.jsonl"):
        assert found[name].splitlines()[0] != wanted[name].splitlines()[0]
    weights = f"checkpoints/step-{STEPS:06d}/model.safetensors"
    assert found[weights] != wanted[weights]


def go_on(mage: Mage, folder: Path) -> RunEnd:
    ended = mage("train", "--resume", folder)
    assert ended.code == 0, ended.said
    return ended


def test_killed_where_it_hurts(mage: Mage, recipe: Path, unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    metrics, checkpoints = folder / "metrics.jsonl", folder / "checkpoints"
    moments = [
        lambda: count_lines(metrics) >= 1,  # before the first checkpoint
        lambda: any(checkpoints.glob(".writing-*")),
        lambda: count_lines(metrics) >= 4,  # after an evaluation
        lambda: any(checkpoints.glob(".writing-*/optimizer.safetensors")),
        lambda: b'rollback":' in (folder / "events.jsonl").read_bytes(),
        lambda: any(checkpoints.glob(".deleting-*")) or count_lines(metrics) >= 8,
        lambda: (checkpoints / f"step-{STEPS:06d}").exists(),  # in the last evaluation
    ]
    command: tuple[str | Path, ...] = ("train", recipe, "--run", folder)
    half_written = 0
    for moment in moments:
        assert mage(*command, meanwhile=when(moment, SIGKILL)).code == -SIGKILL
        half_written += any(checkpoints.glob(".writing-*"))
        command = ("train", "--resume", folder)
    assert half_written > 0
    go_on(mage, folder)
    assert_equal(folder, unbroken)
    assert checkpoints_of(folder) == checkpoints_of(unbroken)
    assert (folder / "trials.jsonl.superseded").exists()
    assert len(list(read_lines(folder / "timings.jsonl"))) > STEPS


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_killed_at_random_moments(mage: Mage, recipe: Path, unbroken: Path, tmp_path: Path, seed: int) -> None:
    folder = tmp_path / "run"
    timings = folder / "timings.jsonl"
    draws = random.Random(seed)
    command: tuple[str | Path, ...] = ("train", recipe, "--run", folder)
    kills = 0
    for _ in range(8):
        num_steps = max(1, count_lines(timings) + draws.choice((0, 1, 1, 2, 3)))
        moment = when(lambda num=num_steps: count_lines(timings) >= num, SIGKILL, delay_s=draws.uniform(0, 0.15))  # type: ignore[misc]
        kills += mage(*command, meanwhile=moment).code == -SIGKILL
        command = ("train", "--resume", folder)
    assert kills > 0
    go_on(mage, folder)
    assert_equal(folder, unbroken)


def test_an_interrupt_finishes_the_step_and_saves(mage: Mage, recipe: Path, unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    timings = folder / "timings.jsonl"
    command: tuple[str | Path, ...] = ("train", recipe, "--run", folder)
    for num_steps in (1, 4):
        ended = mage(*command, meanwhile=when(lambda num=num_steps: count_lines(timings) >= num, SIGINT))  # type: ignore[misc]
        assert ended.code == 0, ended.said
        assert "interrupt again to stop at once" in ended.said
        assert ended.said.endswith(f"\ngo on with  mage train --resume {folder}\n")
        assert num_steps <= count_lines(timings) < STEPS
        assert checkpoints_of(folder)[-1] == f"step-{count_lines(timings):06d}"
        command = ("train", "--resume", folder)
    go_on(mage, folder)
    assert_equal(folder, unbroken)


def test_a_second_interrupt_stops_at_once(mage: Mage, recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    long_steps = (recipe, "batch.groups=400", "batch.size=8")

    def interrupt_twice(pid: int) -> None:
        when(lambda: count_lines(folder / "trials.jsonl") == 1, SIGINT)(pid)
        when(lambda: "finishing this step" in mage.said(), SIGINT)(pid)  # two at once would be heard as one

    ended = mage("train", *long_steps, "--run", folder, meanwhile=interrupt_twice)
    assert ended == (130, "finishing this step; interrupt again to stop at once\n")
    assert count_lines(folder / "timings.jsonl") == 0


def test_time_that_is_up_ends_a_run_after_its_step(mage: Mage, recipe: Path, unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ended = mage("train", recipe, "--run", folder, "--max-minutes", "0")
    assert ended.code == 0, ended.said
    assert checkpoints_of(folder) == ["step-000001"]
    assert f"mage train --resume {folder}" in ended.said
    ended = mage("train", "--resume", folder, "--max-minutes", "0.001")
    assert ended.code == 0, ended.said
    assert 1 < count_lines(folder / "metrics.jsonl") < STEPS
    go_on(mage, folder)
    assert_equal(folder, unbroken)


def test_changed_settings_survive_a_kill(mage: Mage, recipe: Path, tmp_path: Path) -> None:
    folder, killed = tmp_path / "run", tmp_path / "killed"
    assert mage("train", recipe, "--run", folder, "--max-minutes", "0").code == 0
    shutil.copytree(folder, killed)
    change = ("learner.lr=0.005", "checkpoint.every=100", "alarms.action=print", "steps=9")
    assert mage("train", "--resume", folder, *change).code == 0
    moment = when(lambda: count_lines(killed / "metrics.jsonl") >= 3, SIGKILL)
    assert mage("train", "--resume", killed, *change, meanwhile=moment).code == -SIGKILL
    assert checkpoints_of(killed)[0] == "step-000001"
    go_on(mage, killed)
    for name in (*LOGS, "checkpoints/step-000009/model.safetensors"):
        assert (killed / name).read_bytes() == (folder / name).read_bytes(), name
    changes = [line for line in read_lines(killed / "events.jsonl") if "changed" in line]
    assert [(line["step"], line["changed"]) for line in changes] == [
        *((1, "steps"), (1, "learner.lr"), (1, "checkpoint.every"), (1, "alarms.action"))
    ]


def test_a_run_that_is_done_stays_as_it_is(mage: Mage, unbroken: Path) -> None:
    before = everything(unbroken)
    ended = mage("train", "--resume", unbroken)
    assert ended.code == 0
    assert "Scores" in ended.said
    assert everything(unbroken) == before
    assert not list(unbroken.glob("*.superseded"))


def test_a_run_that_is_being_written_is_left_alone(mage: Mage, recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert mage("train", recipe, "--run", folder, "--max-minutes", "0").code == 0
    (folder / "metrics.jsonl").open("a").write('{"step":2}\n')  # what the other process has written meanwhile
    before = {name: (folder / name).read_bytes() for name in LOGS}
    with RunWriter.reopen(folder):
        ended = mage("train", "--resume", folder)
    assert (ended.code, ended.said) == (2, f"mage: {folder} is being written by another process\n")
    assert {name: (folder / name).read_bytes() for name in LOGS} == before


def test_what_cannot_be_resumed_is_refused_in_one_line(mage: Mage, unbroken: Path, tmp_path: Path) -> None:
    info = msgspec.json.decode((unbroken / "run.json").read_bytes())
    wrong = {
        "missing": None,
        "empty": {},
        "played": {**info, "kind": "duel"},
        "newer": {**info, "schema": 99},
        "key": {**info, "config": {**info["config"], "colour": "red"}},
        "value": {**info, "config": {**info["config"], "steps": 0}},
    }
    for name, content in wrong.items():
        if content is not None:
            (tmp_path / name).mkdir()
            (tmp_path / name / "run.json").write_bytes(msgspec.json.encode(content))
    (tmp_path / "empty" / "run.json").unlink()
    said = {name: mage("train", "--resume", tmp_path / name) for name in wrong}
    assert {ended.code for ended in said.values()} == {2}
    assert all(ended.said.count("\n") == 1 for ended in said.values())
    assert "does not exist; a run is a directory with a run.json" in said["missing"].said
    assert "is not a run" in said["empty"].said
    assert "is a duel run; only train runs have weights" in said["played"].said
    assert "has schema version 99; this version of mage reads 2" in said["newer"].said
    assert "unknown key 'colour'" in said["key"].said
    assert "steps = 0" in said["value"].said


def test_a_resumed_run_keeps_its_directory_and_its_config(mage: Mage, unbroken: Path, tmp_path: Path) -> None:
    for more in (("--run", tmp_path / "other"), ("--dry-run",), ("rps",)):
        ended = mage("train", "--resume", unbroken, *more)
        assert ended.code == 2
        assert ended.said.startswith("mage: ")
        assert ended.said.count("\n") == 1


def test_a_checkpoint_that_cannot_be_read_is_named_in_one_line(mage: Mage, recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert mage("train", recipe, "--run", folder, "--max-minutes", "0").code == 0
    for name in ("optimizer.safetensors", "state.json"):
        path = folder / "checkpoints" / "step-000001" / name
        path.write_bytes(path.read_bytes()[:-10])
        ended = mage("train", "--resume", folder)
        assert ended.code == 2
        assert ended.said.startswith(f"mage: {path.parent}")
        assert ended.said.count("\n") == 1
