"""Run directories for the pages to show, played and written by the real machinery."""

from __future__ import annotations

import asyncio
import re
import shutil
from io import StringIO
from pathlib import Path

from rich.console import Console
from typer.testing import CliRunner

from mage.cli import app
from mage.config.load import to_toml
from mage.config.schema import Config
from mage.opponents.agent_seat import seat_agent
from mage.protocols import Agent
from mage.rollout.trial import play_trial
from mage.training.build import scripted_world_and_agent
from mage.training.run import create_run_directory, train_run
from mage.types import Task, Trial
from mage.worlds.registry import load_world
from tests.recorded import guest_trial, make_task
from tests.tiny import tiny_config
from tests.viewed import write_lines, write_run, write_train_run

EVIL = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'><b>bold</b><!--"
NOTE = "They play round 1: rock, round 2: paper, round 3: scissors."
"""What the scripted model writes about the cycle that it meets in `played`."""
_LEARNED = (
    "world=rps(rounds=3)",
    "trial.episodes=3",
    "steps=4",
    "population.members=[]",
    "population.split=rps-constants",
    "agent.memory=both",
    "agent.reflection_tokens=6",
    "checkpoint.transcripts=1",
    "checkpoint.every=2",
    'evaluation.splits=["rps-constants"]',
    "evaluation.final_trials=2",
)


def learned(path: Path) -> Path:
    """A training run of a tiny model that writes notes: credit, a showcase at several steps, and an evaluation."""
    create_run_directory(tiny_config(*_LEARNED), path)
    train_run(path, Console(file=StringIO()))
    return path


def counted() -> Trial:
    """A trial in which a scripted model loses, writes down what it saw, and wins."""
    world, make_agent = scripted_world_and_agent(Config())
    return asyncio.run(play_trial(world, make_task("rps(rounds=3)", ("cycle(step=1)",)), 0, make_agent))


def played(path: Path) -> Path:
    """Trials of several worlds: with notes, with hidden cards, with boards, and a game that has no drawing."""
    games = ("kuhn_poker", "tic_tac_toe", "leduc_poker", "pd(rounds=2)")
    solo = (pushed(), swept(), bought(), housed())
    return write_run(path, [counted(), *(guest_trial(make_task(game)) for game in games), *solo])


def pushed() -> Trial:
    """A trial of Sokoban by a player that fails and then solves the room."""
    world, task = load_world("sokoban"), Task("sokoban", (), 0, 2, 3, False, False, 100)
    return asyncio.run(play_trial(world, task, 0, lambda task, _: seat_agent(world, "learns-from-failure", task)))


def swept() -> Trial:
    """A trial of MineSweeper."""
    task = make_task("minesweeper", ())

    def seated(task: Task, sibling: int) -> Agent:
        return seat_agent(load_world(task.world), "uniform", task)

    return asyncio.run(play_trial(load_world(task.world), task, 0, seated))


def bought() -> Trial:
    """A trial of WebShop by a player that buys what does not fit, and then what does."""
    world, task = load_world("webshop"), Task("webshop", (), 0, 0, 3, False, False, 100, "2")
    return asyncio.run(play_trial(world, task, 0, lambda task, _: seat_agent(world, "learns-from-failure", task)))


def housed() -> Trial:
    """A trial of ALFWorld by a player that looks for things and remembers where they are."""
    world, task = load_world("alfworld"), Task("alfworld", (), 0, 2, 3, False, False, 100)
    return asyncio.run(play_trial(world, task, 0, lambda task, _: seat_agent(world, "learns-from-failure", task)))


def run_mage(*argv: str | Path) -> None:
    """Run a command of mage in this process."""
    ended = CliRunner().invoke(app, [*map(str, argv)], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output


def met(path: Path, *more: str) -> Path:
    """A pay-off matrix of three players and more."""
    players = ("copy", "beat-last", "always:rock", *more)
    run_mage("cross-play", *players, "--world", "rps", "--trials", "2", "-o", path)
    return path


def exploited(path: Path) -> Path:
    """How far a scripted model can be exploited."""
    run_mage("nashconv", "scripted:first", "--world", "kuhn_poker", "--trials", "2", "-o", path)
    return path


def noted(path: Path) -> Path:
    """What the notes of a scripted model do against three constants."""
    constants = [word for move in ("rock", "paper", "scissors") for word in ("--opponents", f"always:{move}")]
    how = ("--world", "rps(rounds=3)", *constants, "--memory", "reflections", "--trials", "2", "--words", "2")
    run_mage("evaluate", "scripted:counter", *how, "--reflections", "-o", path)
    return path


def seeded(path: Path) -> Path:
    """A sweep of two seeds."""
    config = tiny_config("steps=1", 'evaluation.splits=["rps-constants"]', "evaluation.final_trials=2")
    recipe = path.parent.parent / "tiny.toml"
    recipe.write_text(to_toml(config), encoding="utf-8")
    run_mage("sweep", recipe, "--seeds", "2", "--run", path)
    return path


def alarmed(path: Path) -> Path:
    """A training run that an alarm has stopped."""
    run = write_train_run(path, 3, 9)
    dead = "groups/dead_share is over 0.9 for {} steps ({})"
    events: list[dict[str, object]] = [
        {"step": 1, "alarm": dead.format(5, 1), "action": "rollback"},
        {"step": 2, "alarm": "score on mine fell from 0.500 to 0.100", "action": "rollback"},
        {"step": 2, "rollback": 1},
        {"step": 3, "alarm": dead.format(10, 0.95), "action": "stop"},
    ]
    write_lines(run / "events.jsonl", events)
    return run


def mixed(run: Path, path: Path) -> Path:
    """A copy of a run that drew one more opponent than those of its split."""
    shutil.copytree(run, path)
    info = path / "run.json"
    info.write_text(re.sub(r'"members": \[\]', '"members": ["copy"]', info.read_text()))
    return path


def unreadable(path: Path) -> Path:
    """A run of another schema version."""
    run = write_run(path, [guest_trial(make_task())])
    info = run / "run.json"
    info.write_text(info.read_text().replace('"schema": 2', '"schema": 99'))
    return run
