"""The world of docs/extending.md, in a file outside the package: checked, played, trained, resumed and evaluated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documented import blocks_in, lines_of
from tests.processes import Mage
from tests.tree import ROOT

PAGE = ROOT / "docs" / "extending.md"
TINY = ("steps=4", "batch.groups=2", "batch.size=2", "checkpoint.every=2", "evaluation.final_trials=2")
LESS = {
    "train": [*TINY, "agent.model=nano(hidden=16,layers=1,heads=2,context=512)"],
    "evaluate": ["--trials", "2"],
}


def block(info: str, page: Path = PAGE) -> str:
    (found,) = [block.text for block in blocks_in(page) if block.info == info]
    return found


def run_mage(mage: Mage, folder: Path, *arguments: str, typed: str = "") -> str:
    """What a command prints, in a process that knows nothing of the world."""
    done = mage(*arguments, cwd=folder, typed=typed)
    assert done.code == 0, (arguments, done.said)
    return done.said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("number")
    (path / "number.py").write_text(block("python number.py"))
    (path / "number.toml").write_text(block("toml number.toml"))
    return path


def test_readme_shows_the_same_world() -> None:
    assert block("python number.py", ROOT / "README.md") == block("python number.py")


def test_the_world_takes_about_ten_lines_of_code() -> None:
    """Without imports, blank lines, the docstring and signatures that the class must have."""
    lines = [line.strip() for line in block("python number.py").splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith(("import", "def ", '"""'))]
    assert len(own) <= 10


def test_the_commands_of_the_page_work_from_another_folder(mage: Mage, folder: Path) -> None:
    (commands,) = [lines_of(block) for block in blocks_in(PAGE) if block.info == "sh number"]
    printed: dict[str, str] = {}
    for _, verb, *arguments in commands:
        is_resumed = "--resume" in arguments
        more = ["steps=6"] if is_resumed else LESS.get(verb, [])
        given = [word for word in arguments if not (is_resumed and word.startswith("steps="))]
        typed = "1\n" * 40 if verb == "play" else ""
        printed[f"{verb} resumed" if is_resumed else verb] = run_mage(mage, folder, verb, *given, *more, typed=typed)
    assert set(printed) == {"check-world", "play", "train", "train resumed", "evaluate", "show"}
    assert "keeps the contract" in printed["check-world"]
    assert "A number from 1 to 8 is hidden." in printed["play"]
    assert "7/8" in printed["evaluate"], "the best memoryless play, exactly"
    assert "Guess." in printed["show"]


def test_a_run_knows_its_world_when_the_file_is_gone(mage: Mage, folder: Path, tmp_path: Path) -> None:
    run_mage(mage, folder, "train", "number.toml", *LESS["train"], "--run", str(tmp_path / "run"))
    (folder / "number.py").rename(folder / "elsewhere")
    try:
        printed = run_mage(mage, tmp_path, "evaluate", "run", "--trials", "2")
    finally:
        (folder / "elsewhere").rename(folder / "number.py")
    assert "7/8" in printed
