"""Named randomness: values never change silently, paths never collide, order never matters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mage.errors import PlayError
from mage.seeds import derive, pick_index, stream, uniform

Path = Sequence[str | int]

paths = st.lists(st.one_of(st.text(max_size=4), st.integers(-3, 3), st.sampled_from(["1", "a/b", "', '", "a', 'b"])))


def test_values_are_those_of_the_first_release() -> None:
    assert derive(0) == 14421525015532014153
    assert derive(1, "deal", 2) == 2245588641060677026
    assert derive(2**63, "opponent", 1, "moves") == 3750367329500160012
    assert uniform(7, "x") == 0.7316543413436338
    assert stream(3, "member").random() == 0.1502008758658412


def test_a_path_is_not_the_path_that_prints_alike() -> None:
    assert derive(1, "a/b", "c") != derive(1, "a", "b/c")
    assert derive(1, "1") != derive(1, 1)
    assert derive(1, "ab") != derive(1, "a", "b")
    assert derive(1, 2) != derive(12)


@settings(deadline=None)
@given(st.integers(0, 3), paths, st.integers(0, 3), paths)
def test_different_paths_give_different_seeds(seed: int, path: Path, other_seed: int, other: Path) -> None:
    assume((seed, path) != (other_seed, other))
    assert derive(seed, *path) != derive(other_seed, *other)


def test_order_and_other_draws_do_not_matter() -> None:
    names = [("deal", i) for i in range(20)]
    forwards = {name: uniform(5, *name) for name in names}
    stream(5, "deal", 3).random()
    backwards = {name: uniform(5, *name) for name in reversed(names)}
    assert forwards == backwards
    first, second = stream(5, "a"), stream(5, "b")
    mixed = [(first.random(), second.random()) for _ in range(5)]
    alone = stream(5, "b")
    assert [b for _, b in mixed] == [alone.random() for _ in range(5)]


def test_numbers_are_uniform() -> None:
    points = [uniform(11, "draw", i) for i in range(20_000)]
    assert all(0.0 <= p < 1.0 for p in points)
    bins = [sum(int(p * 20) == b for p in points) for b in range(20)]
    chi_squared = sum((count - 1000) ** 2 / 1000 for count in bins)
    assert chi_squared < 43.8  # exceeded by chance once in a thousand seeds; the seed is fixed
    followed = sum((a < 0.5) == (b < 0.5) for a, b in pairwise(points))
    assert abs(followed - 10_000) < 350  # neighbours are independent: five standard deviations


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1, exclude_max=True))
def test_a_weight_of_zero_is_never_drawn(weights: Sequence[float], point: float) -> None:
    assume(sum(weights) > 0)
    assert weights[pick_index(weights, point)] > 0


def test_shares_follow_the_weights() -> None:
    weights = [1, 0, 2, 5]
    drawn = [pick_index(weights, i / 8000) for i in range(8000)]
    assert [drawn.count(i) for i in range(4)] == [1000, 0, 2000, 5000]


@pytest.mark.parametrize("weights", [[], [0.0, 0.0]])
def test_nothing_is_drawn_from_nothing(weights: Sequence[float]) -> None:
    with pytest.raises(PlayError, match="nothing can be drawn"):
        pick_index(weights, 0.5)
