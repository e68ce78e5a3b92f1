"""When plays are equally good, and which of them a plan takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from mage.evaluation.exact.myopic import MyopicPlanner
from mage.evaluation.exact.planner import Planner
from mage.evaluation.exact.pool import DRAWN, load_pool
from mage.evaluation.exact.ties import TIE, first_of, tied, tolerance
from mage.evaluation.exact.tree import Leaf, Tree, episode_tree
from tests.exact_worlds import OneMove


def test_scores_are_equal_within_a_share_of_the_largest() -> None:
    assert TIE == 1e-12
    small, large = ({(True, ""): Leaf({0: 1.0, 1: 0.5}, {0: 0.25, 1: most})} for most in (0.25, -2000.0))
    assert tolerance([small, small]) == TIE
    assert tolerance([small, large]) == pytest.approx(4000 * TIE)
    assert tied([1.0, 1.0 - 0.9e-12, 1.0 - 1.1e-12], TIE) == [0, 1]


def test_ranks_are_compared_number_by_number_within_ties() -> None:
    assert first_of([(1.0, 5.0), (1.0 + 1e-13, 6.0), (2.0 - 1.0, 6.0)], TIE) == 1
    assert first_of([(1.0, 5.0), (1.0 + 1e-11, 4.0)], TIE) == 1
    assert first_of([(3.0,)], TIE) == 0


class Offers(OneMove):
    """Two types. Each of the listed moves has a pay by type, and tells the type or not."""

    types, lowest = 2, -1.0
    offers: Mapping[str, tuple[float, float, bool]] = {}

    def moves(self) -> Sequence[str]:
        return list(self.offers)

    def score(self, hidden: int, position: tuple[str, ...]) -> float:
        return self.offers[position[0]][hidden - 1] if position else 0.0

    def tell(self, hidden: int, position: tuple[str, ...]) -> str:
        return str(hidden) if position and self.offers[position[0]][2] else "Nothing."


def tree_of(**offers: tuple[float, float, bool]) -> tuple[Tree, dict[int, float]]:
    model = type("These", (Offers,), {"offers": offers})().exact_model((), 0)
    return episode_tree(model, model.start(0), "offers"), model.prior


def test_of_all_plays_with_the_best_sum_the_last_episode_is_the_best() -> None:
    """Looking costs as much as knowing gains: 0.5 + 0.5, or 0 + 1."""
    tree, prior = tree_of(
        plain=(0.5, 0.5, False), look=(0.0, 0.0, True), first=(1.0, 0.0, False), second=(0.0, 1.0, False)
    )
    assert Planner([tree] * 2, prior, [1, 1]).trial_scores() == (0.0, 1.0)
    assert Planner([tree] * 2, prior, [1 + 1e-9, 1]).trial_scores() == (0.5, 0.5)
    assert Planner([tree] * 2, prior, [1.0, 0.6]).trial_scores() == (0.5, 0.5)


def test_of_all_plays_with_the_best_last_episode_the_sum_is_the_largest() -> None:
    tree, prior = tree_of(
        look=(0.0, 0.0, True), peek=(0.2, 0.4, True), first=(1.0, 0.0, False), second=(0.0, 1.0, False)
    )
    assert Planner([tree] * 3, prior, [0, 0, 1]).trial_scores() == pytest.approx((0.3, 1.0, 1.0))
    uninformative, _ = tree_of(small=(0.1, 0.1, False), large=(0.3, 0.3, False))
    assert Planner([uninformative] * 3, prior, [0, 0, 1]).trial_scores() == pytest.approx((0.3, 0.3, 0.3))


def test_other_weightings_take_the_better_last_episode_before_the_larger_sum() -> None:
    """With the weights 0.5 and 1 looking for -0.5 is as good as the plain action twice, whose sum is larger."""
    tree, prior = tree_of(
        plain=(0.5, 0.5, False), look=(-0.5, -0.5, True), first=(1.0, 0.0, False), second=(0.0, 1.0, False)
    )
    assert Planner([tree] * 2, prior, [0.5, 1]).trial_scores() == (-0.5, 1.0)
    assert Planner([tree] * 2, prior, [0.5 + 1e-9, 1]).trial_scores() == (0.5, 0.5)


def test_a_difference_just_above_rounding_decides() -> None:
    """The informative action is worse by 1e-11: myopic play leaves it, whatever it would teach."""
    for less, last in ((1e-11, 0.5), (1e-13, 1.0)):
        tree, prior = tree_of(
            plain=(0.5, 0.5, False),
            tells=(0.5 - less, 0.5 - less, True),
            first=(1.0, -1.0, False),
            second=(-1.0, 1.0, False),
        )
        assert MyopicPlanner([tree] * 2, prior).last_scores().high == pytest.approx(last)


def test_among_equally_good_actions_myopic_play_that_ends_best_has_the_larger_sum() -> None:
    """Two actions tell the type at once; a third tells it as well, and is best for no episode."""
    pool = load_pool("hidden(scout,look=0.3)", DRAWN, 0)
    found = MyopicPlanner(pool.trees(3), pool.prior).trial_scores()
    assert found.high == pytest.approx((0.3, 1.0, 1.0))
    assert found.low == pytest.approx((0.3, 0.3, 0.3))
    assert found.even == pytest.approx((0.3, 0.65, 0.825))
