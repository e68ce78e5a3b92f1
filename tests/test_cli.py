"""The command line as people use it: real processes, real terminals, one-line errors."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mage import __version__
from mage.cli import COMMANDS, app, load_command
from mage.evaluation.duel import Duel
from mage.runs.index import TRIALS
from mage.runs.store import RunReader, RunWriter
from mage.types import Failure, Trial
from tests.recorded import failure

MAGE = [sys.executable, "-c", "from mage.cli import main; main()"]


def mage(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        [*MAGE, *arguments], cwd=cwd, input=stdin, capture_output=True, text=True, env=env, check=False
    )


def only_run(folder: Path) -> Path:
    (path,) = (folder / "runs").iterdir()
    return path


def test_help_is_instant_because_nothing_heavy_is_imported() -> None:
    code = """
import sys
from typer.testing import CliRunner
from mage.cli import app
assert CliRunner().invoke(app, ["--help"]).exit_code == 0
print(sorted({"pyspiel", "torch", "pydantic", "numpy", "msgspec", "transformers"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    "name", ["list", "show", "duel", "evaluate", "train", "sweep", "export-model", "view", "compare"]
)
def test_a_command_is_loaded_without_torch(name: str) -> None:
    code = f"""
import sys
from mage.cli import load_command
load_command({name!r})
print(sorted({{"torch", "transformers", "matplotlib", "starlette"}} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_begins_its_help_as_the_list_of_commands_has_it(name: str) -> None:
    assert load_command(name).help.split(". ")[0].rstrip(".") + "." == COMMANDS[name]
    shown = CliRunner().invoke(app, [name, "--help"])
    assert (shown.exit_code, "Usage: " in shown.stdout) == (0, True)


def test_an_unknown_command_is_answered_with_a_known_one() -> None:
    result = CliRunner().invoke(app, ["evalute"])
    assert result.exit_code == 2
    assert "No such command 'evalute'. Did you mean 'evaluate'" in result.output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("train rps --max-minutes abc", "--max-minutes abc: Input should be a valid number, .* (mage train --help)"),
        ("value rps --episodes=0", "--episodes 0: Input should be greater than or equal to 1 (mage value --help)"),
        ("train rps --sedes 3", "No such option: --sedes.* (mage train --help)"),
        ("plan rps --gpus 1 --gpus x", "--gpus x: Input should be a valid integer, .* (mage plan --help)"),
        ("plan rps --gpus", "Option '--gpus' requires an argument (mage plan --help)"),
        ("value", "Missing argument 'WORLD' (mage value --help)"),
        ("evalute", "No such command 'evalute'. Did you mean 'evaluate'.* (mage --help)"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(given: str, said: str, tmp_path: Path) -> None:
    done = mage(*given.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch("mage: " + re.escape(said).replace(re.escape(".*"), ".*") + "\n", done.stderr), done.stderr


def test_no_command_at_all_is_answered_with_the_help(tmp_path: Path) -> None:
    done = mage(cwd=tmp_path)
    assert done.returncode == 2
    assert "cross-play" in done.stdout + done.stderr


def test_a_world_may_be_given_as_a_game(tmp_path: Path) -> None:
    done = mage("duel", "uniform", "copy", "--game", "rps(rounds=1)", "--trials", "2", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "uniform against copy at rps(rounds=1)" in done.stdout


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"mage {__version__}\n")


def test_lists() -> None:
    games = CliRunner().invoke(app, ["list", "worlds"]).stdout
    assert "kuhn_poker  players=2, reworded" in games
    assert "leduc_poker" not in games
    assert "leduc_poker" in CliRunner().invoke(app, ["list", "worlds", "--all"]).stdout
    opponents = CliRunner().invoke(app, ["list", "opponents"]).stdout
    assert "mcts  simulations=100" in opponents
    assert re.findall(r"^\S+  .*\n(?= *\n|\S+  )", opponents, re.MULTILINE) == [], "every entry is described"
    recipes = CliRunner().invoke(app, ["list", "recipes"]).stdout
    assert re.findall(r"^(\w+): ", recipes, re.MULTILINE) == ["Worlds", "Models", "Methods", "Variants", "Tuned"]
    assert "rps  CPU, 3 minutes\n" in recipes
    assert "smollm2  GPU\n" in recipes
    splits = CliRunner().invoke(app, ["list", "splits"]).stdout
    assert "Unseen families" in splits
    assert "rps-switching" in splits
    models = CliRunner().invoke(app, ["list", "models"]).stdout
    assert "nano" in models
    assert "Always the first choice" in models


def test_a_duel_prints_its_table_and_saves_its_trials(tmp_path: Path) -> None:
    done = mage("duel", "minimax", "uniform", "--world", "tic_tac_toe", "--trials", "5", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "minimax against uniform at tic_tac_toe" in done.stdout
    losses = [line.split() for line in done.stdout.splitlines() if "loss rate" in line]
    assert [words[2:4] for words in losses] == [["0.0", "%"]] * 3
    assert "\x1b" not in done.stdout
    run = only_run(tmp_path)
    assert f"mage show {run.relative_to(tmp_path)}" in done.stdout
    reader = RunReader(run)
    assert len(reader.summaries()) == 10
    assert reader.info.kind == "duel"
    assert reader.info.config == {
        "player": "minimax",
        "opponents": ["uniform"],
        "world": "tic_tac_toe",
        "trials": 5,
        "episodes": 1,
        "seed": 0,
        "max_turns": 1000,
    }
    assert set(reader.info.config) == set(Duel.__struct_fields__)


def test_duels_repeat_exactly(tmp_path: Path) -> None:
    arguments = ("duel", "uniform", "intermediate", "--world", "kuhn_poker", "--trials", "20", "--seed", "4")
    for name in ("a", "b"):
        assert mage(*arguments, "--run", name, cwd=tmp_path).returncode == 0
    assert (tmp_path / "a" / TRIALS).read_bytes() == (tmp_path / "b" / TRIALS).read_bytes()


def test_show_lists_and_reads(tmp_path: Path) -> None:
    mage("duel", "uniform", "aggressive", "--world", "kuhn_poker", "--trials", "30", "--run", "run", cwd=tmp_path)
    listed = mage("show", "run", "--limit", "7", cwd=tmp_path)
    assert listed.returncode == 0
    assert "run: duel, 60 trials, seed 0" in listed.stdout
    assert "agent uniform, against aggressive" in listed.stdout
    assert "… and 53 more" in listed.stdout
    one = mage("show", "run", "59", cwd=tmp_path)
    assert one.stdout.startswith("Trial 59 of run ─")
    assert "The game is Kuhn poker" in one.stdout
    assert "opponent  seat 0 · aggressive" in one.stdout


def test_show_says_what_is_broken(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", kind="test", config={}, seed=0) as writer:
        writer.append(failure("[red]odd[/red]"))
        writer.append(failure())
    os.truncate(tmp_path / "run" / TRIALS, (tmp_path / "run" / TRIALS).stat().st_size - 3)
    shown = mage("show", "run", cwd=tmp_path)
    assert shown.returncode == 0
    assert "mage: run: the last line of trials.jsonl is incomplete" in shown.stderr
    assert "failed: PlayError: [red]odd[/red]" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("show nowhere", "nowhere does not exist; a run is a directory with a run.json"),
        ("show .", ". is not a run; a run is a directory with a run.json"),
        ("train kuhn_poker", "'kuhn_poker' is a world, and a recipe is needed"),
        ("train hidden(scout) --dry-run", "as in: mage train doors 'world=hidden(scout)'"),
        (
            "sweep kuhn_poker",
            "as in: mage train rps 'world=kuhn_poker' population.split= 'population.members=[\"uniform\"]'",
        ),
        ("duel nobody uniform --world kuhn_poker", "unknown opponent 'nobody'; known: aggressive"),
        ("duel uniform uniform --world chesss", "unknown world 'chesss'; "),
        ("duel uniform( uniform --world chess", "cannot read the spec 'uniform('"),
        ("duel uniform uniform uniform --world chess", "chess takes 1 opponent for all other seats or 1"),
        ("duel uniform minimax --world kuhn_poker", "minimax"),
        ("play kuhn_poker --against uniform --seat 2", "seat 2 does not exist; kuhn_poker has seats 0 to 1"),
        ("play kuhn_poker --against uniform --run .", ". is not empty"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing_behind(tmp_path: Path, arguments: str, message: str) -> None:
    (tmp_path / "file").write_text("")
    done = mage(*arguments.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mage: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    duel = [*MAGE, "duel", "uniform", "uniform", "--world", "kuhn_poker", "--trials", "500", "--run", "run"]
    command = f"ulimit -f 16; {shlex.join(duel)}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mage: cannot write to run: File too large\n"
    reader = RunReader(tmp_path / "run")
    assert reader.damage == ()
    assert reader.summaries()


def test_usage_errors_name_the_option(tmp_path: Path) -> None:
    done = mage("duel", "uniform", "uniform", "--world", "kuhn_poker", "--trials", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert "--trials" in done.stderr
    assert "Traceback" not in done.stderr


def test_episodes_that_were_stopped_are_counted_apart(tmp_path: Path) -> None:
    done = mage(
        "duel", "uniform", "uniform", "--world", "kuhn_poker", "--trials", "2", "--max-turns", "1", cwd=tmp_path
    )
    assert done.returncode == 0
    assert "Not counted above: 4 episodes too long and stopped." in done.stdout


def test_a_person_plays_through_a_pipe(tmp_path: Path) -> None:
    moves = "1\n2\n2\nalways rock\n2\n2\n2\n"
    arguments = ("play", "rps", "--against", "always:rock", "--episodes", "2", "--seed", "1")
    done = mage(*arguments, cwd=tmp_path, stdin=moves)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.index("The game is rock-paper-scissors") < done.stdout.index("Episode 1 of 2")
    assert "seat 0 · person" in done.stdout
    trial = RunReader(only_run(tmp_path)).trial(0)
    assert isinstance(trial, Trial)
    assert trial.scores == (2 / 3, 1.0)
    assert [r.action for r in trial.reflections] == ["always rock"]
    shown = mage("show", str(only_run(tmp_path)), "0", cwd=tmp_path)
    assert "writes    always rock" in shown.stdout


def test_leaving_saves_finished_episodes_only(tmp_path: Path) -> None:
    arguments = ("play", "rps(rounds=1)", "--against", "uniform", "--replay-deal", "--seat", "1")
    left = mage(*arguments, "--run", "early", cwd=tmp_path, stdin="q\n")
    assert left.returncode == 0
    assert "No episode was finished, so nothing was saved." in left.stdout
    assert list(tmp_path.iterdir()) == []
    assert mage(*arguments, "--run", "later", cwd=tmp_path, stdin="1\n\n1\n").returncode == 0
    trial = RunReader(tmp_path / "later").trial(0)
    assert isinstance(trial, Trial)
    assert (len(trial.episodes), trial.task.replay_deal, trial.task.seat) == (2, True, 1)


def test_ctrl_c_at_the_prompt_of_a_real_terminal_saves(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [*MAGE, "play", "rps(rounds=1)", "--against", "uniform", "--run", "run"])
    seen = b""
    for wanted, answer in ((b"Your move", b"rock\n"), (b"A note", b"\n"), (b"Your move", b"\x03")):
        seen += read_until(terminal, wanted)
        time.sleep(0.2)  # A person reads before typing.
        os.write(terminal, answer)
    seen += read_until(terminal, b"mage show run 0")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"\x1b[" in seen, "a terminal gets colours"
    assert b"Traceback" not in seen
    assert len(RunReader(tmp_path / "run").summaries()[0].scores) == 1


def read_until(terminal: int, wanted: bytes) -> bytes:
    data = b""
    deadline = time.monotonic() + 60
    while wanted not in data:
        assert select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0], data
        data += os.read(terminal, 4096)
    return data


def test_ctrl_c_in_a_duel_exits_130_and_keeps_what_was_played(tmp_path: Path) -> None:
    arguments = [*MAGE, "duel", "uniform", "uniform", "--world", "leduc_poker", "--trials", "1000000", "--run", "run"]
    child = subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    trials = tmp_path / "run" / TRIALS
    deadline = time.monotonic() + 60
    while not (trials.exists() and trials.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    stdout, stderr = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "stopped" in stdout
    assert "Traceback" not in stderr
    reader = RunReader(tmp_path / "run")
    assert reader.damage == ()
    assert reader.summaries()
    assert not any(isinstance(outcome, Failure) for outcome in reader.trials())


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    mage("duel", "uniform", "uniform", "--world", "kuhn_poker", "--trials", "500", "--run", "run", cwd=tmp_path)
    command = f"{shlex.join([*MAGE, 'show', 'run', '--limit', '1000'])} | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("run: duel")
    assert done.stderr == ""
