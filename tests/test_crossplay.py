"""Cross-play of players whose pay-offs are known, with its counts, intervals, ratings and files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import log10
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

import mage
from mage.agents.byte_format import ByteFormat
from mage.cli import app
from mage.engines.scripted import MODELS, ScriptedEngine
from mage.errors import ConfigError, EngineError, PlayError
from mage.evaluation.agent_world import AgentWorld
from mage.evaluation.crossplay import AgentStanding, CrossPlayReport, PairResult, cross_play
from mage.evaluation.exploitability.nashconv import AfterOpponent, Exploitability, NamedAgent, NashConvReport
from mage.evaluation.exploitability.responders import LowerBound, Response
from mage.evaluation.ratings import SMOOTHING, can_alpha_rank
from mage.evaluation.suite.report import WorldReport, read_world_report
from mage.rollout.trial import play_trial
from mage.runs.store import RunReader
from mage.stats import Estimate, mean
from mage.training.build import language_agent_factory
from mage.types import Failure, Memory, ReplyMode, Task, Trial
from mage.worlds.registry import load_world
from tests.chat_server import ChatServer
from tests.documented import documented
from tests.open_engines import constantly, player, weighing
from tests.seated import WORLD, make_settings, make_task

CONSTANTS = ("always:rock", "always:paper", "always:scissors")


def met(agents: Sequence[NamedAgent], game: str = "rps(rounds=3)", **changes: Any) -> CrossPlayReport:
    return asyncio.run(cross_play(load_world(game), agents, game, **{"episodes": 2, "trials": 4, **changes}))


def cell(report: CrossPlayReport, row: str, column: str) -> PairResult:
    (found,) = [cell for cell in report.cells if (cell.row, cell.column) == (row, column)]
    return found


def standing(report: CrossPlayReport, agent: str) -> AgentStanding:
    (found,) = [standing for standing in report.standings if standing.agent == agent]
    return found


def test_constants_of_rock_paper_scissors_give_the_known_matrix() -> None:
    report = met([player(name) for name in CONSTANTS])
    rock, paper, scissors = CONSTANTS
    scores = {(found.row, found.column): found.score for found in report.cells}
    num = report.num_trials
    won, lost = mean([1.0] * num, (-1.0, 1.0)), mean([-1.0] * num, (-1.0, 1.0))
    wins = [(paper, rock), (scissors, paper), (rock, scissors)]
    assert scores == {**dict.fromkeys(wins, won), **{(b, a): lost for a, b in wins}}
    for found in report.standings:
        assert found.score == mean([0.0] * num, (-1.0, 1.0))
        assert found.elo is not None
        assert found.nash_share is not None
        assert found.elo.value == pytest.approx(0.0, abs=1e-6)
        assert found.nash_share.value == pytest.approx(1 / 3)
        assert (found.forfeits, found.alpha_rank is None) == (0, not can_alpha_rank())
    assert (report.failures, report.truncations) == (0, 0)
    assert ("alpha_rank" in report.missing) is not can_alpha_rank()


def test_wins_draws_and_losses_are_counted_over_both_seats_and_all_episodes() -> None:
    report = met([player("always:rock"), player("cycle(step=1,phase=0)")], episodes=3, trials=2)
    found = cell(report, "always:rock", "cycle(step=1,phase=0)")
    assert found.num_episodes == 2 * 2 * 3
    assert found.draws is not None
    assert found.draws.value == 1.0  # rock, paper, scissors: a draw, a loss and a win in each episode
    assert found.by_seat == found.by_episode[:2] == (mean([0.0] * 2, (-1.0, 1.0)),) * 2


def test_seats_weigh_the_same_and_what_one_wins_the_other_loses() -> None:
    report = met([player("cfr"), player("uniform")], "kuhn_poker", trials=30)
    here, there = cell(report, "cfr", "uniform"), cell(report, "uniform", "cfr")
    assert here.score is not None
    assert there.score is not None
    seats = [seat.value for seat in here.by_seat if seat is not None]
    assert here.score.value == pytest.approx(sum(seats) / 2) == pytest.approx(-there.score.value)
    assert there.by_seat[0] is not None
    assert there.by_seat[0].value == pytest.approx(-seats[1])


def test_intervals_shrink_and_hold_the_exact_value() -> None:
    """Always bet gains 11/12 over both seats from even play, so 11/24 in each on average."""
    report = met([player("aggressive"), player("uniform")], "kuhn_poker", episodes=1, trials=1500)
    found = cell(report, "aggressive", "uniform").score
    assert found is not None
    assert found.holds(11 / 24)
    assert found.low is not None
    assert found.value - found.low < 0.05


def test_elo_comes_from_wins_and_nash_averaging_from_scores() -> None:
    report = met([player("always:paper"), player("always:rock")], episodes=2, trials=5)
    paper, rock = (standing(report, f"always:{name}") for name in ("paper", "rock"))
    assert paper.elo is not None
    assert rock.elo is not None
    assert paper.elo.value - rock.elo.value == pytest.approx(400 * log10((20 + SMOOTHING) / SMOOTHING))
    assert paper.nash_share == Estimate(1.0, None, None)
    assert rock.nash_score is not None
    assert rock.nash_score.value == -1.0


def test_games_in_which_both_gain_have_self_play_and_no_nash_average() -> None:
    report = met([player("always:cooperate"), player("always:defect")], "pd(rounds=2)")
    assert cell(report, "always:cooperate", "always:cooperate").score == mean([3.0] * 4, (0.0, 5.0))
    assert cell(report, "always:defect", "always:cooperate").score == mean([5.0] * 4, (0.0, 5.0))
    assert standing(report, "always:defect").score == mean([5.0] * 4, (0.0, 5.0)), "itself is no opponent"
    assert "nash" in report.missing
    assert standing(report, "always:defect").nash_share is None
    alike = cell(report, "always:cooperate", "always:cooperate")
    assert alike.wins is not None
    assert alike.wins.value == 0.0, "both succeed, neither wins"


def test_two_models_remember_each_other() -> None:
    """The scripted counter beats a constant model from the second episode on, in either seat."""
    how = make_settings(memory=Memory.HISTORY, name="counter")
    counter = ("counter", language_agent_factory(WORLD, ScriptedEngine(MODELS["counter"]), ByteFormat(), how))
    report = met([counter, weighing(constantly(1.0, 0.0, 0.0))], episodes=3)
    assert [e.value for e in cell(report, "counter", "weighing").by_episode if e is not None] == [0.0, 1.0, 1.0]


def test_episodes_given_up_are_counted_apart_and_say_nothing_about_the_other() -> None:
    silent = weighing(constantly(0.5, 0.2, 0.2), reply=ReplyMode.TEXT, retries=0)
    report = met([silent, player("always:rock")], trials=10)
    found = cell(report, "weighing", "always:rock")
    assert standing(report, "weighing").forfeits > 0
    assert standing(report, "always:rock").forfeits == 0
    assert found.num_episodes + standing(report, "weighing").forfeits == 2 * 2 * 10
    assert found.score is not None
    assert found.score.value > -1.0


def test_who_always_gives_up_has_no_rating_and_it_is_said() -> None:
    report = met([weighing(constantly(0.0, 0.0, 0.0), reply=ReplyMode.TEXT), player("always:rock")])
    assert cell(report, "weighing", "always:rock").score is None
    assert standing(report, "always:rock").elo is None
    assert report.missing == {"ratings": "weighing and always:rock finished no episode in each seat"}


def test_trials_that_fail_are_counted() -> None:
    def seat(task: Task, sibling: int) -> Any:
        if task.seed % 2:
            raise PlayError("it is an odd one")
        return player("always:rock")[1](task, sibling)

    report = met([("even", seat), player("always:paper")], trials=20)
    assert 0 < report.failures < 40
    assert cell(report, "even", "always:paper").score == mean([-1.0] * 9, (-1.0, 1.0))
    assert cell(report, "even", "always:paper").num_episodes == 2 * (40 - report.failures)


def test_where_nothing_can_be_played_it_is_an_error() -> None:
    def seat(task: Task, sibling: int) -> Any:
        raise PlayError("nobody is here")

    with pytest.raises(PlayError, match="none of 8 trials could be played: PlayError: nobody is here"):
        met([("nobody", seat), player("always:rock")])


@pytest.mark.parametrize(
    ("agents", "game", "reason"),
    [
        (["uniform"], "rps", "two or more agents"),
        (["uniform", "uniform"], "rps", "different names"),
        (["uniform", "cfr"], "kuhn_poker(players=3)", "two seats; kuhn_poker"),
    ],
)
def test_meetings_that_make_no_sense_are_refused(agents: list[str], game: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        met([player(name) for name in agents], game)


def test_one_trial_alone_has_no_interval() -> None:
    report = met([player("always:rock"), player("always:paper")], trials=1, episodes=1)
    assert cell(report, "always:rock", "always:paper").score == Estimate(-1.0, None, None)
    found = standing(report, "always:rock").elo
    assert found is not None
    assert found.low is None


def test_the_same_seed_gives_the_same_report_and_another_one_another() -> None:
    agents = [player("uniform"), player("cfr")]
    assert met(agents, "kuhn_poker") == met(agents, "kuhn_poker") != met(agents, "kuhn_poker", seed=1)


def test_a_meeting_seats_whom_the_task_names() -> None:
    meeting = AgentWorld(WORLD, dict([player("always:paper")]))
    task = make_task("rps(rounds=2)", opponents=("always:paper",))
    trial = asyncio.run(play_trial(meeting, task, 0, player("always:rock")[1]))
    assert trial.scores == (-1.0, -1.0, -1.0)
    with pytest.raises(ConfigError, match="unknown agent 'nobody'; known: always:paper"):
        meeting.opponent("nobody", make_task(opponents=("nobody",)), 1)


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_prints_a_matrix_and_writes_trials_and_report(tmp_path: Path) -> None:
    folder = tmp_path / "met"
    command = ["cross-play", *CONSTANTS, "scripted:counter", "agent.memory=history", "--world", "rps(rounds=2)"]
    command += ["--episodes", "2", "--trials", "3", "-o", str(folder)]
    output = invoke(*command)
    assert "+1.000 ±1.415" in output
    report = read_world_report(folder / "crossplay.json", CrossPlayReport)
    assert report.found.agents == ("always(rock)", "always(paper)", "always(scissors)", "scripted:counter")
    assert [eval_agent["kind"] for eval_agent in report.eval_agents] == ["player"] * 3 + ["scripted"]
    trials = list(RunReader(folder).trials())
    assert len(trials) == 4 * 3 * 3
    (counter,) = {t.agent.memory for t in trials if isinstance(t, Trial) and t.agent.name == "scripted:counter"}
    assert counter is Memory.HISTORY
    with pytest.raises(ConfigError, match="holds something else"):
        invoke(*command[:-4], "--trials", "4", "-o", str(folder))


def test_the_same_command_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "met"
    command = ("cross-play", "uniform", "cfr", "--world", "kuhn_poker", "--episodes", "1", "--trials", "5", "-o")
    invoke(*command, str(whole))
    invoke(*command, str(folder))
    lines = (folder / "trials.jsonl").read_text().splitlines(keepends=True)
    (folder / "trials.jsonl").write_text("".join(lines[:4]))
    (folder / "crossplay.json").unlink()
    invoke(*command, str(folder))
    assert sorted((folder / "trials.jsonl").read_text().splitlines()) == sorted(line.rstrip() for line in lines)
    again, once = (read_world_report(path / "crossplay.json", CrossPlayReport) for path in (folder, whole))
    assert again.found == once.found


def test_agents_that_cannot_play_the_game_are_refused_before_play(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'aggressive' cannot play rps"):
        invoke("cross-play", "uniform", "aggressive", "--world", "rps", "-o", str(tmp_path / "met"))
    assert not (tmp_path / "met").exists()


def test_remote_models_meet_players_and_are_asked_no_more_than_allowed(tmp_path: Path) -> None:
    with ChatServer() as server:
        command = ["cross-play", server.agent, "always:paper", "--world", "rps(rounds=1)", "--episodes", "1"]
        invoke(*command, "--trials", "2", "-o", str(tmp_path / "met"))
        found = read_world_report(tmp_path / "met" / "crossplay.json", CrossPlayReport).found
        assert cell(found, server.agent, "always(paper)").score == mean([-1.0] * 2, (-1.0, 1.0)), "first comes rock"
        with pytest.raises(EngineError, match="budget of 3 remote calls"):
            invoke(*command, "--trials", "9", "--max-calls", "3", "-o", str(tmp_path / "more"))


def test_a_script_gets_the_same(tmp_path: Path) -> None:
    for trials, episodes in ((0, 1), (1, 0)):
        with pytest.raises(ConfigError, match="must be a whole number from 1, not 0"):
            mage.cross_play(["copy", "always:rock"], "rps", trials=trials, episodes=episodes, folder=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    found = mage.cross_play(["always:rock", "always:paper"], "rps", episodes=1, trials=2, folder=tmp_path / "met")
    assert cell(found.report, "always(paper)", "always(rock)").score == mean([1.0] * 2, (-1.0, 1.0))
    assert "against A" in str(found)
    assert read_world_report(found.path / "crossplay.json", CrossPlayReport).found == found.report
    assert not any(isinstance(outcome, Failure) for outcome in RunReader(found.path).trials())


def test_the_keys_of_reports_about_games_are_documented() -> None:
    kinds = (
        WorldReport,
        CrossPlayReport,
        PairResult,
        AgentStanding,
        NashConvReport,
        Exploitability,
        AfterOpponent,
        LowerBound,
        Response,
    )
    keys = documented("games")
    assert sorted(keys) == sorted({field.name for kind in kinds for field in msgspec.structs.fields(kind)})
