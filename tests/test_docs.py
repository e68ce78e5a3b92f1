"""The documentation is true: its code runs, its commands work, and it defines every key that is logged, once.

The info string of a fenced block says how it is checked. `python run` is run, with fewer and smaller steps; `sh run`
is run as it stands; `sh tiny` is run with smaller numbers; `sh parse` has to be a command with these options; a block
with a file name is that file. `python then` is run after what comes before it on its page.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.evaluation.exact import References
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.metrics import OutcomeRates, PassAtK, TrialMetrics
from mage.evaluation.suite.naming import Naming
from mage.evaluation.suite.recovery import Recovery
from mage.evaluation.suite.reflections import ReflectionReport
from mage.evaluation.suite.report import EvaluationReport
from mage.files import read_lines
from mage.opponents.registry import OPPONENTS
from mage.stats import Estimate
from mage.training.sweep_summary import RecipeSummary, SweepRun, SweepSummary
from mage.worlds.openspiel.worded import GAMES
from tests.documented import documented, fits
from tests.tree import ROOT

DOCS = ROOT / "docs"
MODEL = "nano(hidden=16,layers=1,heads=2,context=512)"
SMALL: dict[str, object] = {"batch.groups": 2, "batch.size": 2}
JUDGED: dict[str, object] = {"evaluation.splits": ["rps-seven"], "evaluation.final_trials": 2}
OPEN = ("config", "versions", "best_response", "missing", "subject", "seconds")
"""Keys of a report whose values have names of their own inside."""


class Block(NamedTuple):
    """A fenced block: its info string and what is in it."""

    info: str
    text: str


def blocks(page: str) -> list[Block]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [Block(*found) for found in re.findall(r"^```([^\n]+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def commands(page: str) -> list[tuple[str, list[str]]]:
    """How each command of a page is checked, and the command."""
    return [
        (block.info.removeprefix("sh "), shlex.split(line))
        for block in blocks(page)
        if block.info.startswith("sh")
        for line in block.text.splitlines()
    ]


def code_of(page: str) -> str:
    """The only Python of a page."""
    (code,) = [block.text for block in blocks(page) if block.info == "python run"]
    return code


def made_tiny(code: str, sizes: Mapping[str, object]) -> str:
    smaller, num = re.subn(r'"steps": \d+', f'"steps": 2, **{sizes!r}', code)
    assert num == 1, "the code trains for a number of steps that can be made smaller"
    return smaller


def test_the_code_of_extending_runs(tmp_path: Path) -> None:
    """In a process of its own: the names that it registers last as long as the process, and what follows needs them."""
    for block in blocks("extending.md"):
        file = re.fullmatch(r"toml (\S+)", block.info)
        if file:
            (tmp_path / file[1]).write_text(block.text)
    (then,) = [block.text for block in blocks("extending.md") if block.info == "python then"]
    code = made_tiny(code_of("extending.md"), SMALL) + made_tiny(then, {**SMALL, "evaluation.final_trials": 2})
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scores = next(line for line in done.stdout.splitlines() if line.startswith("["))
    assert len(json.loads(scores)) == 2
    assert re.search(r"hunters\s*\ntrials +4\n", done.stdout), done.stdout


def test_the_code_of_the_quickstart_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(made_tiny(code_of("quickstart.md"), {**SMALL, **JUDGED}), "quickstart.md", "exec"), {})
    assert "best memoryless" in capsys.readouterr().out


def test_a_game_an_opponent_and_an_estimator_take_forty_lines() -> None:
    assert len(code_of("extending.md").splitlines()) <= 40


def run_commands(page: str, smaller: Mapping[str, list[str]] | None = None) -> dict[str, str]:
    """Give every command of a page, where it says `tiny` with what makes it smaller; return what each printed."""
    printed = {}
    for how, (program, verb, *arguments) in commands(page):
        assert program == "mage"
        more = {"run": [], "parse": ["--help"], "tiny": (smaller or {}).get(verb, [])}[how]
        assert more or how != "tiny", f"how is {verb} made smaller?"
        done = CliRunner().invoke(app, [verb, *arguments, *more], catch_exceptions=False)
        assert done.exit_code == 0, (verb, arguments, done.output)
        assert done.output, (verb, arguments)
        printed[shlex.join([verb, *arguments])] = done.output
    assert printed, f"{page} has no command"
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


@pytest.mark.parametrize(
    "page", ["environments.md", "league.md", "method.md", "models.md", "opponents.md", "viewer.md"]
)
def test_the_commands_of_other_pages_work(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_commands(page)


def test_every_command_of_every_page_says_how_it_is_checked() -> None:
    for path in sorted(DOCS.glob("*.md")):
        for info, text in re.findall(r"^```([^\n]*)\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
            assert info.startswith(("sh ", "python ")) or not re.search(r"^mage ", text, re.MULTILINE), (
                path.name,
                text,
            )


@pytest.mark.parametrize(("page", "prints"), [("environments.md", "minimax"), ("opponents.md", "best memoryless")])
def test_the_code_about_games_and_opponents_runs(page: str, prints: str, tmp_path: Path) -> None:
    """In a process of its own: the names that it registers last as long as the process."""
    command = [sys.executable, "-c", code_of(page)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert prints in done.stdout


def test_every_game_and_every_opponent_is_named() -> None:
    for page, names in (("environments.md", GAMES), ("opponents.md", OPPONENTS)):
        text = (DOCS / page).read_text(encoding="utf-8")
        assert [name for name in names if not re.search(rf"^\|.*`{name}[`(:]", text, re.MULTILINE)] == []


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_and_paths_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (DOCS / target).exists(), target
    for path in re.findall(r"`(mage/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path


def keys_of(values: Any) -> Iterator[str]:
    """All keys of a JSON value, at any depth, but not the names inside open ones."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield key
            yield from () if key in OPEN else keys_of(value)
    elif isinstance(values, list):
        for value in values:
            yield from keys_of(value)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five small runs that together write everything there is to write."""
    folder = tmp_path_factory.mktemp("runs")
    common: dict[str, object] = {
        **SMALL,
        "steps": 2,
        "agent.model": MODEL,
        "agent.context": 512,
        "credit.options": {},
        "evaluation.splits": [],
    }
    everything = {
        **JUDGED,
        "evaluation.every": 1,
        "evaluation.trials": 2,
        "agent.memory": "both",
        "agent.thoughts": "strip",
        "agent.reflection_tokens": 4,
        "credit.estimator": "ppo",
        "learner.divergence": "k3",
        "learner.divergence_weight": 0.1,
        "learner.prediction_weight": 0.1,
    }
    collapsing = {
        "checkpoint.every": 1,
        "learner.lr": 1.0,
        "alarms.entropy": 0.9,
        "alarms.patience": 1,
        "alarms.action": "rollback",
    }
    exploding = {"steps": 1, "learner.lr": 1e30, "learner.epochs": 2}
    cloning = {"steps": 1, "credit.estimator": "cloning"}
    revisiting = {"batch.groups": 8, "batch.replay": 0.2, "population.split": "", "population.members": ["uniform"]}
    special: dict[str, Mapping[str, object]] = {
        "everything": everything,
        "collapsing": collapsing,
        "exploding": exploding,
        "cloning": cloning,
        "revisiting": revisiting,
    }
    made: list[Path] = []
    for name, values in special.items():
        made.append(mage.train("rps", {**common, **values}, folder=folder / name, quiet=True).path)
    mage.open_run(made[1]).resume({"steps": 3, "alarms.patience": 9}, quiet=True)
    mage.evaluate(made[0], trials=2)
    done = CliRunner().invoke(app, ["evaluate", str(made[0]), "--trials", "2", "--reflections"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return made


def test_no_key_is_defined_twice() -> None:
    for section in ("metrics.jsonl", "timings.jsonl", "events.jsonl", "credit.jsonl", "evaluations"):
        keys = documented(section)
        assert len(set(keys)) == len(keys), section


@pytest.mark.parametrize("name", ["metrics.jsonl", "timings.jsonl", "events.jsonl"])
def test_what_is_logged_is_documented_and_what_is_documented_is_logged(name: str, runs: list[Path]) -> None:
    logged = {key for run in runs for line in read_lines(run / name) for key in line}
    patterns = documented(name)
    assert sorted(key for key in logged if sum(fits(p, key) for p in patterns) != 1) == [], "not documented, or twice"
    assert [p for p in patterns if not any(fits(p, key) for key in logged)] == [], "never logged"


def test_the_keys_of_credit_are_documented(runs: list[Path]) -> None:
    written = {key for run in runs for line in read_lines(run / "credit.jsonl") for key in keys_of(line)}
    assert sorted(written) == sorted(documented("credit.jsonl"))


def test_the_keys_of_evaluations_are_documented(runs: list[Path]) -> None:
    files = sorted((runs[0] / "evaluations").glob("*.json"))
    assert [path.name for path in files] == ["final.json", "reflections-000002.json", "step-000002.json"]
    written = {key for path in files for key in keys_of(msgspec.json.decode(path.read_bytes()))}
    assert written <= set(documented("evaluations"))
    kinds = (
        EvaluationReport,
        SplitReport,
        ReflectionReport,
        TrialMetrics,
        OutcomeRates,
        PassAtK,
        Recovery,
        Naming,
        Estimate,
        References,
    )
    assert set(documented("evaluations")) == {field.name for kind in kinds for field in msgspec.structs.fields(kind)}


def test_the_keys_of_sweeps_are_documented() -> None:
    kinds = (SweepSummary, SweepRun, RecipeSummary)
    assert sorted(documented("sweeps")) == sorted({f.name for kind in kinds for f in msgspec.structs.fields(kind)})
