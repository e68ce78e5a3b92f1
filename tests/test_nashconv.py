"""NashConv of agents whose answer is known, of a real model, and after a trial."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

import mage
from mage.agents.methods.registry import METHODS
from mage.cli import app
from mage.engines.local.engine import LocalEngine
from mage.errors import ConfigError, RecordError
from mage.evaluation.exact import BayesAgentFactory, PlanObjective
from mage.evaluation.exploitability.nashconv import (
    Gains,
    NamedAgent,
    NashConvReport,
    best_response_gains,
    measure_nash_conv,
    uniform_policy,
)
from mage.evaluation.exploitability.policy_table import information_states
from mage.evaluation.suite.report import read_world_report
from mage.models.load import load_model
from mage.opponents.solvers import equilibrium
from mage.stats import Estimate
from mage.training.build import language_agent_factory
from mage.training.run import create_run_directory, train_run
from mage.types import Memory, ReplyMode
from mage.worlds.openspiel.game import load_game
from tests.chat_server import ChatServer
from tests.open_engines import Weigh, constantly, kuhn_equilibrium, kuhn_place, player, weighing
from tests.seated import WORLD, make_settings, newest_message
from tests.tiny import tiny_config


def nash_conv(agent: NamedAgent, game: str = "kuhn_poker", **changes: Any) -> NashConvReport:
    return asyncio.run(measure_nash_conv(WORLD, agent, game, **{"episodes": 3, "trials": 4, **changes}))


@pytest.mark.parametrize("bluff", [0.0, 0.2, 1 / 3])
def test_an_equilibrium_of_kuhn_poker_cannot_be_exploited(bluff: float) -> None:
    report = nash_conv(weighing(kuhn_equilibrium(bluff)), after=player("aggressive"))
    assert report.first.nash_conv.value == pytest.approx(0.0, abs=1e-9)
    assert report.last is not None
    assert report.last.reading.nash_conv.value == pytest.approx(0.0, abs=1e-9)
    assert report.num_states == (6, 6)
    assert (report.first.num_trials, report.first.num_samples) == (1, 0)
    assert report.policy["0"] == pytest.approx({"pass": 1 - bluff, "bet": bluff})


def test_even_play_and_constant_play_have_openspiels_numbers() -> None:
    even_play, always = nash_conv(weighing(constantly(0.5, 0.5))), nash_conv(weighing(constantly(0.0, 1.0)))
    assert even_play.first.nash_conv == Estimate(pytest.approx(11 / 12), None, None)  # type: ignore[arg-type]
    assert even_play.uniform == pytest.approx(11 / 12)
    assert [gain.value for gain in even_play.first.gains] == pytest.approx([3 / 8, 13 / 24])
    # Against always bet the best reply folds jacks, and queens are worth the same either way: 1/3 in either seat.
    assert [gain.value for gain in always.first.gains] == pytest.approx([1 / 3, 1 / 3])
    assert always.cfr is not None
    assert 0 <= always.cfr < 0.001


def test_leduc_poker_has_openspiels_number_too() -> None:
    leduc = load_game("leduc_poker")
    places = information_states(leduc)
    assert tuple(map(len, places)) == (468, 468)
    assert best_response_gains(leduc, uniform_policy(places)).nash_conv == pytest.approx(4.747222222)
    assert best_response_gains(leduc, equilibrium(leduc, 50)).nash_conv < 0.1


def test_scores_of_repeated_games_are_means_over_rounds() -> None:
    rps = load_game("rps(rounds=2)")
    rocks = {place.key: (1.0, 0.0, 0.0) for seat in information_states(rps) for place in seat}
    assert best_response_gains(rps, rocks) == Gains(pytest.approx(2.0), (pytest.approx(1.0),) * 2)  # type: ignore[arg-type]


def test_players_with_draws_of_their_own_are_averaged_over_trials() -> None:
    report = nash_conv(player("mixture(aggressive,conservative,each=trial)"), trials=12)
    pure = [nash_conv(player(name)).first.nash_conv.value for name in ("aggressive", "conservative")]
    assert report.first.num_trials == 12
    assert report.first.nash_conv.low is not None
    assert min(pure) < report.first.nash_conv.value < max(pure)


def after_seeing(weigh_fresh: Weigh, weigh_then: Weigh) -> Weigh:
    """Plays one way until it has seen an episode end, and another way afterwards."""

    def weigh(prompt: str, choices: tuple[str, ...]) -> Sequence[float]:
        return (weigh_then if "is over" in prompt else weigh_fresh)(prompt, choices)

    return weigh


@pytest.mark.parametrize(("memory", "then"), [(Memory.HISTORY, 2 / 3), (Memory.NONE, 0.0)])
def test_the_last_episode_is_read_with_the_memory_of_the_trial(memory: Memory, then: float) -> None:
    """With memory it bets always in the end, which the best replies exploit by 2/3; without it never changes."""
    agent = weighing(after_seeing(kuhn_equilibrium(0.2), constantly(0.0, 1.0)), memory=memory)
    report = nash_conv(agent, after=player("aggressive"), trials=6)
    assert report.last is not None
    assert report.first.nash_conv.value == pytest.approx(0.0, abs=1e-9)
    assert report.last.reading.nash_conv.value == pytest.approx(then, abs=1e-9)
    assert report.last.change.value == pytest.approx(then, abs=1e-9)
    assert (report.last.reading.num_trials, report.last.failures, len(report.last.scores)) == (6, 0, 3)


def test_each_seat_remembers_its_own_trial() -> None:
    seen: dict[str, set[str]] = {}

    def weigh(prompt: str, choices: tuple[str, ...]) -> Sequence[float]:
        if "Episode 2 of 2" in newest_message(prompt):
            seat = "first" if "You act first" in prompt else "second"
            seen.setdefault(seat, set()).add(prompt.partition("is over")[2].partition("Your score")[0])
        return (0.5, 0.5)

    nash_conv(weighing(weigh, memory=Memory.HISTORY), episodes=2, trials=3, after=player("uniform"))
    assert set(seen) == {"first", "second"}
    assert all("Play: you" in told for told in seen["first"])
    assert all("Play: opponent" in told for told in seen["second"])


def test_text_replies_are_estimated_from_a_stated_number_of_answers() -> None:
    agent = weighing(kuhn_equilibrium(0.2), reply=ReplyMode.TEXT)
    report = nash_conv(agent, trials=2, num_samples=150)
    assert (report.first.num_samples, report.first.num_trials, report.first.forfeits) == (150, 2, 0.0)
    assert 0 < report.first.nash_conv.value < 0.2


def test_answers_that_give_up_are_reported() -> None:
    def weigh(prompt: str, choices: tuple[str, ...]) -> Sequence[float]:
        return (0.0, 0.0) if kuhn_place(newest_message(prompt))[0] == "king" else (0.5, 0.5)

    report = nash_conv(weighing(weigh, reply=ReplyMode.TEXT, retries=0), trials=1, num_samples=30)
    assert report.first.unread == pytest.approx(1 / 3)
    assert report.first.forfeits == pytest.approx(1 / 3)
    assert report.policy["2"] == {"pass": 0.5, "bet": 0.5}


def test_a_real_model_is_read_as_it_plays() -> None:
    """Exact probabilities and those counted in many sampled choices give the same NashConv, but for noise."""
    loaded = load_model("nano(hidden=16,layers=1,heads=2,context=512)", seed=3, worlds=["kuhn_poker"])
    engine = LocalEngine(loaded)
    how = make_settings(memory=Memory.HISTORY, context=512)
    exact = nash_conv(("nano", language_agent_factory(WORLD, engine, loaded.chat_format, how)))

    class Closed:
        """The same engine, which does not say how likely its answers are."""

        complete = engine.complete

    counted = nash_conv(
        ("nano", language_agent_factory(WORLD, Closed(), loaded.chat_format, how)), trials=1, num_samples=200
    )
    assert (exact.first.num_samples, counted.first.num_samples) == (0, 200)
    assert counted.first.nash_conv.value == pytest.approx(exact.first.nash_conv.value, abs=0.15)
    for key, odds in exact.policy.items():
        assert counted.policy[key] == pytest.approx(odds, abs=0.13)


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_of_prompting_can_be_read_first_and_last(method: str) -> None:
    """One that always bets is exploited by 2/3 whatever it remembers; a thought before it must be sampled."""
    agent = weighing(constantly(0.0, 1.0), method=method, memory=METHODS[method].memories[0])
    report = nash_conv(agent, after=player("aggressive"), trials=2, num_samples=3)
    assert report.last is not None
    readings = (report.first, report.last.reading)
    assert [reading.nash_conv.value for reading in readings] == pytest.approx([2 / 3, 2 / 3])
    assert {reading.num_samples for reading in readings} == {3 if method == "react" else 0}


def test_a_run_is_read_with_the_weights_it_has_learned(tmp_path: Path) -> None:
    config = tiny_config("steps=2", "checkpoint.every=1", "checkpoint.keep=2", "learner.lr=0.05")
    create_run_directory(config, tmp_path / "run")
    train_run(tmp_path / "run", Console(quiet=True))
    exported = mage.export_model(tmp_path / "run", tmp_path / "model", step=2)
    how = {"agent.memory": "history", "agent.context": 512}
    agents = (tmp_path / "run", exported, tmp_path / "run" / "checkpoints" / "step-000001")
    learned, same, older = (
        mage.nashconv(agent, "rps(rounds=1)", how, trials=1, folder=tmp_path / f"found-{number}").report
        for number, agent in enumerate(agents)
    )
    assert isinstance(learned, NashConvReport)
    assert isinstance(same, NashConvReport)
    assert isinstance(older, NashConvReport)
    assert learned.first.nash_conv.value == pytest.approx(same.first.nash_conv.value, abs=1e-5)
    assert learned.first.nash_conv.value != pytest.approx(older.first.nash_conv.value, abs=1e-5)


def test_who_can_only_be_watched_is_refused() -> None:
    pool = [("aggressive", 0.5), ("conservative", 0.5)]
    with pytest.raises(ConfigError, match="bayes-last does not expose its action probabilities"):
        nash_conv(("bayes", BayesAgentFactory(pool, PlanObjective.LAST)))


def test_a_last_episode_needs_one_before() -> None:
    with pytest.raises(ConfigError, match="at least 2"):
        nash_conv(player("uniform"), episodes=1, after=player("uniform"))


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_prints_a_table_and_writes_a_report(tmp_path: Path) -> None:
    folder = tmp_path / "found"
    output = invoke("nashconv", "uniform", "--world", "kuhn_poker", "--trials", "2", "-o", str(folder))
    assert "0.917" in output
    report = read_world_report(folder / "nashconv.json", NashConvReport)
    assert report.found.first.nash_conv.value == pytest.approx(11 / 12)
    assert report.eval_agents == ({"name": "uniform", "kind": "player"},)
    with pytest.raises(RecordError):
        invoke("nashconv", "uniform", "--world", "kuhn_poker", "--trials", "2", "-o", str(folder))


def test_the_command_reads_models_in_words_and_after_an_opponent(tmp_path: Path) -> None:
    output = invoke(
        *("nashconv", "scripted:first", "--world", "kuhn_poker", "--after", "aggressive", "--trials", "2"),
        *("agent.reply=text", "agent.memory=none", "--samples", "3", "-o", str(tmp_path / "found")),
    )
    assert "episode 3, after" in output
    assert "Estimated from 3 answers" in output


def test_a_remote_model_is_read_by_sampling(tmp_path: Path) -> None:
    with ChatServer() as server:
        invoke(
            "nashconv",
            server.agent,
            "--world",
            "kuhn_poker",
            "--trials",
            "1",
            "--samples",
            "2",
            "-o",
            str(tmp_path / "f"),
        )
    report = read_world_report(tmp_path / "f" / "nashconv.json", NashConvReport).found
    assert report.first.num_samples == 2
    assert report.first.nash_conv.value == pytest.approx(2.0), "its first action is to pass, always"


def test_a_script_gets_the_same(tmp_path: Path) -> None:
    for trials, episodes in ((0, 1), (1, 0)):
        with pytest.raises(ConfigError, match="must be a whole number from 1, not 0"):
            mage.nashconv("uniform", "kuhn_poker", trials=trials, episodes=episodes, folder=tmp_path / "none")
    found = mage.nashconv("uniform", "kuhn_poker", trials=2, folder=tmp_path / "found")
    assert isinstance(found.report, NashConvReport)
    assert found.report.uniform == pytest.approx(11 / 12)
    assert "even play" in str(found)
    on_file = read_world_report(found.path / "nashconv.json", NashConvReport)
    assert on_file.found == found.report
    assert msgspec.json.encode(on_file.found) == msgspec.json.encode(found.report)
