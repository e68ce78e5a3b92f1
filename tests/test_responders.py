"""Lower bounds on NashConv by play: valid whoever responds, and never lucky."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mage.cli import app
from mage.errors import ConfigError, PlayError
from mage.evaluation.exploitability.nashconv import NamedAgent
from mage.evaluation.exploitability.responders import LEARNED, LowerBound, lower_bound
from mage.evaluation.suite.report import read_world_report
from mage.protocols import Agent
from mage.stats import Estimate
from mage.types import Task
from tests.open_engines import constantly, player, weighing
from tests.seated import WORLD


def bound(agent: NamedAgent, responders: Sequence[NamedAgent], game: str = "kuhn_poker", **changes: Any) -> LowerBound:
    return asyncio.run(lower_bound(WORLD, agent, game, responders, **{"episodes": 3, "trials": 400, **changes}))


def test_the_best_responder_of_each_seat_is_found_and_judged_on_other_trials() -> None:
    """Always bet is the best reply to even play in both seats: the bound is NashConv itself."""
    found = bound(player("uniform"), [player("conservative"), player("aggressive")], trials=2000)
    assert [response.responder for response in found.responses] == ["aggressive", "aggressive"]
    assert found.nash_conv.holds(11 / 12)
    assert (found.own, found.num_trials, found.failures) == (None, 2000, 0)


def test_responders_are_not_judged_on_the_trials_on_which_they_were_chosen() -> None:
    seeds: list[int] = []

    def seat(task: Task, sibling: int) -> Agent:
        seeds.append(task.seed)
        return player("aggressive")[1](task, sibling)

    found = bound(player("uniform"), [("watched", seat)], trials=5)
    assert found.num_trials == 5
    assert len(seeds) == 20
    assert set(seeds[:10]).isdisjoint(seeds[10:])
    assert len(set(seeds[10:])) == 5, "both seats are dealt alike"


def test_trials_that_fail_are_left_out() -> None:
    def seat(task: Task, sibling: int) -> Agent:
        if task.seed % 2:
            raise PlayError("it is an odd one")
        return player("aggressive")[1](task, sibling)

    found = bound(player("uniform"), [("even", seat)], trials=20)
    assert found.failures > 0
    assert found.num_trials + found.failures == 20


def test_a_responder_that_learns_finds_what_no_script_knows() -> None:
    found = bound(weighing(constantly(0.0, 1.0)), [player("uniform")], learn=400)
    assert [response.responder for response in found.responses] == [LEARNED, LEARNED]
    assert found.nash_conv.holds(2 / 3)


def test_in_games_that_are_not_zero_sum_the_agents_own_play_is_the_measure() -> None:
    found = bound(player("always:cooperate"), [player("always:defect"), player("copy")], "pd(rounds=3)", trials=3)
    assert found.nash_conv == Estimate(4.0, None, None)
    assert found.own == (Estimate(3.0, None, None),) * 2


@pytest.mark.parametrize(
    ("changes", "reason"), [({"trials": 1}, "at least 2"), ({"responders": []}, "at least 1 responder")]
)
def test_bounds_that_mean_nothing_are_refused(changes: dict[str, Any], reason: str) -> None:
    arguments = {"responders": [player("uniform")], **changes}
    with pytest.raises(ConfigError, match=reason):
        bound(player("uniform"), **arguments)


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_finds_lower_bounds(tmp_path: Path) -> None:
    folder = tmp_path / "found"
    output = invoke(
        *("nashconv", "preferred:corners", "--world", "tic_tac_toe", "--responder", "minimax", "--trials", "10"),
        *("--learn", "20", "-o", str(folder)),
    )
    assert "NashConv is at least" in output
    assert read_world_report(folder / "lower-bound.json", LowerBound).found.responders == ("minimax", LEARNED)
    with pytest.raises(ConfigError, match="without an opponent before"):
        invoke("nashconv", "uniform", "--world", "kuhn_poker", "--after", "uniform", "--learn", "5")
