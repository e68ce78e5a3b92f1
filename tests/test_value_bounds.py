"""Bounds of tasks that are too large: they lie on their side of the exact value, and nothing is replaced silently."""

from __future__ import annotations

from math import fsum
from pathlib import Path

import pytest

from mage.errors import PlayError
from mage.evaluation.exact import planner, tree
from mage.evaluation.exact.pool import DRAWN, Members, load_pool, normalise_members
from mage.evaluation.value import sampled_bounds
from mage.evaluation.value.find import find_value
from mage.evaluation.value.report import ValueReport, ValueRequest
from mage.evaluation.value.sampled_bounds import Bound, BoundKind, played_bounds, sub_pool_bounds
from mage.evaluation.value.value_tables import value_table
from mage.evaluation.value.verdict import verdict
from mage.runs.console import as_text
from mage.worlds.registry import load_world
from tests import exact_worlds, myopic_worlds
from tests.memory_one import distinct_members

assert exact_worlds
assert myopic_worlds


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what another one, or another run of the tests, has stored."""
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path / "cache"))
    load_pool.cache_clear()


def by_name(bounds: list[Bound]) -> dict[str, Bound]:
    assert all(bound.kind is BoundKind.UPPER for bound in bounds)
    return {bound.of: bound for bound in bounds}


def pool_of(world: str, members: Members, draws: int = 40) -> dict[str, Bound]:
    info = load_world(world).info
    pool = load_pool(world, members, 0)
    return by_name(sub_pool_bounds(pool, 3, (info.lowest, info.highest), draws=draws, seed=0))


@pytest.mark.parametrize("world", ["hidden(doors)", "hidden(scout)", "hidden(haggling)", "hidden(diagnosis)"])
def test_a_player_that_is_told_half_of_the_types_is_no_worse(world: str) -> None:
    exact = find_value(ValueRequest(world))
    bounds = pool_of(world, DRAWN)
    assert exact.best_last is not None
    assert exact.best_sum is not None
    values = {
        "memoryless": exact.memoryless,
        "best_last": exact.best_last[-1],
        "best_sum": fsum(exact.best_sum),
        "informed": exact.informed,
    }
    for name, value in values.items():
        assert value is not None
        high = bounds[name].estimate.high
        assert high is not None
        assert high >= value - 1e-9, name
    assert bounds["best_last"].how.startswith("40 draws of ")


def test_draws_of_the_hidden_type_follow_the_prior() -> None:
    """With one type the bound is full information, whose mean is known: 0.55 + 2 x 0.15 + 3 x 0.3."""
    found = pool_of("hidden(haggling)", DRAWN, draws=400)
    for name in ("best_last", "memoryless", "informed"):
        assert found[name].how == "400 draws of 1 of 3 types, one of them the hidden one"
        assert found[name].estimate.holds(1.75)
    assert found["best_sum"].estimate.holds(3 * 1.75)
    low, high = found["informed"].estimate.low, found["informed"].estimate.high
    assert low is not None
    assert high is not None
    assert 0.05 < high - low < 0.25


def test_the_bound_of_many_opponents_lies_above_the_exact_value_and_below_full_information() -> None:
    members = normalise_members("rps(rounds=3)", [(spec, 1.0) for spec in distinct_members()[:40]], 0, 3)
    exact = find_value(ValueRequest("rps(rounds=3)", distinct_members()[:40]))
    found = pool_of("rps(rounds=3)", members, draws=12)["memoryless"].estimate
    assert exact.memoryless is not None
    assert found.high is not None
    assert exact.memoryless < found.value < found.high < (exact.informed or 0.0)


def test_a_pool_that_is_too_large_is_planned_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = find_value(ValueRequest("hidden(diagnosis-8)"))
    monkeypatch.setenv("MAGE_CACHE", "/dev/null")
    monkeypatch.setattr(planner, "MAX_WORK", 5000)
    found = find_value(ValueRequest("hidden(diagnosis-8)", samples=8, words=2))
    assert (found.best_last, found.best_sum, found.exploration, found.price) == (None,) * 4
    assert (found.memoryless, found.myopic, found.informed) == (exact.memoryless, exact.myopic, exact.informed)
    assert [objective.name for objective in found.objectives] == ["single"]
    assert found.missing["best_last"] == "planning 3 episodes against this pool takes too long"
    assert set(found.missing) == {"best_last", "best_sum", "cumulative", "sum", "differential", "final"}
    assert [(bound.of, bound.kind) for bound in found.bounds] == [
        ("best_last", BoundKind.UPPER),
        ("best_sum", BoundKind.UPPER),
        ("best_last", BoundKind.UPPER),
    ]
    assert found.bounds[-1].estimate.value == exact.informed == 1.0
    assert exact.best_last is not None
    assert found.bounds[0].estimate.value >= exact.best_last[-1]
    assert verdict(found).startswith("too large to be planned as a whole: paying each episode for itself ends at 0.5")
    assert len(found.words_at_least) == 2
    printed = as_text(value_table(found))
    assert "B is at most" in printed
    assert "of 8 types, one of them the hidden one" in printed
    assert "Not exact: B, C, cumulative, sum, differential, final; planning 3 episodes" in printed


def test_a_tree_that_is_too_large_as_a_whole_is_built_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MAX_STATES", 40)
    monkeypatch.setattr(sampled_bounds, "MAX_STATES", 40)
    found = find_value(ValueRequest("hidden(diagnosis-8)", samples=8))
    upper = {bound.of: bound for bound in found.bounds if bound.kind is BoundKind.UPPER}
    assert (
        found.missing["memoryless"] == "an episode of hidden(diagnosis-8) has more than 40 states against these members"
    )
    assert set(upper) == {"memoryless", "best_last", "best_sum", "informed"}
    assert upper["best_last"].how == "8 draws of 2 of 8 types, one of them the hidden one"
    assert upper["best_last"].estimate.value == pytest.approx(1.0)
    assert upper["memoryless"].estimate.value == pytest.approx(0.5)
    (played,) = [bound for bound in found.bounds if bound.kind is BoundKind.LOWER]
    assert (played.of, played.how) == ("memoryless", "8 trials of uniform")
    assert verdict(found).startswith("too large to be planned: the best play without memory ends between ")


def without_model(world: str, samples: int) -> ValueReport:
    found = find_value(ValueRequest(world, samples=samples))
    assert (found.memoryless, found.myopic, found.best_last, found.informed, found.objectives) == (
        None,
        None,
        None,
        None,
        (),
    )
    return found


def test_a_world_without_an_exact_model_has_its_highest_score_and_what_an_even_player_scores() -> None:
    found = without_model("2048", samples=4)
    assert set(found.missing) == {"memoryless", "myopic", "best_last", "best_sum", "informed"}
    uppers = {bound.of: bound.estimate.value for bound in found.bounds if bound.kind is BoundKind.UPPER}
    highest = found.score_range[1]
    assert uppers == {"memoryless": highest, "best_last": highest, "best_sum": 3 * highest, "informed": highest}
    (played,) = [bound for bound in found.bounds if bound.kind is BoundKind.LOWER]
    assert played.how == "4 trials of uniform"
    assert 0 < played.estimate.value < highest
    printed = as_text(value_table(found))
    assert printed.count("the highest score of the world") == 4


def test_where_any_text_is_an_action_no_player_without_a_model_can_play() -> None:
    found = without_model("solo-shouting", samples=2)
    assert {bound.kind for bound in found.bounds} == {BoundKind.UPPER}
    assert "between 0 and 1" in verdict(found)


def test_an_even_player_scores_its_mean_and_search_plays_where_it_can() -> None:
    """Four actions at doors pay 1, 0, 0 and 0.5 in some order; against fixed orders search wins most games."""
    (even,) = played_bounds("hidden(doors)", DRAWN, 0, 2, trials=400, seed=1)
    assert even.estimate.holds(0.375)
    assert (even.estimate.high or 1.0) < 0.5
    members = normalise_members("tic_tac_toe", [("preferred([8,3,1,0,7,4,2,5,6])", 1.0)], 0, 1)
    bounds = played_bounds("tic_tac_toe", members, 0, 1, trials=12, seed=1)
    assert [bound.how for bound in bounds] == ["12 trials of uniform", "12 trials of mcts(100)"]
    assert bounds[0].estimate.value < bounds[1].estimate.value <= 1.0
    with pytest.raises(PlayError, match="uniform cannot play tic_tac_toe: ConfigError: unknown parameter 'seed'"):
        played_bounds("tic_tac_toe", (("preferred(seed=1)", 1.0),), 0, 1, trials=2, seed=1)
