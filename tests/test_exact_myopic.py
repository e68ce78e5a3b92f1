"""Myopic Bayes: known values, what it must obey, and an independent enumeration of plans in exact fractions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.cache import cache_directory
from mage.errors import InexactError
from mage.evaluation.exact import MyopicScores, PlanObjective, References, myopic, myopic_bayes, references
from mage.evaluation.exact.myopic import MyopicPlanner
from mage.evaluation.exact.planner import Planner, best_value
from mage.evaluation.exact.tree import Tree, episode_tree
from mage.worlds.solo import SoloWorld
from tests import exact_worlds, myopic_worlds
from tests.memory_one import distinct_members

assert exact_worlds
assert myopic_worlds
KUHN = [("conservative", 1.0), ("aggressive", 1.0), ("intermediate", 1.0)]
SEVEN = [(name, 1.0) for name in ("always:rock", "always:paper", "always:scissors")] + [
    (name, 1.0) for name in ("cycle(step=1)", "cycle(step=2)", "copy", "beat-last")
]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what another run of the tests has stored."""
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path / "cache"))


def near(value: str | float | Fraction) -> object:
    return pytest.approx(float(Fraction(value)), abs=1e-9)


def three(found: MyopicScores | None) -> tuple[float, float, float]:
    assert found is not None
    return found.low, found.even, found.high


@pytest.mark.parametrize(
    ("world", "episodes", "memoryless", "myopic_score", "limit"),
    [
        ("solo-doors", 3, ".5", ".5", "1"),
        ("solo-scout", 3, ".3", ".3", "1"),
        ("solo-negotiation", 3, "1", "2", "3"),
        ("solo-recipe", 4, ".3", ".3", "1"),
        ("solo-diagnosis", 3, ".5", ".5", "1"),
        ("solo-haggling", 3, "1", "1", "1.75"),
        ("solo-dilemma", 3, "3.225", "3.25", "3.7"),
        ("solo-mines", 3, ".25", "1", "1"),
        ("solo-mines(stop=true)", 3, ".5", ".5", "1"),
        ("solo-dark-room", 3, ".5", "1", "1"),
    ],
)
def test_worlds_have_their_values_of_memory_and_exploration(
    world: str, episodes: int, memoryless: str, myopic_score: str, limit: str
) -> None:
    found = references(world, [], 0, episodes)
    assert found.memoryless == near(memoryless)
    assert three(found.myopic) == (near(myopic_score),) * 3
    assert found.bayes_last == near(limit)


@pytest.mark.parametrize("seat", [0, 1])
def test_the_seven_need_memory_and_no_exploration(seat: int) -> None:
    found = references("rps(rounds=3)", SEVEN, seat, 3)
    assert (found.memoryless, found.bayes_last) == (near("22/63"), near("1"))
    assert three(found.myopic) == (near("1"),) * 3


@pytest.mark.parametrize(("seat", "values"), [(0, ("35/162", "145/648", "19/81")), (1, ("20/81", "20/81", "20/81"))])
def test_kuhn_scripts_by_seat(seat: int, values: Sequence[str]) -> None:
    assert three(myopic_bayes("kuhn_poker", KUHN, seat, 3)) == tuple(map(near, values))


def test_the_memory_one_players_score_by_how_ties_break() -> None:
    members = [(spec, 1.0) for spec in distinct_members()]
    assert len(members) == 105
    found = references("rps(rounds=3)", members, 0, 3)
    assert three(found.myopic) == (near("94/105"), near("193/210"), near("33/35"))
    assert found.bayes_last == near("1")


def test_opponents_that_change_are_planned_with_the_tree_of_each_episode() -> None:
    """Rock always, or paper from the second episode on: the second is lost to half of them, the third to none."""
    pool = [("always:rock", 1.0), ("switch(always:rock, always:paper, at=1)", 1.0)]
    assert three(myopic_bayes("rps(rounds=1)", pool, 0, 2)) == (near("1/2"),) * 3
    assert three(myopic_bayes("rps(rounds=1)", pool, 0, 3)) == (near("1"),) * 3


@pytest.mark.parametrize(("world", "members"), [("kuhn_poker", KUHN), ("rps(rounds=2)", SEVEN), ("solo-recipe", [])])
def test_one_episode_is_the_memoryless_value(world: str, members: list[tuple[str, float]]) -> None:
    found = references(world, members, 0, 1)
    assert found.memoryless is not None
    assert three(found.myopic) == (near(found.memoryless),) * 3


def test_scores_are_read_back_from_disk_and_never_taken_for_a_plan_of_another_kind() -> None:
    value = myopic_bayes("solo-doors", [], 0, 3)
    (entry,) = (cache_directory() / "exact").iterdir()
    entry.write_bytes(b"[0,0,0.1,0,0,0.2,0,0,0.3]")
    assert myopic_bayes("solo-doors", [], 0, 3) == MyopicScores(0.1, 0.2, 0.3)
    entry.write_bytes(b"[0.1]")
    assert myopic_bayes("solo-doors", [], 0, 3) == value
    found = references("solo-doors", [], 0, 3)
    assert (found.bayes_last, found.myopic) == (near("1"), value)


def test_what_is_too_expensive_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(myopic, "MAX_WORK", 5)
    found = references("solo-doors", [("1", 1.0), ("2", 2.0)], 0, 4)
    assert found.myopic is None
    assert found.missing["myopic"] == "planning 4 episodes of myopic play against this pool takes too long"
    assert found.bayes_last == near("1")
    with pytest.raises(InexactError, match="200 episodes of this length are too long a trial"):
        myopic_bayes("kuhn_poker", KUHN, 0, 200)


def test_references_written_before_still_decode() -> None:
    stored = msgspec.to_builtins(references("solo-doors", [], 0, 2))
    assert stored.pop("myopic") == {"low": 0.5, "even": 0.5, "high": 0.5}
    assert msgspec.convert(stored, References).myopic is None


class Table(NamedTuple):
    """A trial of episodes with two decisions of two actions each, by type; every entry is a small whole number."""

    weights: tuple[int, ...]
    """The prior, by type."""
    signal: tuple[int, ...]
    """By type and first action: how many of four times the light is green after it."""
    end: tuple[int, ...]
    """By type and both actions: what is told at the end."""
    pay: tuple[int, ...]
    """By type and both actions: the score."""


class TableWorld(SoloWorld[int, str]):
    """A `Table` as a world; a position is actions and lights, such as 0g1."""

    lowest, highest = -9.0, 9.0

    def __init__(self, table: Table) -> None:
        self.table = table

    def hidden(self) -> Mapping[int, float]:
        return dict(enumerate(map(float, self.table.weights)))

    def start(self, hidden: int) -> str:
        return ""

    def chance(self, hidden: int, position: str) -> Mapping[str, float]:
        if len(position) != 1:
            return {}
        green = self.table.signal[2 * hidden + int(position)] / 4
        return {f"{position}g": green, f"{position}r": 1 - green}

    def actions(self, hidden: int, position: str) -> Sequence[str]:
        return () if len(position) == 3 else ("0", "1")

    def after(self, hidden: int, position: str, action: str) -> str:
        return position + action

    def place(self, hidden: int, position: str) -> int:
        return 4 * hidden + 2 * int(position[0]) + int(position[2])

    def tell(self, hidden: int, position: str) -> str:
        return f"{position[1:2]}{self.table.end[self.place(hidden, position)] if len(position) == 3 else ''}"

    def score(self, hidden: int, position: str) -> float:
        return float(self.table.pay[self.place(hidden, position)]) if len(position) == 3 else 0.0

    def tree(self) -> tuple[Tree, dict[int, float]]:
        model = self.exact_model((), 0)
        return episode_tree(model, model.start(0), "table"), model.prior


@st.composite
def tables(draw: st.DrawFn, *, is_free: bool = False) -> Table:
    """Random tables; where information is free, nothing that is told depends on the actions."""
    num = draw(st.integers(2, 3))

    def numbers(size: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(0, high), min_size=size, max_size=size)))

    weights = tuple(draw(st.lists(st.integers(1, 3), min_size=num, max_size=num)))
    if is_free:
        signal = tuple(green for green in numbers(num, 4) for _ in range(2))
        end = tuple(told for told in numbers(num, 1) for _ in range(4))
    else:
        signal, end = numbers(2 * num, 4), numbers(4 * num, 1)
    return Table(weights, signal, end, numbers(4 * num, 2))


Plan = tuple[int, int, int]
"""The first action, and the second on green and on red."""
PLANS: list[Plan] = list(product((0, 1), (0, 1), (0, 1)))


def outcomes(table: Table, plan: Plan, odds: Sequence[Fraction]) -> Iterator[tuple[list[Fraction], Fraction]]:
    """By what is told of an episode that is played by `plan`: the joint odds of the types, and the score they bring."""
    for light, told in product((0, 1), repeat=2):
        joint, gain = [], Fraction(0)
        for kind, odd in enumerate(odds):
            green = Fraction(table.signal[2 * kind + plan[0]], 4)
            place = 4 * kind + 2 * plan[0] + plan[1 + light]
            share = odd * (1 - green if light else green) * (table.end[place] == told)
            joint.append(share)
            gain += share * table.pay[place]
        yield joint, gain


def enumerated(table: Table, odds: Sequence[Fraction], episodes: int) -> tuple[Fraction, Fraction, Fraction]:
    """Low, even and high over all whole plans of an episode that are best for it, weighted with the odds."""
    gains = {plan: sum((gain for _, gain in outcomes(table, plan, odds)), Fraction(0)) for plan in PLANS}
    best = [plan for plan in PLANS if gains[plan] == max(gains.values())]
    if episodes == 1:
        return (gains[best[0]],) * 3
    firsts = {plan[0] for plan in best}
    lows, highs, even = [], [], Fraction(0)
    for plan in best:
        later = [enumerated(table, joint, episodes - 1) for joint, _ in outcomes(table, plan, odds) if any(joint)]
        low, middle, high = (sum(values, Fraction(0)) for values in zip(*later, strict=True))
        alike = sum(other[0] == plan[0] for other in best)  # a choice for each light, so a product of even choices
        even += middle / alike / len(firsts)
        lows.append(low)
        highs.append(high)
    return min(lows), even, max(highs)


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(1, 3))
def test_enumeration_of_whole_plans_in_fractions_agrees(table: Table, episodes: int) -> None:
    tree, prior = TableWorld(table).tree()
    found = MyopicPlanner([tree] * episodes, prior).last_scores()
    total = sum(table.weights)
    expected = enumerated(table, [Fraction(weight, total) for weight in table.weights], episodes)
    assert three(found) == tuple(map(near, expected))


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(1, 3))
def test_the_values_are_ordered(table: Table, episodes: int) -> None:
    tree, prior = TableWorld(table).tree()
    low, even, high = three(MyopicPlanner([tree] * episodes, prior).last_scores())
    limit = Planner([tree] * episodes, prior, PlanObjective.LAST.weights(episodes)).trial_scores()[-1]
    values = [best_value(tree, prior), low, even, high, limit]
    assert all(a <= b + 1e-9 for a, b in pairwise(values)), values


@settings(max_examples=60, deadline=None)
@given(tables(is_free=True), st.integers(1, 3))
def test_where_information_is_free_there_is_nothing_to_explore(table: Table, episodes: int) -> None:
    tree, prior = TableWorld(table).tree()
    limit = Planner([tree] * episodes, prior, PlanObjective.LAST.weights(episodes)).trial_scores()[-1]
    assert three(MyopicPlanner([tree] * episodes, prior).last_scores()) == (near(limit),) * 3


def test_ties_that_rounding_hides_are_ties() -> None:
    """0.1 + 0.2 is not 0.3 in floating point; the second action ties with the first, and only it tells the type."""

    class Rounded(exact_worlds.OneMove):
        types, highest = 3, 1.5

        def hidden(self) -> Mapping[int, float]:
            return {1: 0.1, 2: 0.2, 3: 0.7}

        def moves(self) -> Sequence[str]:
            return ["plain", "tells", "1", "2", "3"]

        def score(self, hidden: int, position: tuple[str, ...]) -> float:
            if position and position[0] in ("plain", "tells"):
                return 1.0 if position[0] == "plain" else (0.1 + 0.2) / 0.3
            return 1.5 * (position == (str(hidden),)) if position else 0.0

        def tell(self, hidden: int, position: tuple[str, ...]) -> str:
            return str(hidden) if position == ("tells",) else "Nothing."

    model = Rounded().exact_model((("1", 1.0), ("2", 1.0), ("3", 1.0)), 0)
    tree = episode_tree(model, model.start(0), "rounded")
    assert three(MyopicPlanner([tree] * 2, model.prior).last_scores()) == (near("1"), near("1.25"), near("1.5"))
