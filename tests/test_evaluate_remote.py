"""`mage evaluate` with remote models over real HTTP: budgets, failures, a kill, opponents, and a secret key."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from mage.cli import app
from mage.config.load import load_config
from mage.errors import ConfigError, EngineError, PlayError
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report import read_report
from mage.files import count_lines, read_lines
from mage.models.address import read_address
from mage.models.load import load_model
from mage.opponents.registry import check_opponent
from mage.runs.store import RunReader
from mage.training.start import check_start
from mage.types import Failure, Trial
from mage.worlds.openspiel.game import load_game
from tests.chat_server import Asked, ChatServer, Said, always, first_action
from tests.processes import quiet_environment
from tests.seated import HOSTILE

SECRET = "sk-very-secret-0123456789"
RPS = ("--world", "rps(rounds=2)", "--opponents", "always:rock", "--opponents", "copy")
SMALL = (*RPS, "--trials", "2", "--episodes", "2", "--seat", "0", "--memory", "history", "-o", "out")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test does, the key is in nothing that was written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAGE_API_KEY", SECRET)
    yield
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []
    tokens = ",".join(str(byte) for byte in SECRET.encode()).encode()
    assert [path for path in written if tokens in path.read_bytes().replace(b" ", b"")] == [], "nor in its bytes"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with ChatServer() as server:
        monkeypatch.setenv("MAGE_API_HOSTS", server.host)
        yield server


def evaluate(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, ["evaluate", *map(str, arguments)])
    assert SECRET not in result.output + str(result.exception)
    return result


def done(*arguments: str | Path) -> str:
    result = evaluate(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def report() -> SplitReport:
    (only,) = read_report(Path("out") / "report.json", SplitReport).reports
    return only


def lasting() -> dict[str, Any]:
    values = json.loads((Path("out") / "report.json").read_bytes())
    return {key: value for key, value in values.items() if key not in ("seconds", "command")}


def test_a_remote_model_is_judged_like_any_other(server: ChatServer) -> None:
    output = done(server.agent, *SMALL)
    assert f"the key in MAGE_API_KEY is sent to {server.url}" in output
    found = report()
    assert (found.num_trials, found.failures, found.agent.invalid, found.agent.forfeits) == (4, 0, 0, 0)
    assert dict(found.by_member)["always(rock)"][0].value == 0.0, "it plays rock too"
    assert len(server.asked) == 2 * 4 * 2 * 2
    whole = read_report(Path("out") / "report.json", SplitReport)
    assert (whole.eval_agent["kind"], whole.eval_agent["model"]) == ("remote", server.agent)
    (usage,) = read_lines(Path("out") / "usage.jsonl")
    assert usage["calls"] == len(server.asked)


def test_no_more_trials_are_under_way_than_told(server: ChatServer) -> None:
    server.answer = lambda asked: first_action(asked)._replace(delay_s=0.01)
    done(server.agent, *SMALL, "--concurrency", "2")
    assert server.at_once == 2


def test_few_trials_are_under_way_with_a_remote_opponent_too(server: ChatServer) -> None:
    """A kill loses what is under way, which was paid for."""
    spent = evaluate("uniform", "--world", "rps(rounds=1)", "--opponents", server.agent, "--trials", "40", "--seat",
                     "0", "--episodes", "2", "--max-calls", "45", "-o", "out")  # fmt: skip
    assert str(spent.exception) == "the budget of 45 remote calls is spent"
    # Sixteen under way have sent two calls each at most, which leaves seven that are done. Of forty at once, all would
    # have sent one before any sends its second: two could be done.
    assert count_lines(Path("out") / "trials.jsonl") > 5, "and not all forty half-way"


def test_a_budget_that_is_spent_ends_it_and_it_goes_on_to_the_same_report(server: ChatServer) -> None:
    done(server.agent, *SMALL)
    unbroken = lasting()
    for path in sorted(Path("out").iterdir()):
        path.unlink()
    stopped = evaluate(server.agent, *SMALL, "--max-calls", "10", "--concurrency", "1")
    assert isinstance(stopped.exception, EngineError)
    assert str(stopped.exception) == "the budget of 10 remote calls is spent"
    assert "what was played is saved; go on with  mage evaluate --resume out" in stopped.output
    assert not (Path("out") / "report.json").exists()
    outcomes = list(RunReader(Path("out")).trials())
    assert len(outcomes) == 2
    assert all(isinstance(outcome, Trial) for outcome in outcomes), "what the budget ended is no failure"
    again = evaluate("--resume", "out", "--max-calls", "4", "--concurrency", "1")
    assert isinstance(again.exception, EngineError)
    done("--resume", "out", "--max-calls", "1000")
    assert lasting() == unbroken
    assert [line["calls"] for line in read_lines(Path("out") / "usage.jsonl")] == [10, 4, 20]


def test_a_budget_of_tokens_ends_it_too(server: ChatServer) -> None:
    server.answer = lambda asked: first_action(asked)._replace(usage={"total_tokens": 100})
    stopped = evaluate(server.agent, *SMALL, "--max-remote-tokens", "950", "--concurrency", "1")
    assert str(stopped.exception) == "the budget of 950 remote tokens is spent"
    assert len(server.asked) == 10


def test_a_key_that_is_refused_leaves_nothing_behind(server: ChatServer) -> None:
    server.answer = lambda asked: Said(status=401, raw=f"no such key: {asked.headers['Authorization']}".encode())
    result = evaluate(server.agent, *SMALL)
    assert "answers 401: no such key: Bearer [the key]" in str(result.exception)
    assert not Path("out").exists()


def test_calls_that_fail_are_recorded_and_may_be_tried_again(server: ChatServer) -> None:
    def broken(asked: Asked) -> Said:
        if "opponent rock" in asked.body["messages"][-1]["content"]:
            return Said(status=422, raw=b"cannot")
        return first_action(asked)

    server.answer = broken
    done(server.agent, *["always:paper" if argument == "copy" else argument for argument in SMALL])
    assert (report().num_trials, report().failures) == (2, 2), "those against rock"
    failures = [o for o in RunReader(Path("out")).trials() if isinstance(o, Failure)]
    assert len(failures) == 4, "with memory and without"
    assert all(failure.error == "EngineError" and "answers 422: cannot" in failure.message for failure in failures)
    server.answer = first_action
    done("--resume", "out")
    assert report().failures == 2, "what failed stays so"
    done("--resume", "out", "--retry-failed")
    assert (report().failures, report().num_trials) == (0, 4)
    done("--resume", "out")
    assert report().failures == 0, "the later outcome counts"


def test_failures_outlast_a_retry_that_breaks_off(server: ChatServer) -> None:
    server.answer = always(Said(status=400, raw=b"cannot"))
    failed = evaluate(server.agent, *SMALL)
    assert isinstance(failed.exception, PlayError)
    assert "mage evaluate --resume out --retry-failed" in failed.output, "to go on without would fail again"
    num = count_lines(Path("out") / "trials.jsonl")
    server.answer = always(Said(status=401, raw=b"no"))
    stopped = evaluate("--resume", "out", "--retry-failed")
    assert isinstance(stopped.exception, EngineError)
    assert "what was played is saved" in stopped.output
    assert count_lines(Path("out") / "trials.jsonl") == count_lines(Path("out") / "arms.jsonl") == num
    assert isinstance(evaluate("--resume", "out").exception, PlayError), "they still count as failures"
    assert list(Path("out").glob("*.superseded")) == []


def test_a_meeting_that_breaks_off_says_how_it_goes_on(server: ChatServer) -> None:
    command = ["cross-play", server.agent, "copy", "--world", "rps(rounds=2)", "--episodes", "1", "--trials", "4"]
    stopped = CliRunner().invoke(app, [*command, "--max-calls", "5", "--concurrency", "1", "-o", "out"])
    assert str(stopped.exception) == "the budget of 5 remote calls is spent"
    assert "what was played is saved; go on with  the same command and  -o out" in stopped.output
    assert CliRunner().invoke(app, [*command, "-o", "out"]).exit_code == 0
    assert [line["calls"] for line in read_lines(Path("out") / "usage.jsonl")] == [5, 2 * 4 * 2 - 4]


def test_trouble_and_hostile_text_are_survived(server: ChatServer) -> None:
    troubles = [
        Said(status=429, raw=b"", headers={"Retry-After": "0"}),
        Said(raw=b'{"choices": [{"mess'),
        Said("\x1b[2J <action>rock", delay_s=0.6),
        *map(Said, (*HOSTILE, "y" * 2_000_000, f"the key is {SECRET}")),
    ]

    def nasty(asked: Asked) -> Said:
        place = asked.number % 40
        return troubles[place] if place < len(troubles) else first_action(asked)

    server.answer = nasty
    done(server.agent, *SMALL, "--timeout", "0.5", "--memory", "both")
    found = report()
    assert found.num_trials + found.failures == 4
    assert found.agent.invalid + found.control.invalid > 0
    shown = CliRunner().invoke(app, ["show", "out", "0"], catch_exceptions=False)
    assert shown.exit_code == 0
    assert "\x1b[2J" not in shown.output


def test_a_killed_evaluation_goes_on_to_the_same_report(server: ChatServer) -> None:
    done(server.agent, *SMALL)
    unbroken = lasting()
    for path in sorted(Path("out").iterdir()):
        path.unlink()
    server.answer = lambda asked: first_action(asked)._replace(delay_s=0.03)
    code = "from mage.cli import main; main()"
    command = [sys.executable, "-c", code, "evaluate", server.agent, *SMALL, "--concurrency", "2"]
    process = subprocess.Popen(command, env=quiet_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while count_lines(Path("out") / "trials.jsonl") < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    assert process.wait() < 0, "it was killed in the middle"
    assert 3 <= count_lines(Path("out") / "trials.jsonl") < 8
    before = len(server.asked)
    done("--resume", "out")
    assert lasting() == unbroken
    assert len(server.asked) - before < 2 * 4 * 2 * 2, "only what was missing"


def test_a_remote_model_can_be_an_opponent(server: ChatServer) -> None:
    done("scripted:counter", "--world", "rps(rounds=2)", "--opponents", server.agent, "--trials", "2", "--seat", "1",
         "--memory", "history", "-o", "out")  # fmt: skip
    found = report()
    (member,) = found.members
    assert member == str(read_address(server.agent).spec) == f'remote(model=toy,url="{server.url}")'
    assert (found.num_trials, found.failures) == (2, 0)
    assert [score.value for score in found.agent.scores] == [0.0, 1.0, 1.0], "it always plays rock"
    ((_, exact),) = found.references
    assert (exact.memoryless, exact.bayes_last, exact.best_response) == (None, None, {})
    assert "has no probabilities that could be read" in exact.missing["memoryless"]
    longest = max((asked.body["messages"] for asked in server.asked), key=len)
    assert "Episode 2 is over" in json.dumps(longest), "it remembers the trial as well"
    assert "counter" not in json.dumps([asked.body for asked in server.asked]), "and does not know whom it meets"
    spent = evaluate(
        "scripted:counter", "--world", "rps", "--opponents", server.agent, "--max-calls", "3", "-o", "less"
    )
    assert str(spent.exception) == "the budget of 3 remote calls is spent"


def test_a_remote_opponent_may_be_written_without_names(server: ChatServer) -> None:
    output = done("uniform", "--world", "rps(rounds=2)", "--opponents", f'remote("{server.url}", toy)', "--trials", "1",
                  "--episodes", "1", "-o", "out")  # fmt: skip
    assert f"the key in MAGE_API_KEY is sent to {server.url}" in output
    assert report().num_trials == 2


def test_a_remote_model_can_duel(server: ChatServer) -> None:
    spec = str(read_address(server.agent).spec)
    for players in ((spec, "always:paper"), ("always:paper", spec)):
        result = CliRunner().invoke(app, ["duel", *players, "--world", "rps(rounds=2)", "--trials", "2"])
        assert result.exit_code == 0, (result.output, result.exception)
    assert "remote" in CliRunner().invoke(app, ["list", "opponents"]).output


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("remote", "missing 'url'"),
        ('remote(url="http://host/v1",model=toy,memory=all)', "memory must be one of both, history, none, reflections"),
        ('remote(url="http://host/v1",model=toy,temperature=hot)', "temperature must be a number from 0 to 10"),
        ('remote(url="http://host/v1",model=toy,max_tokens=0)', "max_tokens must be a whole number from 1"),
        (f'remote(url="http://me:{SECRET}@host/v1",model=toy)', "holds a user, a password or a query"),
        ('best-response(remote(url="http://host/v1",model=toy))', "has no probabilities that could be read"),
    ],
)
def test_remote_opponents_that_cannot_play_are_refused(spec: str, why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_opponent(spec, load_game("kuhn_poker"), 0)
    assert why in str(raised.value)


def test_a_remote_model_is_no_part_of_a_mixture(server: ChatServer) -> None:
    mixture = f'mixture(copy,remote(url="{server.url}",model=toy))'
    result = evaluate("uniform", "--world", "rps", "--opponents", mixture, "--trials", "1", "-o", "out")
    assert "it can be an opponent, but not a part of one" in str(result.exception)
    assert server.asked == []


def test_a_remote_model_cannot_learn() -> None:
    with pytest.raises(ConfigError, match="a remote model cannot be trained; it can be evaluated, or be an opponent"):
        load_model("remote:http://host/v1#toy")
    with pytest.raises(ConfigError, match="a remote model cannot be trained"):
        check_start(load_config("rps", ["agent.model=remote:http://host/v1#toy"]))


def test_choices_are_refused_before_anything_is_asked(server: ChatServer) -> None:
    result = evaluate(server.agent, *SMALL, "--reply", "choice")
    assert "a remote model cannot be held to a choice; use text" in str(result.exception)
    assert server.asked == []
