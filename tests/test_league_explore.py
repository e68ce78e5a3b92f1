"""Exploit and explore on scripted results: who copies whom, why, and what changes."""

from __future__ import annotations

from math import erfc, inf, sqrt

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mage.config.schema import Config
from mage.errors import ConfigError
from mage.league.members import learner
from mage.league.payoffs import MatchScore
from mage.league.pbt import BOUNDS, Event, Perturbation, choose_copies, compare_learners, perturb
from mage.league.state import League
from tests.leagued import anchor, league
from tests.tree import ROOT

LR = {"learner.lr": 0.001, "credit.episode": 0.9}


def around(middle: float, spread: float) -> list[float]:
    """Six observations with mean `middle`; the squared error of their mean is spread² / 5."""
    return [middle - spread, middle + spread] * 3


def scripted(means: list[list[float]], spread: float = 0.1) -> League:
    """Learners with the given mean scores against anchors x0, x1 …"""
    names = [f"x{i}" for i in range(len(means[0]))]
    scores = {
        f"learner-{i}": {name: around(mean, spread) for name, mean in zip(names, row, strict=True)}
        for i, row in enumerate(means)
    }
    hyper = {f"learner-{i}": {"learner.lr": 0.001 * (i + 1), "credit.episode": 0.9} for i in range(len(means))}
    return league([*map(anchor, names), *map(learner, range(len(means)))], scores, hyper)


CLEAR = scripted([[0.9, 0.9, 0.9, 0.9], [0.1, 0.1, 0.2, 0.0]])
"""Differences 0.8, 0.8, 0.7, 0.9: mean 0.8, standard error 0.0408 from their scatter, 0.0316 from the cells."""


def test_the_scatter_of_the_pairs_decides_where_it_is_wider() -> None:
    found = compare_learners(CLEAR, "learner-0", "learner-1")
    assert found is not None
    assert found.behind == pytest.approx(0.8)
    assert found.num_pairs == 4
    assert found.reach == pytest.approx(3.18245 * sqrt(0.02 / 3 / 4), rel=1e-5)
    assert found.p_value == pytest.approx(0.000291, rel=0.01)  # Student's t of 19.6 with three degrees of freedom


def test_the_errors_of_the_cells_decide_where_they_are_wider() -> None:
    made = scripted([[0.5, 0.5], [0.0, 0.0]], spread=0.5)
    found = compare_learners(made, "learner-0", "learner-1")
    assert found is not None
    error = sqrt(4 * 0.05) / 2
    assert found.reach == pytest.approx(1.96 * error)
    assert found.p_value == pytest.approx(erfc(0.5 / error / sqrt(2)))


def test_opponents_count_alike_however_often_they_were_met() -> None:
    made = league(
        [anchor("easy"), anchor("hard"), learner(0), learner(1)],
        {
            "learner-0": {"easy": around(0.8, 0.1), "hard": around(-0.6, 0.1) * 9},
            "learner-1": {"easy": around(0.8, 0.1) * 9, "hard": around(-0.6, 0.1)},
        },
    )
    found = compare_learners(made, "learner-0", "learner-1")
    assert found is not None
    assert found.behind == pytest.approx(0.0)
    assert found.p_value == 1.0
    assert choose_copies(made, 1, 0, [], 1.2) == []


def test_each_other_and_those_only_one_met_are_no_pairs() -> None:
    scores = {
        "learner-0": {"x": [1.0], "y": [1.0], "learner-1": [1.0]},
        "learner-1": {"x": [0.0], "z": [0.0], "learner-0": [-1.0]},
    }
    made = league([anchor("x"), anchor("y"), anchor("z"), learner(0), learner(1)], scores)
    assert compare_learners(made, "learner-0", "learner-1") is None
    assert choose_copies(made, 1, 0, [], 1.2) == []


def test_single_observations_prove_nothing() -> None:
    scores = {f"learner-{i}": {"x": [1.0 - i], "y": [1.0 - i]} for i in range(2)}
    made = league([anchor("x"), anchor("y"), learner(0), learner(1)], scores)
    found = compare_learners(made, "learner-0", "learner-1")
    assert found is not None
    assert (found.behind, found.reach, found.p_value) == (1.0, inf, 1.0)
    assert choose_copies(made, 1, 0, [], 1.2) == []


def test_who_is_clearly_worse_copies_the_leader_and_says_why() -> None:
    (event,) = choose_copies(CLEAR, 50, 7, ["learner.lr"], 1.25)
    assert (event.learner, event.parent) == ("learner-1", "learner-0")
    assert event.reason == "0.800 behind over 4 opponents (0.670 to 0.930), p = 0.00029"
    (key,) = event.changes
    old, new = event.changes[key]
    assert (key, old) == ("learner.lr", 0.002)
    assert new in (pytest.approx(0.00125), pytest.approx(0.0008)), "the leader's 0.001 times or by 1.25"


def test_values_that_are_not_explored_are_copied() -> None:
    hyper = {"learner-0": {"learner.lr": 0.1, "credit.turn": 0.5}, "learner-1": {"learner.lr": 0.2, "credit.turn": 1.0}}
    made = msgspec.structs.replace(CLEAR, hyper=hyper)
    assert choose_copies(made, 1, 0, [], 1.2)[0].changes == {"learner.lr": (0.2, 0.1), "credit.turn": (1.0, 0.5)}


def test_decisions_are_drawn_from_seed_step_and_learner() -> None:
    made = scripted([[0.9] * 4, [0.1] * 4, [0.1] * 4])
    drawn = {
        tuple(event.changes["learner.lr"][1] for event in choose_copies(made, step, seed, ["learner.lr"], 1.25))
        for step in range(4)
        for seed in range(4)
    }
    assert len(drawn) == 4, "up or down, for each of two learners"
    assert choose_copies(made, 3, 5, list(LR), 1.2) == choose_copies(made, 3, 5, list(LR), 1.2)


def test_a_learner_that_is_worse_only_in_places_is_left_alone() -> None:
    """Far behind on the whole, and well measured, but better against one of three: another way to play."""
    made = scripted([[0.9, 0.9, 0.0], [0.0, 0.0, 0.4]], spread=0.05)
    found = compare_learners(made, "learner-0", "learner-1")
    assert found is not None
    assert found.behind == pytest.approx(1.4 / 3)
    assert found.p_value > 0.05
    assert choose_copies(made, 1, 0, [], 1.2) == []


def test_several_claims_at_once_need_more_evidence() -> None:
    """0.47 behind with an error of 0.5 / sqrt(5) is p = 0.036: enough for one learner, not for two (Holm)."""
    one = scripted([[0.47, 0.47], [0.0, 0.0]], spread=0.5)
    two = scripted([[0.47, 0.47], [0.0, 0.0], [0.0, 0.0]], spread=0.5)
    assert [e.learner for e in choose_copies(one, 1, 0, [], 1.2)] == ["learner-1"]
    assert choose_copies(two, 1, 0, [], 1.2) == []
    # Beside one who is out of the question, what is left has the whole level again.
    mixed = scripted([[0.47, 0.47], [0.0, 0.0], [-9.0, -9.0]], spread=0.5)
    assert [e.learner for e in choose_copies(mixed, 1, 0, [], 1.2)] == ["learner-1", "learner-2"]


def test_equals_do_not_copy() -> None:
    assert choose_copies(scripted([[0.5, 0.2, 0.1]] * 3), 1, 0, ["learner.lr"], 1.2) == []


def test_a_league_of_one_has_nobody_to_copy() -> None:
    assert choose_copies(scripted([[0.5, 0.5]]), 1, 0, [], 1.2) == []


def test_opponents_that_left_are_not_compared_over() -> None:
    left = CLEAR.retire(["x0", "x1", "x2"], 9)
    assert compare_learners(left, "learner-0", "learner-1") is None
    late = [MatchScore(f"learner-{i}", name, 1.0) for i in range(2) for name in ("x0", "x1", "x2")]
    assert compare_learners(left.with_results(late, 10, 8.0), "learner-0", "learner-1") is None


def test_a_leader_by_other_results_is_not_copied_by_those_who_do_better_in_common() -> None:
    """The leader won their own meetings, but over the opponents that both met it is clearly behind."""
    scores = {
        "learner-0": {"x": around(0.0, 0.01), "y": around(0.0, 0.01), "learner-1": [3.0]},
        "learner-1": {"x": around(0.3, 0.01), "y": around(0.3, 0.01), "learner-0": [-3.0]},
    }
    made = league([anchor("x"), anchor("y"), learner(0), learner(1)], scores)
    found = compare_learners(made, "learner-0", "learner-1")
    assert made.leader().id == "learner-0"
    assert found is not None
    assert found.behind == pytest.approx(-0.3)
    assert found.p_value < 0.001
    assert choose_copies(made, 1, 0, [], 1.2) == []


def test_a_key_that_the_leader_does_not_have_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match=r"of the leader 'learner.kl'; did you mean learner.lr\? known: credit.episode"
    ):
        choose_copies(CLEAR, 1, 0, ["learner.kl"], 1.2)


def test_after_the_copy_the_learner_is_no_longer_behind() -> None:
    (event,) = choose_copies(CLEAR, 50, 7, ["learner.lr"], 1.25)
    after = CLEAR.with_copy(event.learner, event.parent, {key: new for key, (_, new) in event.changes.items()})
    assert after.hyper["learner-1"] == {**CLEAR.hyper["learner-0"], "learner.lr": event.changes["learner.lr"][1]}
    assert choose_copies(after, 51, 7, ["learner.lr"], 1.25) == []


def test_an_event_survives_the_log() -> None:
    (event,) = choose_copies(CLEAR, 50, 7, list(LR), 1.25)
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


def test_values_move_up_or_down_by_the_factor() -> None:
    seen = {tuple(perturb(LR, seed, 1.25).values()) for seed in range(20)}
    expected = [(lr, discount) for lr in (0.0008, 0.00125) for discount in (0.875, 0.92)]
    assert sorted(seen) == [pytest.approx(pair) for pair in expected]


def test_a_value_moves_alike_whatever_else_moves() -> None:
    for seed in range(10):
        assert perturb({"learner.lr": 0.001}, seed, 1.25)["learner.lr"] == perturb(LR, seed, 1.25)["learner.lr"]


def test_what_is_off_stays_off() -> None:
    off = {"learner.divergence_weight": 0.0, "credit.turn": 1.0}
    assert all(perturb(off, seed, 2.0) == off for seed in range(5))


def test_bounds_hold() -> None:
    edge = {"agent.temperature": 9.0, "credit.turn": 0.2, "learner.entropy_floor": 0.9}
    seen = [perturb(edge, seed, 2.0) for seed in range(20)]
    assert {values["agent.temperature"] for values in seen} == {4.5, 10.0}
    assert {round(values["credit.turn"], 9) for values in seen} == {0.0, 0.6}
    assert {values["learner.entropy_floor"] for values in seen} == {0.45, 1.0}


def test_bounds_of_ones_own() -> None:
    assert perturb({"mine": 3.0}, 0, 9.0, {"mine": Perturbation(2.5, 3.5)})["mine"] in (2.5, 3.5)


@pytest.mark.parametrize(
    ("values", "factor", "message"),
    [
        ({"learner.lr": 0.1}, 0.5, "a factor of 0.5 to explore by: takes 1 or more"),
        ({"seed": 1.0}, 1.2, "unknown hyper-parameter to explore 'seed'; known: agent.temperature, credit.episode"),
        ({"credit.turn": 1.5}, 1.2, "credit.turn = 1.5: takes 0.0 to 1.0 where it is explored"),
        ({"learner.lr": -1.0}, 1.2, "learner.lr = -1.0: takes 0.0 to inf where it is explored"),
    ],
)
def test_what_cannot_be_explored_is_one_line(values: dict[str, float], factor: float, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        perturb(values, 0, factor)
    assert str(raised.value).startswith(message)


def test_every_bound_is_a_key_of_the_config_and_documented() -> None:
    text = (ROOT / "docs" / "league.md").read_text(encoding="utf-8")
    for key in BOUNDS:
        assert f"`{key}`" in text
        section, name = key.split(".")
        assert isinstance(getattr(getattr(Config(), section), name), float)


@given(
    st.sampled_from(sorted(BOUNDS)),
    st.floats(0.001, 1.0),
    st.lists(st.integers(0, 2**32), max_size=20),
    st.floats(1.0, 3.0),
)
def test_however_often_values_move_they_stay_inside(key: str, value: float, seeds: list[int], factor: float) -> None:
    values = {key: value}
    for seed in seeds:
        values = perturb(values, seed, factor)
        assert BOUNDS[key].lowest <= values[key] <= BOUNDS[key].highest
        assert key != "agent.temperature" or values[key] > 0
