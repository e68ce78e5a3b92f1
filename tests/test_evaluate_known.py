"""`mage evaluate` on players whose answer is known: what it measures holds the exact values in its intervals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mage.cli import app
from mage.evaluation.exact import bayes_optimal
from mage.evaluation.exact.planner import PlanObjective
from mage.evaluation.splits import load_split
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report import read_report
from mage.stats import Estimate, mean
from mage.worlds.openspiel.game import load_game
from tests.exhaustive import expected_returns
from tests.opponents import policy_of

KUHN = load_split("kuhn-scripts")
POOL = [(member, 1.0) for member in KUHN.members]
SHARE = 0.9
"""Of 95 % intervals, how many hold the truth at least; the seed is fixed, so this is as it is."""
Check = tuple[str, Estimate, float]
"""What was measured, and what it should be."""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def evaluated(agent: str, *arguments: str, trials: int, episodes: int = 3) -> SplitReport:
    sizes = ["--trials", str(trials), "--episodes", str(episodes), "-o", "out"]
    result = CliRunner().invoke(app, ["evaluate", agent, *arguments, *sizes], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    (report,) = read_report(Path("out") / "report.json", SplitReport).reports
    assert report.failures == 0
    return report


def exact_score(agent: str, member: str, seat: int) -> float:
    game = load_game(KUHN.world)
    policies = [policy_of(agent if place == seat else member, game, place) for place in range(2)]
    return expected_returns(game, policies)[seat]


def of_players(agent: str, report: SplitReport) -> Iterator[Check]:
    """A player without memory scores the same in every episode, by exhaustive play."""
    exact = {m: sum(exact_score(agent, m, seat) for seat in report.seats) / len(report.seats) for m in report.members}
    for member, scores in report.by_member:
        for k, score in enumerate(scores):
            yield f"{agent} against {member}, episode {k + 1}", score, exact[member]
    for k, score in enumerate(report.agent.scores):
        yield f"{agent}, episode {k + 1}", score, sum(exact.values()) / len(exact)
    yield f"adaptation of {agent}", report.agent.adaptation, 0.0


def of_bayes(objective: PlanObjective, report: SplitReport) -> Iterator[Check]:
    """Bayes-optimal play scores its plan; without memory it scores the best memoryless value in every episode."""
    values = [bayes_optimal(KUHN.world, POOL, seat, report.episodes, objective) for seat in report.seats]
    splits = [sum(scores) / len(scores) for scores in zip(*values, strict=True)]
    for k, (score, exact) in enumerate(zip(report.agent.scores, splits, strict=True)):
        yield f"bayes-{objective}, episode {k + 1}", score, exact
    bounds = [exact.memoryless for _, exact in report.references if exact.memoryless is not None]
    for k, score in enumerate(report.control.scores):
        yield f"best memoryless, episode {k + 1}", score, sum(bounds) / len(bounds)
    yield f"bayes-{objective} over control", report.over_control, splits[-1] - splits[0]


def assert_known(checks: list[Check]) -> None:
    missed = [(name, found, exact) for name, found, exact in checks if not found.holds(exact)]
    assert len(missed) <= (1 - SHARE) * len(checks), missed
    for name, found, exact in missed:
        assert found.low is not None
        assert found.high is not None
        assert abs(found.value - exact) < found.high - found.low, f"{name} is far off: {found}, and not {exact}"


def checks_of(trials: int) -> list[Check]:
    """All agents on tasks of their own: on the same ones they would have the same luck."""
    found: list[Check] = []
    for seed, agent in enumerate(("uniform", "cfr", "best-response:conservative")):
        found += of_players(agent, _fresh(agent, trials, seed))
    for seed, objective in enumerate(PlanObjective, start=3):
        found += of_bayes(objective, _fresh(f"bayes-optimal(objective={objective})", trials, seed))
    return found


def _fresh(agent: str, trials: int, seed: int) -> SplitReport:
    report = evaluated(agent, "--opponents", KUHN.name, "--seed", str(seed), trials=trials)
    Path("out").rename(f"out-{seed}")
    return report


def test_known_players_score_what_they_must() -> None:
    assert_known(checks_of(60))


@pytest.mark.slow
def test_known_players_score_what_they_must_over_many_trials() -> None:
    assert_known(checks_of(2000))


def test_an_equilibrium_earns_its_value_against_itself() -> None:
    report = evaluated("cfr", "--world", "kuhn_poker", "--opponents", "cfr", "--seat", "0", trials=400, episodes=1)
    ((_, exact),) = report.references
    assert exact.equilibrium == pytest.approx(-1 / 18, abs=1e-4)
    assert report.agent.scores[0].holds(-1 / 18)


def test_a_best_response_earns_its_value() -> None:
    report = evaluated("best-response:aggressive", "--world", "kuhn_poker", "--opponents", "aggressive", trials=200)
    values = [exact.best_response["aggressive"] for _, exact in report.references]
    assert_known([(f"episode {k}", score, sum(values) / 2) for k, score in enumerate(report.agent.scores)])


def test_bayes_optimal_play_finds_out_every_one_of_the_seven() -> None:
    report = evaluated("bayes-optimal", "--opponents", "rps-seven", trials=10)
    assert report.agent.scores[2] == mean([1.0] * 140, (-1.0, 1.0)), "in 10 trials in each seat against each"
    assert report.control.scores[2].holds(22 / 63)
    assert report.over_control.is_over(0.0)
