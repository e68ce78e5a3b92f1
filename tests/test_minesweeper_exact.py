"""MineSweeper: exact values."""

from __future__ import annotations

import pytest

import mage
from mage.evaluation.exact.myopic import MyopicPlanner
from mage.evaluation.exact.notes import NoteSearch
from mage.evaluation.exact.planner import Planner
from mage.evaluation.exact.tree import episode_tree
from mage.worlds.minesweeper.board import (
    grid_of,
)
from mage.worlds.minesweeper.mine_odds import Known
from mage.worlds.minesweeper.solver import clear_chance
from mage.worlds.minesweeper.world import MineSweeper
from mage.worlds.registry import load_world
from tests.test_minesweeper import SMALL, STOP, task, world_of


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what another run of the tests has stored."""
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path))


def test_two_by_two_has_the_values_worked_out_by_hand() -> None:
    """Every number is 1, so that the three openings without a mine have the chance 3/4 x 2/3 x 1/2."""
    plain = mage.value(SMALL).report
    assert plain.memoryless == pytest.approx(1 / 4, abs=1e-9)
    assert plain.best_last == pytest.approx((1 / 4, 1, 1), abs=1e-9)
    stop = mage.value(STOP).report
    assert stop.memoryless == pytest.approx(0.5, abs=1e-9)
    assert stop.myopic is not None
    assert (*stop.myopic.low, *stop.myopic.high) == pytest.approx((0.5,) * 6, abs=1e-9)
    for best in (stop.best_last, stop.best_sum):
        assert best is not None
        assert (best[-1], sum(best)) == pytest.approx((1.0, 2.25), abs=1e-9)


def test_an_open_cell_at_the_start_makes_it_another_task() -> None:
    """The first of the three openings is safe: 2/3 x 1/2."""
    assert mage.value("minesweeper(2,2,1)").report.memoryless == pytest.approx(1 / 3, abs=1e-9)


def test_exact_best_play_is_no_worse_than_the_expert_and_equal_where_it_is_optimal() -> None:
    grid = grid_of(2, 3)
    exact = mage.value("minesweeper(2,3,1,start=closed)").report.memoryless
    chance = clear_chance(grid, 1, Known({}), 0, 7)
    assert exact == pytest.approx(0.5, abs=1e-9)
    assert exact is not None
    assert chance is not None
    assert chance <= exact + 1e-9


def test_decisions_in_another_order_are_one_decision() -> None:
    world = world_of(SMALL)
    keys = set()
    for order in (("a1", "b1"), ("b1", "a1")):
        env = world.new_env(task(SMALL, level="2x2::b2"), 0)
        for cell in order:
            env.step(cell)
        keys.add(env.observe(0).key)
    assert len(keys) == 1


@pytest.mark.parametrize("spec", [STOP, pytest.param("minesweeper(2,3,1)", marks=pytest.mark.slow)])
def test_merged_decisions_have_the_values_of_all_orders(spec: str) -> None:
    found = []
    for merges in (True, False):
        world = load_world.__wrapped__(spec)
        assert isinstance(world, MineSweeper)
        world.tells_all = merges
        model = world.exact_model((), 0)
        trees = [episode_tree(model, model.start(0), spec)] * 3
        planners = [Planner(trees, model.prior, weights) for weights in ((0, 0, 1), (1, 1, 1), (1, 0.6, 0.36))]
        myopic = MyopicPlanner(trees, model.prior).trial_scores()
        notes = NoteSearch(trees, model.prior).words(2)
        values = [
            *(score for planner in planners for score in planner.trial_scores()),
            *myopic.low,
            *myopic.high,
            *notes,
        ]
        found.append(values)
    assert found[0] == pytest.approx(found[1], abs=1e-9)
