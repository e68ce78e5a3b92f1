"""Faults of a world of one's own are one line, in every command, and nothing unreadable is written."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.errors import MageError, PlayError, RecordError
from mage.evaluation.exact.pool import load_pool
from mage.rollout.episode import play_episode
from mage.runs.store import RunReader, RunWriter
from mage.types import Ending, Failure, Result, Task, Trial
from mage.worlds.registry import WORLDS, load_world
from tests.recorded import guest_trial, make_task

RETURNS: dict[str, Any] = {}
"""What the methods of the world return in place of what is right, by their names."""


class Faulty(mage.SoloWorld[Any, Any]):
    """A number from 1 to 4 is hidden. You have two guesses."""

    def hidden(self) -> Any:
        return returned("hidden", dict.fromkeys("1234", 1))

    def actions(self, hidden: str, position: tuple[str, ...]) -> Any:
        return returned("actions", "1234" if hidden not in position and len(position) < 2 else "")

    def tell(self, hidden: str, position: tuple[str, ...]) -> Any:
        return returned("tell", "Guess." if not position else "Right." if position[-1] == hidden else "Wrong.")

    def score(self, hidden: str, position: tuple[str, ...]) -> Any:
        return returned("score", float(hidden in position))


class Hiden(mage.SoloWorld[Any, Any]):
    """A method has a misspelt name."""

    def actions(self, hidden: str, position: tuple[str, ...]) -> Sequence[str]:
        return ""

    tell = score = actions  # type: ignore[assignment]


def returned(method: str, right: Any) -> Any:
    wrong = RETURNS.get(method, right)
    return wrong(right) if callable(wrong) else wrong


@pytest.fixture(autouse=True)
def _faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    WORLDS.add("faulty", Faulty)
    WORLDS.add("hiden", Hiden)
    load_world.cache_clear()
    load_pool.cache_clear()
    RETURNS.clear()
    monkeypatch.chdir(tmp_path)
    yield
    RETURNS.clear()
    load_world.cache_clear()
    load_pool.cache_clear()


def line_of(command: str) -> str:
    """The error with which a command ends."""
    done = CliRunner().invoke(app, shlex.split(command))
    assert isinstance(done.exception, MageError), (done.output, done.exception)
    assert "\n" not in str(done.exception)
    return str(done.exception)


@pytest.mark.parametrize("kind", [bool, int, np.bool_, np.float32, np.float64, np.int64, np.array])
def test_numbers_of_every_kind_are_written_as_numbers(kind: Any) -> None:
    RETURNS["score"] = kind
    done = CliRunner().invoke(app, shlex.split("evaluate scripted:first --world faulty --level 1 --trials 1 -o run"))
    assert done.exit_code == 0, (done.output, done.exception)
    trial = next(RunReader(Path("run")).trials())
    assert isinstance(trial, Trial)
    assert trial.scores == (1.0, 1.0, 1.0)


WRONG: Mapping[str, tuple[Any, str]] = {
    "score": ("yes", r"faulty: score\(\) returned 'yes'; allowed is a finite number"),
    "score as none": (lambda _: None, r"faulty: score\(\) returned None; allowed is a finite number"),
    "score as nan": (float("nan"), r"faulty: score\(\) returned nan; allowed is a finite number"),
    "score above": (lambda right: 3 * right, "faulty: an episode scores 3, above highest = 1; set lowest and highest"),
    "score below": (lambda right: right - 1, "faulty: an episode scores -1, below lowest = 0; set lowest and highest"),
    "score raises": (lambda right: right / 0, r"faulty raises ZeroDivisionError: .+ \(at test_faulty_worlds.py:\d+\)"),
    "tell": (lambda _: None, r"faulty: tell\(\) returned None; allowed is a text"),
    "tell raises": (lambda right: {right: 1}["x"], r"faulty raises KeyError: 'x' \(at test_faulty_worlds.py:\d+\)"),
    "actions": (3, r"faulty: actions\(\) returned 3; allowed is a list of texts"),
    "actions as numbers": ([1, 2], r"faulty: actions\(\) returned \[1, 2\]; allowed is a list of texts"),
    "hidden": (list("1234"), r"faulty: hidden\(\) returned \['1', '2', '3', '4'\]; allowed is a mapping"),
    "hidden as texts": ({"1": "a"}, r"faulty: hidden\(\) returned the weight 'a'; allowed is a finite number"),
}


@pytest.mark.parametrize("command", ["check-world faulty", "train faulty.toml --run run", "value faulty"])
@pytest.mark.parametrize("fault", WRONG)
def test_a_faulty_method_ends_a_command_in_one_line_that_names_it(command: str, fault: str) -> None:
    RETURNS[fault.split()[0]], why = WRONG[fault]
    recipe = 'world = "faulty"\nsteps = 1\nagent.model = "nano"\nbatch.groups = 2\n'
    Path("faulty.toml").write_text(recipe, encoding="utf-8")
    with pytest.raises(MageError, match=why):
        raise MageError(line_of(command))


def test_other_commands_record_the_same_line_as_a_failure() -> None:
    RETURNS["score"] = "yes"
    CliRunner().invoke(app, shlex.split("evaluate scripted:first --world faulty --trials 1 -o run"))
    failure = next(RunReader(Path("run")).trials())
    assert isinstance(failure, Failure)
    assert "faulty: score() returned 'yes'" in str(failure)


@pytest.mark.parametrize("command", ["check-world hiden", "evaluate uniform --world hiden", "play hiden"])
def test_a_method_that_is_not_there_is_named(command: str) -> None:
    assert line_of(command) == "the world 'hiden' lacks hidden; mage.SoloWorld needs hidden, actions, tell, score"


def test_positions_must_be_hashable() -> None:
    class Listing(Faulty):
        def start(self, hidden: str) -> Any:
            return []

    with pytest.raises(PlayError, match=r"Listing: start\(\) returned \[\]; allowed is what is hashable"):
        Listing().new_env(Task("faulty", (), 0, 0, 1, False, False, 9), 0)


def test_episodes_that_never_end_are_refused() -> None:
    RETURNS["actions"] = "12"
    assert "ended within 50 turns; a world must end them" in line_of("check-world faulty --max-turns 50")


def test_a_world_of_another_kind_writes_numbers_too() -> None:
    class Env:
        returns: tuple[object, ...] = (np.float32(0.5), True)

        def to_move(self) -> None:
            return None

        def result(self) -> Result:
            return Result(self.returns, ("", ""), Ending.FINISHED, None, {})  # type: ignore[arg-type]

    env: Any = Env()
    assert asyncio.run(play_episode(env, {})).result.returns == (0.5, 1.0)
    env.returns = (0.0, "much")
    with pytest.raises(PlayError, match=r"Env: result\(\) returned the score 'much'; allowed is a finite number"):
        asyncio.run(play_episode(env, {}))


@pytest.mark.parametrize("fact", [{"a": 1}, object()])
def test_what_would_not_be_read_back_is_not_written(fact: Any) -> None:
    trial = guest_trial(make_task())
    result = msgspec.structs.replace(trial.episodes[0].result, facts={"board": fact})
    episodes = (msgspec.structs.replace(trial.episodes[0], result=result), *trial.episodes[1:])
    with RunWriter.create(Path("run"), kind="test", config={}, seed=0) as writer:
        with pytest.raises(RecordError, match="would not be read back, so it is not written"):
            writer.append(msgspec.structs.replace(trial, episodes=episodes))
        writer.append(trial)
    assert list(RunReader(Path("run")).trials()) == [trial]
