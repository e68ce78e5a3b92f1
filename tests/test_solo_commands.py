"""The commands on worlds of one seat: what they print, and what they refuse in one line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mage.cli import app
from mage.errors import MageError
from mage.runs.store import RunReader
from mage.types import Trial
from tests.hidden_number import NAME, OPEN_NAME


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def mage(line: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, shlex.split(line), input=stdin, env={"COLUMNS": "100"})


def printed(line: str, stdin: str = "") -> str:
    done = mage(line, stdin)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_registered_worlds_are_listed_with_parameters_and_seats() -> None:
    told = printed("list worlds")
    assert "hidden_number  highest_number=8; 1 seat" in told
    assert "A hidden number, the same in all episodes" in told
    assert "kuhn_poker" in told


def test_a_world_of_one_seat_is_played_in_the_terminal_without_opponents() -> None:
    told = printed(f"play {NAME} --level 3 --episodes 2 --run mine", "4\n?\n2\n3\nbelow four\n3\n")
    assert "It is lower than 4." in told
    assert told.count("A number from 1 to 8 is hidden.") == 2
    assert "win" in told
    trial = RunReader(Path("mine")).trial(0)
    assert isinstance(trial, Trial)
    assert (trial.task.level, trial.task.opponents, trial.scores) == ("3", (), (1.0, 1.0))
    assert trial.reflections[0].action == "below four"


def test_open_actions_are_typed_in_the_terminal() -> None:
    told = printed(f"play {OPEN_NAME} --level red --episodes 1 --run mine", "\nblue\nred\n")
    assert "Type what you want to do." in told
    assert "It is not blue." in told
    trial = RunReader(Path("mine")).trial(0)
    assert isinstance(trial, Trial)
    assert [turn.action for turn in trial.episodes[0].turns] == ["blue", "red"]
    assert "may play" not in printed("show mine 0")


def test_an_evaluation_draws_levels_by_seed_or_takes_those_that_are_given() -> None:
    assert "levels drawn by seed; hidden_number" in printed(f"evaluate uniform --world {NAME} --trials 3 -o drawn")
    told = printed(f"evaluate scripted:first --world {NAME} --level 1 --level 5 --trials 2 -o given")
    assert ": 1, 5; hidden_number, 3 episodes, seat 0" in told
    assert [summary.level for summary in RunReader(Path("given")).summaries()] == ["1", "1", "5", "5"] * 2
    listed = printed("show given")
    assert "level" in listed
    assert "against" not in listed
    assert "level     1" in printed("show given 0")


def test_splits_of_levels_are_evaluated_compared_and_exported() -> None:
    assert "2, 7 in hidden_number, hash" in printed(f"split some.json 2 7 --world {NAME}")
    assert "levels drawn by seed in hidden_number, hash" in printed(f"split drawn.json --world {NAME}")
    for agent, folder in (("uniform", "a"), ("bayes-optimal", "b")):
        printed(f"evaluate {agent} --opponents some.json --opponents drawn.json --trials 2 -o {folder}")
    told = printed("compare a b -o together")
    assert "some: hidden_number, 3 episodes, seat 0" in told
    assert "bayes-optimal" in told
    printed("export a -o page.html")
    assert Path("page.html").exists()


def test_the_terminal_says_what_stays_the_same_in_a_trial() -> None:
    sentence = "every mine stays where it is"
    assert sentence in " ".join(printed("play 'minesweeper(2,2,1)' --episodes 2 --run two", "q\n").split())
    assert sentence not in " ".join(printed("play 'minesweeper(2,2,1)' --episodes 1 --run one", "q\n").split())


def test_trials_of_a_recipe_are_played_on_levels() -> None:
    lines = (
        f'world = "{NAME}"',
        "trials = 3",
        "[population]",
        'members = ["4"]',
        "[agent]",
        'model = "scripted:first"',
    )
    Path("mine.toml").write_text("\n".join(lines), encoding="utf-8")
    told = printed("trials mine.toml --run played")
    assert "level     4" in told
    assert {summary.level for summary in RunReader(Path("played")).summaries()} == {"4"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"duel uniform uniform --world {NAME}", "a duel needs opponents, and hidden_number has one seat"),
        (f"cross-play uniform copy --world {NAME}", "cross-play needs a world with two seats; hidden_number has 1"),
        (f"nashconv uniform --world {NAME}", "only OpenSpiel's games have; hidden_number is none"),
        (f"nashconv uniform --world {NAME} --learn 10", "only OpenSpiel's games have; hidden_number is none"),
        (f"play {NAME} --against copy", "hidden_number has one seat and no opponents"),
        ("play rps", "rps has 2 seats; name an opponent with --against"),
        ("play rps --against copy --level 3", "rps has no level '3'"),
        (f"play {NAME} --level 9", "unknown level '9'"),
        (f"evaluate copy --world {NAME}", "'copy' plays games with opponents"),
        (f"evaluate uniform --world {OPEN_NAME}", "in this world any text is an action"),
        (f"evaluate scripted:first --world {OPEN_NAME}", "agent.reply = choice: any text is an action"),
        ("evaluate uniform --world nope", "unknown world 'nope'; registered: "),
        ("evaluate uniform --world rps", "name opponents to evaluate against"),
        ("split mine.json --world rps", "needs at least one member"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(line: str, reason: str) -> None:
    done = mage(line)
    assert isinstance(done.exception, MageError)
    assert reason in str(done.exception)
    assert "\n" not in str(done.exception)
