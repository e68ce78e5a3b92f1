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
from tests.guard.renames import RULES, Key, Left, Merged, Moved, Rules, Text, Value
from tests.guard.trees import GuardError, Tree

RUN = {
    "config": {"game": "rps", "credit": {"estimator": "agent"}, "batch": {"revisit": 0.5, "least": 0.0}},
    "versions": {"mage": "1"},
}
TRIAL = {"type": "trial", "scores": [0.1, 0.0], "task": {"game": "rps"}}
PLAIN = Rules(masks=RULES.masks, ignored=RULES.ignored)
"""No renames: those of the day would apply to the names used here."""
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
    (folder / "timings.jsonl").write_text('{"play_s": 1}\n', encoding="utf-8")
    (folder / "README.md").write_text('# A game\n\n```toml\ngame = "rps"\n```\n', encoding="utf-8")
    (folder / "said.txt").write_text("game  rps  0.25\nseconds  0.1\n", encoding="utf-8")
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
    found = compare_folders(base, present, PLAIN)
    assert (found.differences, found.num_files, found.num_tensors) == ([], 6, 1)
    assert found.num_values == 1 + 5 + 4 + 1 + 4 + 1  # metadata, run.json, trials, timings, the card, what was said


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
    "a key less": (replace("run.json", '"game": "rps", ', ""), "run.json: config.game: 'rps' became (missing)"),
    "a key more": (replace("run.json", '"game"', '"new": 1, "game"'), "config.new: (missing) became 1"),
    "an ignored key less": (replace("run.json", '"mage": "1"', ""), "versions.mage: (ignored) became (missing)"),
    "a line more": (replace("trials.jsonl", "}}", "}}\n{}"), "trials.jsonl: [1]: (missing) became {}"),
    "a missing file": (lambda f: (f / "run/trials.jsonl").unlink(), "run/trials.jsonl: missing in the present tree"),
    "a file more": (lambda f: (f / "run/more").touch(), "run/more: missing in the base"),
    "a setting on the card": (replace("README.md", '"rps"', '"pd"'), "README.md: toml.game: 'rps' became 'pd'"),
    "a line on the card": (replace("README.md", "A game", "No game"), "README.md: line 1: '# A game' became '# No"),
    "a number that was said": (replace("said.txt", "0.25", "-0.25"), "said.txt: number 1: '0.25' became '-0.25'"),
    "a number more": (replace("said.txt", "rps", "rps 1"), "said.txt: number 2: (missing) became '0.25'"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_found_and_named(base: Path, present: Path, name: str) -> None:
    change, told = CHANGES[name]
    change(present)
    found = compare_folders(base, present, PLAIN).differences
    assert any(told in difference for difference in found), found


def test_what_depends_on_the_clock_or_the_version_is_not_compared(base: Path, present: Path) -> None:
    replace("timings.jsonl", "1", "2")(present)
    replace("run.json", '"mage": "1"', '"mage": "2"')(present)
    replace("said.txt", "seconds  0.1", "seconds   12")(present)
    assert not compare_folders(base, present, PLAIN).differences


def test_words_that_commands_print_are_not_compared(base: Path, present: Path) -> None:
    replace("said.txt", "game  rps", "world rock\n")(present)
    assert not compare_folders(base, present, PLAIN).differences


RENAMES: dict[str, tuple[Change, Rules]] = {
    "a key": (replace("trials.jsonl", '"game"', '"world"'), Rules(keys=(Key("game", "world", file="*/trials.jsonl"),))),
    "a key in its section": (
        replace("run.json", '"game"', '"world"'),
        Rules(keys=(Key("game", "world", under="config"),)),
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
        replace("run.json", '}, "batch": {"revisit": 0.5, ', ', "again": 0.5}, "batch": {'),
        Rules(moved=(Moved("batch.revisit", "credit.again"),)),
    ),
    "two keys that became one": (
        replace("run.json", '"revisit": 0.5, "least": 0.0', '"dead": "half"'),
        Rules(merged=(Merged(("revisit", "least"), "dead", {(0.5, 0.0): "half"}),)),
    ),
    "a tensor": (
        lambda f: write_tensors(f / "run/model.safetensors", name="top.weight"),
        Rules(keys=(Key("head.*", "top.*"),)),
    ),
    "a file": (
        lambda f: (f / "run/trials.jsonl").rename(f / "run/games.jsonl"),
        Rules(files={"trials.jsonl": "games.jsonl"}),
    ),
    "a setting on the card": (replace("README.md", "game =", "world ="), Rules(keys=(Key("game", "world", "*.md"),))),
    "a word": (replace("README.md", "A game", "A world"), Rules(text=(Text(r"\bgame\b", "world", "renamed"),))),
    "a key that went": (
        replace("run.json", '"game": "rps", ', ""),
        Rules(dropped=(Left("*/run.json", "config.game", "not needed"),)),
    ),
    "a key that came": (
        replace("run.json", '"game"', '"new": 1, "game"'),
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
    monkeypatch.setattr(scenarios, "COMMANDS", {"game=": "world=", "train rps": "train rock"})
    assert scenarios.translated("train rps game=rps trial.game=1") == "train rock world=rps trial.game=1"
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
    reasons = [rule.reason for rule in (*RULES.ignored, *RULES.dropped, *RULES.added)]
    reasons += [rule.reason for rule in (*RULES.text, *RULES.masks)]
    assert all(reasons)
