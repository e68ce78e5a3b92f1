"""`mage evaluate`: anybody on any opponents, written down trial by trial, resumed to the same report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import mage
from mage.cli import app
from mage.errors import ConfigError, MageError
from mage.evaluation.eval_agent import load_eval_agent
from mage.evaluation.exact import references
from mage.evaluation.plan import EvaluationRequest, make_plan, read_plan, split_of_opponents
from mage.evaluation.resource_limits import ResourceLimits
from mage.evaluation.run import begin_evaluation
from mage.evaluation.splits import load_split, write_split
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report import EvaluationReport, read_report
from mage.evaluation.trial_log import TrialLog
from mage.files import count_lines, read_lines
from mage.runs.console import progress_bar
from mage.runs.store import RunReader
from mage.training.run import create_run_directory, train_run
from mage.types import Trial
from tests.tiny import tiny_config

COUNTER = ("scripted:counter", "--memory", "history")
RPS = ("--world", "rps(rounds=3)", "--opponents", "always:rock", "--opponents", "copy")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def evaluate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def done(*arguments: str | Path) -> str:
    result = evaluate(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def refused(*arguments: str | Path) -> str:
    result = evaluate(*arguments)
    assert isinstance(result.exception, MageError), result.output
    assert not Path("runs").exists(), "a failure leaves no directory"
    return str(result.exception)


def report_in(folder: Path) -> EvaluationReport[SplitReport]:
    return read_report(folder / "report.json", SplitReport)


def lasting(folder: Path) -> dict[str, Any]:
    """A report without what depends on the clock and on where it lies."""
    values = json.loads((folder / "report.json").read_bytes())
    return {key: value for key, value in values.items() if key not in ("seconds", "command")}


def test_opponents_that_are_given_are_one_hashed_split_with_equal_weights() -> None:
    output = done(*COUNTER, *RPS, "--trials", "4", "--seat", "0", "-o", "out")
    found = report_in(Path("out"))
    (report,) = found.reports
    split = split_of_opponents("rps(rounds=3)", ["always:rock", "copy"])
    assert (report.split, report.sha256) == (split.name, split.sha256)
    assert split.name == split_of_opponents("rps", ["always:rock", "copy"]).name, "however the world is written"
    assert (report.num_trials, report.failures, report.seats, report.episodes) == (8, 0, (0,), 3)
    ((_, exact),) = report.references
    assert exact == references("rps(rounds=3)", [("always:rock", 1.0), ("copy", 1.0)], 0, 3)
    assert report.over_control.is_over(0.0)
    assert (found.eval_agent["name"], found.eval_agent["memory"], found.step) == ("scripted:counter", "history", 0)
    assert set(found.seconds[split.name]) == {"agent", "control"}
    assert (found.config["world"], found.config["evaluation"]["final_trials"]) == ("rps(rounds=3)", 4)
    assert found.config["trial"]["seats"] == [0]
    assert split.name in output
    assert "look with  mage show out" in output


def test_names_and_specs_may_be_mixed_and_all_seats_are_played() -> None:
    write_split("mine.json", "kuhn_poker", ["uniform"])
    names = ("kuhn-scripts", "conservative", "mine.json", "always:bet")
    opponents = [argument for name in names for argument in ("--opponents", name)]
    done("uniform", *opponents, "--world", "kuhn_poker", "--trials", "1", "--episodes", "1", "-o", "out")
    reports = report_in(Path("out")).reports
    assert [report.split for report in reports[:2]] == ["kuhn-scripts", "mine"]
    assert reports[2].members == ("conservative", "always(bet)")
    assert {report.seats for report in reports} == {(0, 1)}
    assert [report.num_trials for report in reports] == [6, 2, 4]


def test_the_same_command_gives_the_same_report_and_another_seed_another() -> None:
    for name, more in (("a", ()), ("b", ()), ("c", ("--seed", "5"))):
        done("uniform", *RPS, "--trials", "3", *more, "-o", name)
    assert lasting(Path("a")) == lasting(Path("b"))
    assert lasting(Path("a"))["reports"] != lasting(Path("c"))["reports"]
    assert report_in(Path("c")).seed == 5


def test_concurrency_changes_nothing() -> None:
    for number in ("1", "3", "1000"):
        done(*COUNTER, *RPS, "--trials", "3", "--concurrency", number, "-o", number)
    assert lasting(Path("1")) == lasting(Path("3")) == lasting(Path("1000"))


def test_every_trial_can_be_looked_at() -> None:
    done(*COUNTER, *RPS, "--trials", "2", "--seat", "1")
    (folder,) = Path("runs").iterdir()
    assert folder.name.endswith("-evaluate-scripted_counter")
    trials = list(RunReader(folder).trials())
    assert len(trials) == 8
    assert [trial.agent.memory for trial in trials if isinstance(trial, Trial)] == ["history"] * 4 + ["none"] * 4
    listed = CliRunner().invoke(app, ["show", str(folder)], catch_exceptions=False)
    assert "evaluate, 8 trials" in listed.output
    arms = [line.split()[1] for line in listed.output.splitlines() if "always(rock)" in line or "copy" in line]
    assert arms == ["agent"] * 4 + ["control"] * 4
    words = " ".join(listed.output.split())
    (report,) = report_in(folder).reports
    for arm, metrics in (("agent", report.agent), ("control", report.control)):
        assert f"{arm}: episode 1: {metrics.scores[0].value:+.2f}" in words, "arms do not go into one mean"
    one = CliRunner().invoke(app, ["show", str(folder), "0"], catch_exceptions=False)
    assert "Episode 3 of 3" in one.output


def test_a_long_trial_overflows_its_context_and_recovers() -> None:
    """Thirty episodes where ten fit: what is learned is still used in the last one, and nothing fails."""
    done("scripted:counter", *RPS, "--episodes", "30", "--trials", "2", "--seat", "0", "--memory", "history",
         "--context", "2500", "-o", "out")  # fmt: skip
    (report,) = report_in(Path("out")).reports
    assert (report.episodes, report.failures, report.num_trials) == (30, 0, 4)
    assert report.agent.overflows > 4 * 2, "each trial, more than once"
    assert report.agent.forfeits == report.agent.invalid == 0
    rock = dict(report.by_member)["always(rock)"]
    assert [score.value for score in rock] == [0.0] + [1.0] * 29
    trials = [trial for trial in RunReader(Path("out")).trials() if isinstance(trial, Trial)]
    assert all(len(stream) <= 2500 for trial in trials for stream in trial.streams)
    assert all(len(trial.episodes) == 30 for trial in trials)
    assert max(max(trial.overflows, default=0) for trial in trials) > 20, "it goes on overflowing and recovering"


def truncated(path: Path, share: float) -> None:
    """Leave the beginning of a file, as a kill would."""
    path.write_bytes(path.read_bytes()[: int(len(path.read_bytes()) * share)])


@pytest.mark.parametrize(
    ("trials", "arms", "index"), [(0.3, 0.3, 0.3), (0.5, 1.0, 0.4), (0.9, 0.2, 1.0), (0.0, 0.0, 0.0), (1.0, 0.97, 1.0)]
)
def test_a_killed_evaluation_goes_on_to_the_same_report(trials: float, arms: float, index: float) -> None:
    done("scripted:counter", *RPS, "--opponents", "rps-constants", "--trials", "3", "-o", "whole")
    whole = lasting(Path("whole"))
    for name, share in (("trials.jsonl", trials), ("arms.jsonl", arms), ("index.jsonl", index)):
        truncated(Path("whole") / name, share)
    (Path("whole") / "report.json").unlink()
    output = done("--resume", "whole")
    assert lasting(Path("whole")) == whole
    assert "rps-constants" in output
    num = 3 * 2 * 3 * 2 + 2 * 2 * 3 * 2
    assert len(RunReader(Path("whole")).summaries()) == count_lines(Path("whole") / "arms.jsonl") == num


def test_a_seat_that_is_named_twice_is_played_once() -> None:
    """The same tasks again would make the intervals narrower than they are."""
    done("uniform", *RPS, "--trials", "2", "--seat", "0", "--seat", "0", "-o", "out")
    (report,) = report_in(Path("out")).reports
    assert (report.seats, report.num_trials, len(set(report.tasks))) == ((0,), 4, 4)


def test_the_output_says_who_was_judged_on_what() -> None:
    output = done("scripted:counter", *RPS, "--opponents", "rps-seven", "--trials", "1", "--seat", "0")
    lines = [line for line in output.splitlines() if not line.endswith(" …")]
    assert lines[0] == "scripted:counter, plain, memory both, choice replies"
    assert lines[1] == "rps-seven: 7 opponents; rps(rounds=3), 3 episodes, seat 0"
    assert "always(rock), copy; rps(rounds=3), 3 episodes, seat 0" in lines[2]


def test_what_was_played_is_not_played_again() -> None:
    done(*COUNTER, *RPS, "--trials", "3", "-o", "out")
    before = (Path("out") / "trials.jsonl").read_bytes()
    report = (Path("out") / "report.json").read_bytes()
    done("--resume", "out")
    assert (Path("out") / "trials.jsonl").read_bytes() == before
    assert (Path("out") / "report.json").read_bytes() == report, "even its times and its command"


def test_times_add_up_over_processes() -> None:
    done("uniform", *RPS, "--trials", "4", "-o", "out")
    arms = [{"split": "s", "arm": "agent", "took_s": s} for s in (1.0, 2.5, 0.5, 3.0)]
    (Path("out") / "arms.jsonl").write_text("".join(json.dumps(arm) + "\n" for arm in arms))
    with TrialLog.reopen(Path("out")) as trial_log:
        assert trial_log.seconds == {"s": {"agent": 7.0}}


def test_resumed_weights_are_those_that_were_judged(tmp_path: Path) -> None:
    run = tmp_path / "run"
    create_run_directory(tiny_config("steps=1", 'evaluation.splits=["rps-constants"]'), run)
    train_run(run, Console(quiet=True))
    done(run, "--trials", "2", "-o", "out")
    before = lasting(Path("out"))
    train_run(run, Console(quiet=True), values={"steps": 2, "evaluation.seed": 3})
    assert read_plan(Path("out")).agent == str(run / "checkpoints" / "step-000001")
    truncated(Path("out") / "trials.jsonl", 0.4)
    done("--resume", "out")
    assert lasting(Path("out")) == before


def test_a_run_judged_as_usual_keeps_the_report_and_another_way_does_not(tmp_path: Path) -> None:
    run = tmp_path / "run"
    create_run_directory(tiny_config("steps=1", 'evaluation.splits=["rps-constants"]'), run)
    train_run(run, Console(quiet=True))
    done(run, "--trials", "2")
    usual = read_report(run / "evaluations" / "step-000001.json", SplitReport)
    assert usual.reports[0].num_trials == 6
    assert usual.config == tiny_config("steps=1", 'evaluation.splits=["rps-constants"]').model_dump(mode="json")
    done(run / "checkpoints" / "step-000001", "--trials", "2", "--temperature", "0")
    done(run, "--opponents", "always:paper", "--trials", "2", "agent.memory=none", "--seat", "1")
    assert read_report(run / "evaluations" / "step-000001.json", SplitReport) == usual
    folders = [path for path in sorted((run / "evaluations").iterdir()) if path.is_dir()]
    assert len(folders) == 3
    assert report_in(folders[0]) == usual
    last = report_in(folders[2])
    assert (last.reports[0].world, last.reports[0].seats) == ("rps(rounds=2)", (1,))
    assert (last.config["agent"]["memory"], last.eval_agent["kind"], last.step) == ("none", "run", 1)
    assert not Path("runs").exists()


def test_splits_say_how_many_episodes_they_need_unless_told() -> None:
    eval_agent = load_eval_agent("uniform")
    plan = make_plan(eval_agent, EvaluationRequest("uniform", opponents=["rps-switching", "rps-seven"], trials=1))
    assert [plan.tasks(eval_agent, split)[0].episodes for split in plan.splits] == [
        load_split("rps-switching").episodes or 3,
        3,
    ]
    told = {"trial.episodes": 2}
    eval_agent = load_eval_agent("uniform", told)
    plan = make_plan(eval_agent, EvaluationRequest("uniform", None, ["rps-switching"], 1, told))
    assert plan.tasks(eval_agent, plan.splits[0])[0].episodes == 2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("uniform",), "name opponents to evaluate against"),
        (("uniform", "--world", "rps"), "name opponents to evaluate against"),
        (("uniform", "--opponents", "copy"), "which world is played against copy? name it with --world"),
        (("uniform", "--opponents", "rps-sevn", "--world", "rps"), "'rps-sevn' is neither a split (alfworld-"),
        (("uniform", "--opponents", "rps-seven", "--world", "kuhn_poker"), "'rps-seven' is made for rps(rounds=3)"),
        (("uniform", "--opponents", "copy", "--world", "kuhn_poker"), "opponent 'copy' cannot play kuhn_poker"),
        (("uniform", "--opponents", "rps-seven", "--opponents", "rps-seven"), "name each split once"),
        (("uniform", *RPS, "--opponents", "copy"), "each of them once"),
        (("uniform", *RPS, "--seat", "2"), "has seats 0 to 1, not 2"),
        (("uniform", *RPS, "--memory", "both"), "agent.memory is for models"),
        (("scripted:first", *RPS, "--memory", "all"), "input should be 'none', 'history', 'reflections' or 'both'"),
        (("scripted:first", *RPS, "--method", "magic"), "unknown method 'magic'"),
        (("scripted:first", *RPS, "nonsense"), "cannot read the override 'nonsense'"),
        (("uniform", *RPS, "trial.replay_deal=true"), "trial.replay_deal: an evaluation does not use it"),
        (("uniform", *RPS, "--reflections"), "uniform writes no reflections that could be evaluated"),
        (("scripted:first", *RPS, "--reflections", "--memory", "history"), "no reflections are written"),
        (("scripted:first", *RPS, "--reflections", "--episodes", "1"), "no reflections to evaluate in 1 episode"),
        (("scripted:first", *RPS[:4], "--reflections"), "seat 0 has only one"),
        (("uniform", *RPS, "trial.seats=[]"), "trial.seats = []: name at least one seat"),
        ((), "give an agent to evaluate, or --resume DIR"),
        (("uniform", "--resume", "x"), "and not both"),
        (("--resume", "x", "--trials", "3"), "a resumed evaluation has its plan"),
        (("--resume", "x"), "x does not exist"),
        (("uniform", *RPS, "--retry-failed"), "--retry-failed goes with --resume"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_one_line(arguments: Sequence[str], why: str) -> None:
    assert why in refused(*arguments)


def test_only_evaluations_go_on(tmp_path: Path) -> None:
    create_run_directory(tiny_config(), tmp_path / "run")
    assert "is a train run, not an evaluation" in refused("--resume", tmp_path / "run")
    done("uniform", *RPS, "--trials", "1", "-o", "out")
    text = (Path("out") / "run.json").read_text()
    (Path("out") / "run.json").write_text(text.replace('"always(rock)"', '"always(paper)"'))
    assert "the members of its splits do not have their hash" in refused("--resume", "out")
    (Path("out") / "run.json").write_text(text.replace('"trials": 1', '"trials": "many"'))
    assert "holds no plan that can be read" in refused("--resume", "out")


def test_a_used_directory_is_left_alone() -> None:
    Path("out").mkdir()
    (Path("out") / "mine.txt").write_text("mine")
    assert "out is not empty" in refused("uniform", *RPS, "-o", "out")
    assert [path.name for path in Path("out").iterdir()] == ["mine.txt"]


def test_when_nothing_can_be_played_the_line_says_why() -> None:
    result = evaluate(
        "bayes-optimal(pool=rps-constants)", "--world", "rps(rounds=3)", "--opponents", "copy", "-o", "out"
    )
    assert "not in the pool that bayes-last knows" in str(result.exception)
    assert "go on with  mage evaluate --resume out" in result.output


def test_reflections_of_anybody_are_judged() -> None:
    output = done("scripted:counter", "--opponents", "rps-seven", "--trials", "2", "--memory", "reflections",
                  "agent.reflection_tokens=200", "--reflections", "-o", "out")  # fmt: skip
    assert "notes removed" in output
    assert (Path("out") / "reflections.json").is_file()
    arms = {line["arm"] for line in read_lines(Path("out") / "arms.jsonl")}
    assert arms == {"kept", "removed", "swapped", "shortened", "history", "reader", "blank"}
    truncated(Path("out") / "trials.jsonl", 0.6)
    before = json.loads((Path("out") / "reflections.json").read_bytes())["reports"]
    done("--resume", "out")
    assert json.loads((Path("out") / "reflections.json").read_bytes())["reports"] == before


def test_in_python_it_is_the_same() -> None:
    report = mage.evaluate("uniform", {"trial.episodes": 2}, world="rps", opponents=["copy"], trials=3, folder="out")
    (only,) = report.splits.values()
    assert (only.episodes, only.num_trials) == (2, 6)
    assert report_in(Path("out")).reports == (only,)
    with pytest.raises(ConfigError, match="cannot be evaluated"):
        mage.evaluate("nothing")
    with pytest.raises(ConfigError, match="trials must be a whole number from 1, not 0"):
        mage.evaluate("uniform", world="rps", opponents=["copy"], trials=0)


def test_a_terminal_sees_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as bar:
        bar.add_task("unseen", total=3)
    assert capsys.readouterr().err == "unseen …\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    request = EvaluationRequest("uniform", opponents=["rps-constants"], trials=5)
    begin_evaluation(request, Path("out"), ResourceLimits()).scores()
    assert "rps-constants: agent" in capsys.readouterr().err
