"""What can be refused without a model is refused before torch is imported; errors name what was probably meant."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mage import extras
from mage.config.load import load_config, parse_override
from mage.errors import ConfigError
from mage.evaluation.plan import split_of_opponents
from mage.evaluation.suite.report import EvaluationReport, evaluation_report, to_json
from mage.models.device import check_processes
from mage.opponents.registry import check_opponent
from mage.runs.console import plain_console
from mage.runs.store import RunWriter
from mage.training.start import check_start
from mage.training.sweep import run_sweep
from mage.worlds.openspiel.game import load_game
from mage.worlds.registry import load_world, normal_world

_RUN = """
import sys
from mage.cli import main
sys.argv = ["mage", *sys.argv[1:]]
try:
    main()
finally:
    print("torch" in sys.modules)
"""


def refused(arguments: Sequence[str]) -> tuple[str, bool]:
    """What a command says that ends with an error, and whether torch was imported."""
    done = subprocess.run([sys.executable, "-c", _RUN, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    return done.stderr, done.stdout.splitlines()[-1] == "True"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--resume", "none"], "none does not exist"),
        (["train", "rps", "world=rps(rounds=0)"], "rounds must be"),
        (["train", "rps", "world=rps(rounds=0)", "--dry-run"], "rounds must be"),
        (["train", "rps", "agent.temperature=0"], "agent.temperature = 0: a deterministic policy has no gradient"),
        (["train", "rps", "agent.temperature=0", "--dry-run"], "agent.temperature = 0"),
        (["train", "rps", "credit.estimator=grpoo"], "unknown estimator 'grpoo'; did you mean grpo?"),
        (["train", "rps", "credit.options.scale=x", "--dry-run"], "estimator 'agent-specific' with"),
        (["train", "rps", "--run", "{used}"], "is not empty"),
        (["sweep", "rps", "world=rps(rounds=0)"], "rounds must be"),
        (["sweep", "rps", "--run", "{used}"], "is not empty"),
        (["sweep", "--resume", "none"], "none"),
    ],
)
def test_cheap_refusals_come_before_torch_is_imported(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message, has_torch = refused([argument.format(used=tmp_path) for argument in arguments])
    assert said in message
    assert len(message.splitlines()) == 1
    assert not has_torch


@pytest.mark.parametrize(
    ("recipe", "overrides", "meant"),
    [
        ("rpss", [], "did you mean rps"),
        ("rps", ["lr=0.1"], "did you mean learner.lr?"),
        ("rps", ["learner.lrr=0.1"], "did you mean learner.lr?"),
        ("rps", ["episodes=5"], "did you mean trial.episodes?"),
    ],
)
def test_errors_name_the_recipe_or_key_that_was_meant(recipe: str, overrides: list[str], meant: str) -> None:
    with pytest.raises(ConfigError, match=meant.replace("?", r"\?")):
        load_config(recipe, overrides)


def test_errors_name_the_opponent_and_the_world_that_were_meant() -> None:
    with pytest.raises(ConfigError, match=r"did you mean aggressive\?"):
        check_opponent("agressive", load_game("kuhn_poker"), 1)
    with pytest.raises(ConfigError, match=r"did you mean kuhn_poker\?"):
        load_world("kuhn_pocker")


def test_search_takes_a_bounded_number_of_simulations() -> None:
    with pytest.raises(ConfigError, match="from 1 to 100000000, not 99999999999"):
        check_opponent("mcts:99999999999", load_game("tic_tac_toe"), 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[wandb]", ["wandb"]),
        ('[wandb, "trackio"]', ["wandb", "trackio"]),
        ("[mixture(copy, uniform), copy]", ["mixture(copy, uniform)", "copy"]),
        ("[]", []),
        ("[1, 2]", [1, 2]),
    ],
)
def test_lists_may_have_plain_words(text: str, value: list[object]) -> None:
    assert parse_override(f"trackers={text}") == ("trackers", value)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ('{"url": "file:///x", "dir_info": {"editable": true}}', "pip install -e '.[plot]'"),
        ('{"url": "file:///x.whl", "archive_info": {}}', "pip install 'mage-rl[plot]'"),
        (None, "pip install 'mage-rl[plot]'"),
    ],
)
def test_install_hints_fit_how_mage_was_installed(
    origin: str | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mage_rl-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: mage-rl\nVersion: 0.1.0\n", encoding="utf-8")
    if origin is not None:
        (folder / "direct_url.json").write_text(origin, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    extras._is_clone.cache_clear()
    try:
        assert extras.install_command("plot") == command
    finally:
        extras._is_clone.cache_clear()


def test_specs_are_the_same_however_their_defaults_are_written() -> None:
    assert normal_world("rps") == normal_world("rps(rounds=3)") == normal_world("rps(3)") != normal_world("rps(4)")
    assert split_of_opponents("rps", ["copy"]).name == split_of_opponents("rps( rounds=3 )", ["copy"]).name
    assert split_of_opponents("rps", ["copy"]).name != split_of_opponents("rps(rounds=4)", ["copy"]).name


def test_resuming_a_finished_run_says_that_it_is_finished(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    config = load_config("rps", ["steps=1"])
    RunWriter.create(folder, kind="train", config=config.model_dump(mode="json"), seed=0).close()
    (folder / "evaluations").mkdir()
    report: EvaluationReport[object] = evaluation_report([], config, 1)
    (folder / "evaluations/final.json").write_bytes(to_json(report))
    done = subprocess.run(
        [sys.executable, "-c", _RUN, "train", "--resume", str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "already finished: all 1 steps are done" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"


TOO_MANY = "5000 processes are too many for 3 cores; allowed are at most 12"


@pytest.mark.parametrize(
    ("overrides", "asked"),
    [
        ({"learner.ranks": 5000, "device": "cpu"}, "learner.ranks = 5000"),
        ({"rollout.workers": 5000}, "rollout.workers = 5000, rollout.cpus = 1"),
        ({"rollout.workers": 2, "rollout.cpus": 2500}, "rollout.workers = 2, rollout.cpus = 2500"),
    ],
)
def test_more_processes_than_the_machine_holds_are_refused(
    monkeypatch: pytest.MonkeyPatch, overrides: dict[str, object], asked: str
) -> None:
    monkeypatch.setattr("mage.models.device.num_cores", lambda: 3)
    with pytest.raises(ConfigError, match=f"{asked}: {TOO_MANY}"):
        check_start(load_config("rps", overrides))


def test_more_jobs_than_the_machine_holds_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("mage.models.device.num_cores", lambda: 3)
    with pytest.raises(ConfigError, match=f"jobs = 5000: {TOO_MANY}"):
        run_sweep(tmp_path, plain_console(quiet=True), 5000)
    check_processes("jobs = 12", 12)
