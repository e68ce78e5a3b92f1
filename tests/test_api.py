"""The Python API: training and judging as functions, runs as values, names that others may add."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import FrameType

import pytest

import mage
from mage import api
from mage.aio import run_sync
from mage.config.load import load_config
from mage.credit.estimators import Estimator, make_estimator
from mage.credit.estimators.rloo import Rloo
from mage.errors import ConfigError, RecordError
from mage.opponents.policy import Policy, evenly
from mage.opponents.registry import check_opponent, describe_opponents, family
from mage.registry import Registry
from mage.results import Run
from mage.types import Trial
from mage.worlds.openspiel.game import load_game
from mage.worlds.openspiel.game_builders import Built, rps

TINY: dict[str, object] = {
    "steps": 2,
    "agent.model": "nano(hidden=16,layers=1,heads=2,context=512)",
    "agent.context": 512,
    "batch.groups": 2,
    "batch.size": 2,
    "checkpoint.transcripts": 1,
    "evaluation.splits": ["rps-seven"],
    "evaluation.final_trials": 2,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return mage.train("rps", TINY, folder=tmp_path_factory.mktemp("api") / "run", quiet=True)


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import mage, sys; print(*{'torch', 'pyspiel', 'pydantic', 'rich', 'msgspec'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_run_is_a_value(trained: Run) -> None:
    assert trained.step == trained.config.steps == 2
    assert trained.is_finished
    assert [line["step"] for line in trained.metrics() if "learner/loss" in line] == [1, 2]
    assert any(isinstance(trial, Trial) for trial in trained.trials())
    assert mage.open_run(trained.path) == trained
    with pytest.raises(FrozenInstanceError):
        trained.step = 3  # type: ignore[misc]


def test_a_report_has_its_splits_and_prints_as_a_table(trained: Run) -> None:
    report = mage.evaluate(trained, trials=2)
    assert report.step == 2
    assert report.splits["rps-seven"].num_trials == 14
    text = str(report)
    assert "rps-seven" in text
    assert "22/63" in text
    assert "\x1b" not in text
    assert (trained.path / "evaluations" / "step-000002.json").is_file()


def test_one_name_may_be_given_as_it_is(tmp_path: Path) -> None:
    one, several = (mage.value("kuhn_poker", opponents=given) for given in ("conservative", ["conservative"]))
    assert str(one) == str(several)
    assert list(mage.evaluate("minimax", opponents="tictactoe-weak", trials=1, folder=tmp_path / "run").splits) == [
        "tictactoe-weak"
    ]
    with pytest.raises(ConfigError, match="unknown recipe 'nothing'"):
        mage.sweep("nothing")


def test_the_package_has_the_functions_that_it_names() -> None:
    for name in mage.__all__:
        assert name == "__version__" or callable(getattr(mage, name))
        assert name in dir(mage)
    assert mage.train is api.train
    with pytest.raises(AttributeError, match="module 'mage' has no attribute 'judge'"):
        mage.judge  # type: ignore[attr-defined]  # noqa: B018


def test_what_does_not_exist_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown recipe 'nothing'"):
        mage.train("nothing", folder=tmp_path / "x")
    with pytest.raises(RecordError, match="does not exist"):
        mage.evaluate(tmp_path / "x")
    with pytest.raises(ConfigError, match="holds no run, no checkpoint and no model"):
        mage.evaluate(tmp_path)


def test_inside_a_running_loop_the_same_run_comes_out(trained: Run, tmp_path: Path) -> None:
    async def notebook() -> Run:
        return mage.train("rps", TINY, folder=tmp_path / "run", quiet=True)

    assert asyncio.run(notebook()).metrics() == trained.metrics()


def test_in_a_thread_of_the_callers_the_same_run_comes_out(trained: Run, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(mage.train, "rps", TINY, folder=tmp_path / "run", quiet=True).result()
    assert run.metrics() == trained.metrics()


def test_a_run_that_was_stopped_goes_on_to_the_same_end(trained: Run, tmp_path: Path) -> None:
    stopped = mage.train("rps", TINY, folder=tmp_path / "run", max_minutes=0, quiet=True)
    assert (stopped.step, stopped.is_finished) == (1, False)
    assert stopped.resume(quiet=True).metrics() == trained.metrics()


def test_quiet_is_quiet_and_otherwise_steps_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = {**TINY, "steps": 1, "evaluation.splits": []}
    mage.train("rps", short, folder=tmp_path / "a", quiet=True)
    assert capsys.readouterr().out == ""
    run = mage.train("rps", short, folder=tmp_path / "b")
    assert "step 1/1" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"names no splits; set evaluation.splits"):
        mage.evaluate(run)


def test_overrides_are_dotted_keys_with_values() -> None:
    config = load_config("rps", {"learner.lr": 0.5, "population.members": ("copy",), "agent.memory": "both"})
    assert (config.learner.lr, config.population.members, config.agent.memory) == (0.5, ("copy",), "both")
    assert config.learner.entropy_start == load_config("rps", {}).learner.entropy_start > 0


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"learner.speed": 1}, r"rps: unknown key 'learner.speed'; known: .*lr"),
        ({"teacher.lr": 1}, r"unknown key 'teacher'"),
        ({"steps.of": 1}, r"'steps.of': 'steps' is a value, not a section"),
        ({"learner.lr": -1}, r"learner.lr = -1: input should be greater than 0"),
    ],
)
def test_wrong_overrides_are_one_line(overrides: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_config("rps", overrides)
    assert "\n" not in str(caught.value)


def test_what_a_coroutine_raises_comes_out_of_its_thread() -> None:
    async def broken() -> None:
        raise ConfigError("no")

    async def notebook() -> None:
        run_sync(broken())

    with pytest.raises(ConfigError, match="no"):
        asyncio.run(notebook())


def test_an_interrupt_cancels_the_coroutine_in_its_thread() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")

    async def notebook() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        run_sync(endless())

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(notebook())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        loop.close()
    assert ended == ["cancelled"]


def my_game(rounds: int = 2) -> Built:
    """A game of mine."""
    return rps(rounds)


def my_player(game: object, seat: int, rng: object, seed: int = 0) -> Policy:
    """A player of mine."""
    return evenly


@pytest.mark.usefixtures("own_names")
def test_registered_names_are_used_in_specs() -> None:
    mage.register_game("mine", my_game)
    mage.register_game("mine", my_game)  # a cell that runs twice does no harm
    mage.register_opponent("also-mine", my_player, games="mine", fits=lambda game: game.spec.startswith("mine"))
    mage.register_opponent("many", my_player, is_family=True)
    mage.register_estimator("own", Rloo)
    game = load_game("mine(rounds=4)")
    assert game.scale == 4.0
    check_opponent("also-mine:3", game, 1)
    assert make_estimator("own", {"unit": "turn"}) == make_estimator("rloo", {"unit": "turn"})
    assert (family("also-mine(seed=3)"), family("many(seed=3)")) == ("also-mine(seed=3)", "many")
    listed = {entry.name: entry for entry in describe_opponents()}
    assert listed["also-mine"][1:] == ("seed=0", "A player of mine.", "mine")
    with pytest.raises(ConfigError, match="opponent 'also-mine' cannot play rps; it plays mine"):
        check_opponent("also-mine", load_game("rps"), 1)


@pytest.mark.usefixtures("own_names")
def test_names_that_are_taken_or_cannot_be_names_are_refused() -> None:
    mage.register_game("mine", my_game)
    with pytest.raises(ConfigError, match="the game 'mine' is registered already"):
        mage.register_game("mine", rps)
    for name in ("rps", "chess"):  # ours, and OpenSpiel's
        with pytest.raises(ConfigError, match=f"the game '{name}' comes with mage"):
            mage.register_game(name, my_game)
    with pytest.raises(ConfigError, match="the game 'sokoban' cannot be registered: a world has this name"):
        mage.register_game("sokoban", my_game)
    with pytest.raises(ConfigError, match="the opponent 'mixture' comes with mage"):
        mage.register_opponent("mixture", my_player)
    with pytest.raises(ConfigError, match="the estimator 'grpo' comes with mage"):
        mage.register_estimator("grpo", Rloo)
    for name in ("two words", "", "f(x)", "a:b", " mine"):
        with pytest.raises(ConfigError, match="cannot be the name of a game"):
            mage.register_game(name, my_game)


@pytest.mark.usefixtures("own_names")
def test_what_is_registered_must_be_of_its_kind() -> None:
    with pytest.raises(ConfigError, match=r"'x' cannot be registered: an estimator is a frozen msgspec.Struct"):
        mage.register_estimator("x", int)
    with pytest.raises(ConfigError, match=r"'x' cannot be registered: a game is a function"):
        mage.register_game("x", 3)  # type: ignore[arg-type]
    mage.register_game("empty", lambda: (None, None, 1.0))
    with pytest.raises(ConfigError, match="the game 'empty' must return an OpenSpiel game, its words and a scale"):
        load_game("empty")


PACKAGE = """
import mage.worlds.openspiel.game_builders
from mage.models.load import MODELS
from mage.opponents.policy import evenly

def game(rounds=2):
    "A game from elsewhere."
    return mage.worlds.openspiel.game_builders.rps(rounds)

def player(game, seat, rng):
    "A player from elsewhere."
    return evenly
"""
POINTS = """
[mage.games]
elsewhere = foreign:game
rps = foreign:game
[mage.opponents]
stranger = foreign:player
ruin = foreign:nothing
wreck = foreign_wreck
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with entry points, some of them broken."""
    info = tmp_path / "foreign-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (tmp_path / "foreign.py").write_text(PACKAGE)
    (tmp_path / "foreign_wreck.py").write_text("raise ValueError('two\\nlines')")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("foreign", None)


def run_mage(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from mage.cli import main; main()", *arguments]
    root = Path(mage.__file__).parents[1]
    environment = {"PYTHONPATH": os.pathsep.join(map(str, (folder, root))), "COLUMNS": "300", "PATH": ""}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


def test_a_package_adds_names_on_the_command_line(installed: Path) -> None:
    done = run_mage(installed, "duel", "stranger", "always:rock", "--world", "elsewhere", "--trials", "2")
    assert done.returncode == 0, done.stderr
    broken = run_mage(installed, "duel", "ruin", "always:rock", "--world", "elsewhere", "--trials", "2")
    assert broken.returncode == 2
    assert len(broken.stderr.splitlines()) == 1
    assert "the opponent 'ruin' of the package 'foreign' cannot be loaded from foreign:nothing" in broken.stderr
    listed = run_mage(installed, "list", "opponents").stdout
    assert "A player from elsewhere." in listed
    assert "ValueError: two lines" in listed


def test_a_broken_plugin_fails_when_used_and_breaks_nobody_else(installed: Path) -> None:
    table: Registry[object] = Registry("opponent", {"copy": 1}, lambda given: given, lambda _: False)
    assert table["copy"] == 1
    assert callable(table["stranger"])
    for name, why in (("ruin", "AttributeError"), ("wreck", "ValueError: two lines")):
        with pytest.raises(ConfigError, match=f"'{name}' of the package 'foreign' cannot be loaded.*{why}"):
            table[name]
    assert sorted(table) == ["copy", "ruin", "stranger", "wreck"]
    assert len(table) == 4
    with pytest.raises(KeyError):
        table["nobody"]


def test_a_plugin_with_a_name_of_ours_is_an_error_when_the_name_is_used(installed: Path) -> None:
    table: Registry[object] = Registry("game", {"rps": 1, "pd": 2}, lambda given: given, lambda name: name == "chess")
    assert table["pd"] == 2
    with pytest.raises(ConfigError, match="the game 'rps' of the package 'foreign' has a name that is taken"):
        table["rps"]
    with pytest.raises(ConfigError, match="the game 'elsewhere' comes with the package 'foreign'"):
        table.add("elsewhere", my_game)


def test_two_packages_with_one_name_are_an_error_when_it_is_used(installed: Path) -> None:
    other = installed / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[mage.opponents]\nstranger = foreign:game\n")
    table: Registry[object] = Registry("opponent", {"copy": 1}, lambda given: given, lambda _: False)
    assert table["copy"] == 1
    with pytest.raises(ConfigError, match=r"'stranger' of the package '(foreign|other)' has a name that is taken"):
        table["stranger"]


def test_an_estimator_of_ours_is_what_it_was() -> None:
    made: Estimator = make_estimator("rloo", {})
    assert made == Rloo()
