"""A run that an error ends while it plays has saved its last completed step, and goes on to the same end."""

from __future__ import annotations

from pathlib import Path

import pytest

from mage.files import read_lines
from tests.processes import Mage
from tests.test_resume import RECIPE, assert_equal, checkpoints_of, go_on

FAULT = """
import mage.training.loop as loop
from mage.cli import main
from mage.errors import PlayError
real, calls = loop.{name}, []
def faulty(*given):
    calls.append(given)
    if len(calls) == {call}:
        raise PlayError("a fault")
    return real(*given)
loop.{name} = faulty
main()
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipes") / "small.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def test_an_error_in_play_saves_the_last_step(mage: Mage, recipe: Path, tmp_path: Path) -> None:
    folder, unbroken = tmp_path / "run", tmp_path / "unbroken"
    assert mage("train", recipe, "--run", unbroken).code == 0
    command: tuple[str | Path, ...] = ("train", recipe, "--run", folder)
    for call, step in ((2, 1), (1, 1), (5, 5)):
        ended = mage(*command, program=FAULT.format(name="estimate", call=call))
        assert ended.code == 2
        assert ended.said.endswith(
            f"saved after step {step}; go on with  mage train --resume {folder}\nmage: a fault\n"
        )
        assert checkpoints_of(folder)[-1] == f"step-{step:06d}"
        assert list(read_lines(folder / "events.jsonl"))[-1] == {"step": step, "error": "a fault"}
        command = ("train", "--resume", folder)
    go_on(mage, folder)
    assert_equal(folder, unbroken)


def test_an_error_goes_on_where_the_step_cannot_be_saved(mage: Mage, recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    no_room = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); raise "
    fault = FAULT.format(name="estimate", call=2).replace("raise ", no_room)
    ended = mage("train", recipe, "--run", folder, program=fault)
    assert ended.code == 2
    assert "step 1 could not be saved: SafetensorError: " in ended.said
    assert ended.said.endswith("\nmage: a fault\n")
    assert not any((folder / "checkpoints").iterdir())


def test_an_error_in_an_update_saves_nothing(mage: Mage, recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ended = mage("train", recipe, "--run", folder, program=FAULT.format(name="learn_all", call=2))
    assert (ended.code, "saved" in ended.said) == (2, False)
    assert not (folder / "checkpoints").exists()


def test_with_a_lag_nothing_is_saved(mage: Mage, recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fault = FAULT.format(name="estimate", call=2)
    ended = mage("train", recipe, "rollout.lag=1", "--run", folder, program=fault)
    assert (ended.code, "saved" in ended.said) == (2, False)
    assert not (folder / "checkpoints").exists()
