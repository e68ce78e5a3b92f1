"""The guard of refactorings: equal folders pass, every kind of change is found, and a rename passes with its rule."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.guard import scenarios
from tests.guard.__main__ import main
from tests.guard.compare import compare_folders
from tests.guard.renames import RULES, Key, Left, Moved, Rules, Text, Value
from tests.guard.trees import GuardError, Tree

RUN = {
    "config": {"world": "rps", "credit": {"estimator": "agent-specific"}, "batch": {"revisit": 0.5}},
    "versions": {"mage": "1"},
}
TRIAL = {"type": "trial", "scores": [0.1, 0.0], "task": {"world": "rps"}}
Change = Callable[[Path], object]


def write_tensors(path: Path, weights: bytes = bytes(range(8)), name: str = "head.weight") -> None:
    header = json.dumps({name: {"dtype": "F32", "shape": [2], "data_offsets": [0, len(weights)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + weights)


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base" / "run"
    folder.mkdir(parents=True)
    write_tensors(folder / "model.safetensors")
    write_json(folder / "run.json", RUN)
    write_json(folder / "trials.jsonl", TRIAL)
    (folder / "timings.jsonl").write_text("1\n", encoding="utf-8")
    (folder / "README.md").write_text('# A game\n\n```toml\ngame = "rps"\n```\n', encoding="utf-8")
    (folder / "said.txt").write_text("game  rps\nseconds  0.1\n", encoding="utf-8")
    return folder.parent


@pytest.fixture
def present(base: Path) -> Path:
    return Path(shutil.copytree(base, base.parent / "present"))


def replace(file: str, old: str, new: str) -> Change:
    def change(folder: Path) -> None:
        path = folder / "run" / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    return change


def test_equal_folders_pass_and_are_counted(base: Path, present: Path) -> None:
    found = compare_folders(base, present)
    assert (found.differences, found.num_files, found.num_tensors) == ([], 6, 1)
    assert found.num_values == 1 + 4 + 4 + 1 + 4 + 2  # metadata, run.json, trials, timings, the card, what was said


CHANGES: dict[str, tuple[Change, str]] = {
    "a bit of a weight": (
        lambda f: write_tensors(f / "run/model.safetensors", bytes([1, *range(1, 8)])),
        "model.safetensors: head.weight: F32[2] became F32[2] with 1 of 8 bytes changed, the first at 0",
    ),
    "a tensor's name": (
        lambda f: write_tensors(f / "run/model.safetensors", name="head"),
        "model.safetensors: head.weight: F32[2]",
    ),
    "the last digit": (replace("trials.jsonl", "0.1", "0.10000000000000002"), "[0].scores[0]: 0.1 became 0.1000"),
    "the sign of zero": (replace("trials.jsonl", "0.0", "-0.0"), "[0].scores[1]: 0.0 became -0.0"),
    "an integer for a float": (replace("trials.jsonl", "0.0", "0"), "[0].scores[1]: 0.0 became 0"),
    "a key less": (replace("run.json", '"world": "rps", ', ""), "run.json: config.game: 'rps' became (missing)"),
    "a key more": (replace("run.json", '"world"', '"new": 1, "world"'), "config.new: (missing) became 1"),
    "an ignored key less": (replace("run.json", "versions", "v"), "versions: (ignored) became (missing)"),
    "a line more": (replace("trials.jsonl", "}}", "}}\n{}"), "trials.jsonl: [1]: (missing) became {}"),
    "a missing file": (lambda f: (f / "run/trials.jsonl").unlink(), "run/trials.jsonl: missing in the present tree"),
    "a file more": (lambda f: (f / "run/more").touch(), "run/more: missing in the base"),
    "a setting on the card": (replace("README.md", '"rps"', '"pd"'), "README.md: toml.game: 'rps' became 'pd'"),
    "what was said": (replace("said.txt", "rps", "pd"), "said.txt: line 1: 'game rps' became 'game pd'"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_found_and_named(base: Path, present: Path, name: str) -> None:
    change, told = CHANGES[name]
    change(present)
    found = compare_folders(base, present).differences
    assert any(told in difference for difference in found), found


def test_what_depends_on_the_clock_or_the_version_is_not_compared(base: Path, present: Path) -> None:
    replace("timings.jsonl", "1", "2")(present)
    replace("run.json", '"mage": "1"', '"mage": "2", "commit": "0"')(present)
    replace("said.txt", "seconds  0.1", "seconds   12")(present)
    assert not compare_folders(base, present).differences


RENAMES: dict[str, tuple[Change, Rules]] = {
    "a key": (
        replace("trials.jsonl", '"world"', '"world"'),
        Rules(keys=(Key("world", "world", file="*/trials.jsonl"),)),
    ),
    "a key in its section": (
        replace("run.json", '"world"', '"world"'),
        Rules(keys=(Key("world", "world", under="config"),)),
    ),
    "keys that begin alike": (
        replace("trials.jsonl", '"scores"', '"ranks"'),
        Rules(keys=(Key("score*", "rank*"),)),
    ),
    "a value": (
        replace("run.json", '"agent"', '"agent-specific"'),
        Rules(values=(Value("credit.estimator", "agent", "agent-specific"),)),
    ),
    "a section": (
        replace("run.json", '}, "batch": {"revisit": 0.5}', ', "again": 0.5}, "batch": {}'),
        Rules(moved=(Moved("batch.replay", "credit.again"),)),
    ),
    "a tensor": (
        lambda f: write_tensors(f / "run/model.safetensors", name="top.weight"),
        Rules(keys=(Key("head.*", "top.*"),)),
    ),
    "a file": (
        lambda f: (f / "run/trials.jsonl").rename(f / "run/games.jsonl"),
        Rules(files={"trials.jsonl": "games.jsonl"}),
    ),
    "a setting on the card": (replace("README.md", "game =", "world ="), Rules(keys=(Key("world", "world", "*.md"),))),
    "a word": (replace("said.txt", "world", "world"), Rules(text=(Text(r"^game\b", "world", "renamed", "*said.txt"),))),
    "a key that went": (
        replace("run.json", '"world": "rps", ', ""),
        Rules(dropped=(Left("*/run.json", "config.game", "not needed"),)),
    ),
    "a key that came": (
        replace("run.json", '"world"', '"new": 1, "world"'),
        Rules(added=(Left("*/run.json", "config.new", "new"),)),
    ),
}


@pytest.mark.parametrize("name", RENAMES)
def test_a_renamed_thing_passes_only_with_its_rule(base: Path, present: Path, name: str) -> None:
    change, rules = RENAMES[name]
    if not rules.added:
        assert compare_folders(base, present, rules).differences, "a rule that does not hold is found out"
    change(present)
    assert compare_folders(base, present, Rules()).differences
    assert not compare_folders(base, present, rules).differences


def test_commands_are_translated_in_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "COMMANDS", {"world=": "world=", "train rps": "train rock"})
    assert scenarios.translated("train rps world=rps trial.game=1") == "train rock world=rps trial.game=1"
    assert scenarios.translated("train rps-notes") == "train rps-notes"
    named = scenarios.Scenario("one", ("train rps",), ("train other",))
    assert [named.commands(is_base=is_base) for is_base in (True, False)] == [("train rps",), ("train other",)]


def test_an_unknown_scenario_or_commit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonsense"]) == 2
    assert main(["--base", "nonsense"]) == 1
    assert "unknown scenario nonsense" in capsys.readouterr().err


def test_the_tree_under_test_is_the_one_that_is_imported(tmp_path: Path) -> None:
    with Tree(tmp_path, is_base=False) as tree, pytest.raises(GuardError, match=r"not in|No module"):
        tree.run(scenarios.SCENARIOS[0], tmp_path / "run")


def test_names_of_scenarios_are_different_and_rules_have_reasons() -> None:
    names = [scenario.name for scenario in scenarios.SCENARIOS]
    assert len(set(names)) == len(names)
    assert all(left.reason for left in (*RULES.ignored, *RULES.dropped, *RULES.added))
