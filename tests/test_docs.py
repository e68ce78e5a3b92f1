"""The documentation is true: its code runs, and its commands work and name what exists.

The info string of a fenced block says how it is checked. `python run` is run, with fewer and smaller steps; `sh run`
is run as it stands; `sh tiny` is run with smaller numbers; `sh parse` is parsed, and its recipes, worlds, opponents and
settings are looked up; `sh number` is run by tests/test_docs_number.py; `sh make` has targets of the Makefile; a block
with a file name is that file. `python then` is run after what comes before it on its page; `text shown` is what the
command before it prints. Commands in sentences are parsed and looked up too, where they name something.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mage.cli import COMMANDS, app
from mage.errors import MageError
from mage.opponents.registry import OPPONENTS
from mage.worlds.openspiel.game_builders import GAMES
from tests.documented import (
    Block,
    CommandError,
    IncompleteError,
    blocks_in,
    is_placeholder,
    lines_of,
    mentioned,
    parsed,
    resolve,
    words_of,
)
from tests.processes import Mage
from tests.tree import ROOT

DOCS = ROOT / "docs"
MODEL = "nano(hidden=16,layers=1,heads=2,context=512)"
SMALL: dict[str, object] = {"batch.groups": 2, "batch.size": 2}
JUDGED: dict[str, object] = {"evaluation.splits": ["rps-seven"], "evaluation.final_trials": 2}


def blocks(page: str) -> list[Block]:
    return blocks_in(path_of(page))


def path_of(page: str) -> Path:
    return DOCS / page if (DOCS / page).exists() else ROOT / page


def commands(page: str) -> list[tuple[str, list[str]]]:
    """How each command of a page is checked, and the command."""
    return [
        (block.info.removeprefix("sh "), words)
        for block in blocks(page)
        if block.info.startswith("sh")
        for words in lines_of(block)
    ]


def code_of(page: str) -> str:
    """The only Python of a page."""
    (code,) = [block.text for block in blocks(page) if block.info == "python run"]
    return code


def made_tiny(code: str, sizes: Mapping[str, object]) -> str:
    smaller, num = re.subn(r'"steps": \d+', f'"steps": 2, **{sizes!r}', code)
    assert num == 1, "the code trains for a number of steps that can be made smaller"
    return smaller


def test_the_code_of_extending_runs(mage: Mage, tmp_path: Path) -> None:
    """In a process of its own: the names that it registers last as long as the process, and what follows needs them."""
    for block in blocks("extending.md"):
        file = re.fullmatch(r"toml (\S+)", block.info)
        if file:
            (tmp_path / file[1]).write_text(block.text)
    (then,) = [block.text for block in blocks("extending.md") if block.info == "python then"]
    code = made_tiny(code_of("extending.md"), SMALL) + made_tiny(then, {**SMALL, "evaluation.final_trials": 2})
    ended = mage(program=code, cwd=tmp_path)
    assert ended.code == 0, ended.said
    scores = next(line for line in ended.said.splitlines() if line.startswith("["))
    assert len(json.loads(scores)) == 2
    assert re.search(r"hunters\s*\ntrials +4\n", ended.said), ended.said


def test_the_code_of_the_quickstart_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(made_tiny(code_of("quickstart.md"), {**SMALL, **JUDGED}), "quickstart.md", "exec"), {})
    assert "best memoryless" in capsys.readouterr().out


def test_the_code_of_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(made_tiny(code_of("README.md"), {**SMALL, **JUDGED}), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "best memoryless" in printed
    assert "adaptation over control" in printed


def test_a_game_an_opponent_and_an_estimator_take_forty_lines() -> None:
    assert len(code_of("extending.md").splitlines()) <= 40


def run_commands(page: str, smaller: Mapping[str, list[str]] | None = None) -> dict[str, str]:
    """Look up what every command of a page names, run those that can be, where it says `tiny` with what makes it
    smaller, and return what each printed."""
    printed = {}
    for how, (program, verb, *arguments) in commands(page):
        if program == "make":
            assert how == "make"
            continue
        if how == "number":
            continue  # tests/test_docs_number.py runs it
        assert program == "mage"
        resolve(parsed([verb, *arguments]))
        if how == "parse":
            continue
        more = {"run": [], "tiny": (smaller or {}).get(verb, [])}[how]
        assert more or how != "tiny", f"how is {verb} made smaller?"
        done = CliRunner().invoke(app, [verb, *arguments, *more], catch_exceptions=False)
        assert done.exit_code == 0, (verb, arguments, done.output)
        assert done.output, (verb, arguments)
        printed[shlex.join([verb, *arguments])] = done.output
    return printed


def test_the_commands_of_the_quickstart_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = [f"{key}={json.dumps(value)}" for key, value in {**SMALL, **JUDGED, "agent.model": MODEL}.items()]
    less = ["steps=2", "agent.context=512", *small]
    run_commands("quickstart.md", {"train": less, "sweep": less, "evaluate": ["--trials", "2"]})
    assert {verb for how, (_, verb, *_) in commands("quickstart.md") if how == "parse"} == {"play"}


def test_the_commands_of_evaluation_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command, printed in run_commands("evaluation.md").items():
        assert "cyclists.json" in printed or "cyclists.json" not in command


PAGES = [*sorted(DOCS.glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.md"))
ELSEWHERE = {"claims.md": "tests/test_claims.py", "compare.md": "tests/test_compare.py"}
"""Pages whose commands are run by another test, because it reads what they print."""
OWN = {"quickstart.md", "evaluation.md"}


@pytest.mark.parametrize("page", sorted({path.name for path in PAGES} - set(ELSEWHERE) - OWN))
def test_the_commands_of_other_pages_work(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_commands(page)


@pytest.mark.parametrize("page", ELSEWHERE)
def test_pages_that_are_run_elsewhere_name_what_exists(page: str) -> None:
    for _, (_, *arguments) in commands(page):
        resolve(parsed(arguments))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_block_with_commands_says_how_it_is_checked(page: Path) -> None:
    for block in blocks_in(page):
        checked = ("sh run", "sh tiny", "sh parse", "sh make", "python run", "python then", "sh number")
        assert block.info in checked or not re.search(r"^(mage|make) ", block.text, re.MULTILINE), block.text
        is_file = re.fullmatch(r"python \w+\.py", block.info) is not None
        assert not block.info.startswith(("sh", "python")) or is_file or block.info in checked, block.info


@pytest.mark.parametrize("page", [*PAGES, *BENCHMARKS], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_commands_in_sentences_exist_and_name_what_exists(page: Path) -> None:
    for text in mentioned(page, "mage"):
        if page.name == "play.md":  # Printed by the benchmark, without quotes.
            text = re.sub(r"(\w+\(.*?\))", r'"\1"', text)
        words = words_of(text)
        try:
            found = parsed(words[1:])
        except IncompleteError:
            continue  # A sentence may name a command alone.
        except CommandError:
            assert is_placeholder(text), text
            continue
        if not is_placeholder(text) and (found.words or found.options.get("--resume")):
            resolve(found)


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))


def test_every_target_that_is_named_exists() -> None:
    named = {word for page in (*PAGES, *BENCHMARKS) for text in mentioned(page, "make") for word in text.split()[1:2]}
    named |= {words[1] for page in PAGES for how, words in commands(page.name) if how == "make"}
    told = re.findall(r'@echo "make ([^"]+?)(?:  |")', MAKEFILE)
    helped = {word.strip() for line in told for word in line.split(",")}
    assert {"demo", "test", "methods", "smollm2"} <= named <= TARGETS
    assert helped == TARGETS - {"help"}
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert set(phony.split()) == TARGETS


def test_the_commands_of_the_makefile_work() -> None:
    given = re.findall(r"^\t\$\(BIN\)/mage (.*)$", MAKEFILE, re.MULTILINE)
    assert given
    for line in given:
        resolve(parsed(words_of(line)))


@pytest.mark.parametrize("page", [*PAGES, *BENCHMARKS, ROOT / "Makefile"], ids=lambda path: path.name)
def test_scripts_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for script in re.findall(r"python\s+(benchmarks/[\w/]+\.py)", text):
        assert (ROOT / script).exists(), script
    for module in re.findall(r"python\s+-m\s+((?:tests|mage)[\w.]*)", text):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ('play "kuhn_poker(players=3)" --against cfr --against aggressive', "cfr"),
        ("train rsp", "unknown recipe"),
        ("train rps learner.rate=1", "unknown key"),
        ("sweep rps rps+gpro", "gpro"),
        ("duel copy uniform --world kuhn_poker", "copy"),
        ("evaluate runs/rps --opponents rps-eight", "rps-eight"),
        ("evaluate nobody --opponents rps-seven", "nobody"),
        ("train rps --sedes 3", "No such option"),
        ("jugde runs/rps", "unknown command"),
        ("duel copy uniform --world rps --trials many", "many"),
    ],
)
def test_a_command_that_would_fail_is_found(command: str, error: str) -> None:
    with pytest.raises((MageError, CommandError, AssertionError), match=error):
        resolve(parsed(shlex.split(command)))


def test_the_transcript_of_the_quickstart_is_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "96")
    (told,) = [block.text for block in blocks("quickstart.md") if block.info == "text shown"]
    for arguments in (["trials", "demo", "--run", "runs/demo"], ["show", "runs/demo", "4"]):
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0
    printed = "\n".join(line.rstrip() for line in done.output.splitlines())
    for part in re.split(r"\n\n|^   ….*$", told, flags=re.MULTILINE):
        assert part.strip("\n") in printed, part


def test_every_command_is_listed() -> None:
    text = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `mage ([\w-]+)` \|", text, re.MULTILINE) == list(COMMANDS)


@pytest.mark.parametrize(
    ("page", "prints"),
    [("environments.md", "minimax"), ("opponents.md", "best memoryless"), ("value.md", "('single (GRPO)', 0.3)")],
)
def test_the_code_about_worlds_and_opponents_runs(mage: Mage, page: str, prints: str, tmp_path: Path) -> None:
    """In a process of its own: the names that it registers last as long as the process."""
    ended = mage(program=code_of(page), cwd=tmp_path, err=tmp_path / "err.txt")
    assert ended.code == 0, (tmp_path / "err.txt").read_text()
    assert prints in ended.said


def test_every_game_and_every_opponent_is_named() -> None:
    for page, names in (("environments.md", GAMES), ("opponents.md", OPPONENTS)):
        text = (DOCS / page).read_text(encoding="utf-8")
        assert [name for name in names if not re.search(rf"^\|.*`{name}[`(:]", text, re.MULTILINE)] == []


@pytest.mark.parametrize("page", [*PAGES, *BENCHMARKS], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:mage|tests|docs|benchmarks)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"`(mage\.[a-z_]+(?:\.\w+)+)`", text):
        assert is_importable(name), name


NOT_USED = re.compile(r"\b(judg\w+|codecs?|whoever|somebody|nobody|anybody|whom)\b", re.IGNORECASE)
WRITTEN = [*(page for page in PAGES if page.name not in ("CONTRIBUTING.md", "architecture.md")), *BENCHMARKS]
"""Pages whose words are their own: the glossary names the words that are not used, the file tree is made."""


@pytest.mark.parametrize("page", WRITTEN, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_words_that_the_glossary_does_not_use_are_not_used(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("results/methods", "")
    assert [match[0] for match in NOT_USED.finditer(text)] == []


def is_importable(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), attribute) or bool(importlib.util.find_spec(name))
    except ImportError:
        return False
