"""Exact references: published fractions, what the figures must obey, what cannot be had, and the cache."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from mage.cache import cache_directory
from mage.errors import ConfigError, InexactError
from mage.evaluation.exact import (
    PlanObjective,
    bayes_optimal,
    best_memoryless,
    best_response,
    fraction_text,
    references,
)
from mage.opponents.enumerate import enumerate_policies
from mage.worlds.openspiel.game import load_game
from mage.worlds.openspiel.security import security_value
from tests.exhaustive import expected_returns
from tests.memory_one import distinct_members

KUHN = [("conservative", 1.0), ("aggressive", 1.0), ("intermediate", 1.0)]
SEVEN = [(name, 1.0) for name in ("always:rock", "always:paper", "always:scissors")] + [
    (name, 1.0) for name in ("cycle(step=1)", "cycle(step=2)", "copy", "beat-last")
]
MEMORY_ONE = [(spec, 1.0) for spec in distinct_members()]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what another run of the tests has stored."""
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path / "cache"))


def near(value: str) -> object:
    return pytest.approx(float(Fraction(value)), abs=1e-12)


@pytest.mark.parametrize(("seat", "memoryless", "last"), [(0, "1/18", "77/324"), (1, "1/6", "20/81")])
def test_kuhn_scripts_have_their_published_values(seat: int, memoryless: str, last: str) -> None:
    found = references("kuhn_poker", KUHN, seat, 3)
    assert found.missing == {}
    assert found.memoryless == near(memoryless)
    assert found.best_response_mean == near("5/18")
    assert found.best_response["conservative"] == near(["1/6", "1/3"][seat])
    assert found.equilibrium == near(["-1/18", "1/18"][seat])
    assert found.bayes_last == near(last)


def test_kuhn_limit_averaged_over_seats() -> None:
    both = [bayes_optimal("kuhn_poker", KUHN, seat, 3, PlanObjective.LAST)[-1] for seat in (0, 1)]
    assert sum(both) / 2 == near("157/648")


def test_the_memoryless_bound_depends_on_the_weights() -> None:
    paper = [("conservative", 0.3), ("aggressive", 0.3), ("intermediate", 0.4)]
    assert best_memoryless("kuhn_poker", paper, 0, 1) == near("1/12")


@pytest.mark.parametrize("seat", [0, 1])
def test_the_seven_have_their_published_values(seat: int) -> None:
    found = references("rps(rounds=3)", SEVEN, seat, 3)
    assert found.memoryless == near("22/63")
    assert found.bayes_last == near("1")
    assert found.bayes_sum == near("146/63")
    assert found.bayes_sum_split is not None
    assert sum(found.bayes_sum_split) == near("146/63")
    assert set(found.best_response.values()) == {1.0}
    assert found.equilibrium == near("0")


@pytest.mark.parametrize("seat", [0, 1])
def test_the_105_memory_one_players_have_their_published_values(seat: int) -> None:
    found = references("rps(rounds=3)", MEMORY_ONE, seat, 3)
    assert found.memoryless == near("23/105")
    assert found.bayes_last == near("1")
    assert found.bayes_sum == near("29/15")


def test_rewording_changes_no_value() -> None:
    plain = references("kuhn_poker", KUHN, 0, 3)
    reworded = references("kuhn_poker(reworded=5)", KUHN, 0, 3)
    assert msgspec.to_builtins(reworded) == msgspec.to_builtins(plain)


def test_members_that_differ_only_in_the_second_episode_cannot_be_exploited_before() -> None:
    pool = [("always:rock", 1.0), ("switch(always:rock, always:paper, at=1)", 1.0)]
    found = references("rps(rounds=1)", pool, 0, 3)
    assert found.bayes_sum_split == (1.0, 0.5, 1.0)
    assert found.memoryless == near("1/2")  # paper, which wins half of the time and draws otherwise


def test_the_figures_are_ordered() -> None:
    pool = [("behaviour(seed=1)", 1.0), ("behaviour(seed=2)", 2.0), ("uniform", 1.0), ("conservative", 3.0)]
    for seat in (0, 1):
        found = references("kuhn_poker", pool, seat, 3)
        assert found.equilibrium is not None
        assert found.memoryless is not None
        assert found.bayes_last is not None
        assert found.bayes_sum is not None
        assert found.best_response_mean is not None
        assert found.equilibrium < found.memoryless < found.bayes_last < found.best_response_mean
        assert 3 * found.memoryless < found.bayes_sum < 3 * found.bayes_last + 1e-12


@pytest.mark.parametrize(
    ("game", "opponent"),
    [
        ("kuhn_poker", "aggressive"),
        ("kuhn_poker", "behaviour(seed=4)"),
        ("kuhn_poker", "mixture(conservative,aggressive,behaviour(seed=2),weights=[1,2,3],each=trial)"),
        ("rps(rounds=2)", "automaton(states=3,noise=0.3,seed=1)"),
        ("pd(rounds=3)", "copy"),
        ("tic_tac_toe", "preferred:edges"),
    ],
)
def test_best_replies_as_players_reach_the_exact_value(game: str, opponent: str) -> None:
    """A reply that does not know what the opponent drew for the trial is the best memoryless play."""
    rules = load_game(game)
    for seat in (0, 1):
        ((_, reply),) = enumerate_policies(f"best-response({opponent})", rules, seat)
        value = 0.0
        for probability, other in enumerate_policies(opponent, rules, 1 - seat):
            policies = [reply, other] if seat == 0 else [other, reply]
            value += probability * expected_returns(rules, policies)[seat]
        assert best_memoryless(game, [(opponent, 1.0)], seat, 1) == pytest.approx(value, abs=1e-12)
        assert best_response(game, opponent, seat, 1) >= value - 1e-12


def test_one_episode_is_the_memoryless_value() -> None:
    for objective in PlanObjective:
        assert bayes_optimal("kuhn_poker", KUHN, 0, 1, objective) == (best_memoryless("kuhn_poker", KUHN, 0, 1),)


def test_security_values() -> None:
    assert security_value("pd(rounds=5)", 0) == near("1")  # defection guarantees the punishment, and no more
    assert security_value("matrix(payoffs=[[2,-1],[-1,1]])", 1) == near("-1/5")
    assert security_value("tic_tac_toe", 1) == 0.0
    assert security_value("leduc_poker", 0) == pytest.approx(-0.085606424078, abs=1e-9)  # known from the literature


def test_a_continuous_family_leaves_its_fields_empty_with_a_reason() -> None:
    found = references("kuhn_poker", [("conservative", 1.0), ("behaviour", 1.0)], 0, 3)
    assert found.best_response == {"conservative": near("1/6")}
    assert (found.memoryless, found.bayes_last, found.bayes_sum, found.bayes_sum_split) == (None,) * 4
    assert found.best_response_mean is None
    assert found.equilibrium == near("-1/18")
    assert set(found.missing) == {"best_response(behaviour)", "memoryless", "myopic", "bayes_last", "bayes_sum"}
    assert all("'behaviour'" in reason for reason in found.missing.values())


@pytest.mark.parametrize(("game", "opponent"), [("kuhn_poker(players=3)", "uniform"), ("chess", "uniform")])
def test_games_that_are_too_large_say_so(game: str, opponent: str) -> None:
    found = references(game, [(opponent, 1.0)], 0, 3)
    values = {"memoryless", "myopic", "bayes_last", "bayes_sum"}
    assert set(found.missing) == {f"best_response({opponent})", "equilibrium", *values}


def test_a_trial_too_long_to_plan_says_so() -> None:
    pool = [(f"behaviour(seed={seed})", 1.0) for seed in range(3)]
    with pytest.raises(InexactError, match="200 episodes"):
        bayes_optimal("kuhn_poker", pool, 0, 200, PlanObjective.LAST)


def test_realisations_list_what_a_maker_can_draw() -> None:
    game = load_game("rps(rounds=3)")
    assert [p for p, _ in enumerate_policies("cycle(step=2)", game, 0)] == [near("1/3")] * 3
    assert [p for p, _ in enumerate_policies("mixture(copy, always:rock, weights=[3,1], each=trial)", game, 0)] == [
        *[near("1/4")] * 4
    ]
    with pytest.raises(InexactError, match="'automaton'"):
        enumerate_policies("automaton", game, 0)


@pytest.mark.parametrize(
    ("pool", "seat", "episodes", "message"),
    [
        ([], 0, 3, "at least one opponent"),
        ([("uniform", 0.0)], 0, 3, "positive number, not 0.0"),
        ([("uniform", float("nan"))], 0, 3, "positive number, not nan"),
        ([("uniform", 1.0)], 2, 3, "seat 2 does not exist"),
        ([("uniform", 1.0)], 0, 0, "at least 1 episode, not 0"),
        ([("conservativ", 1.0)], 0, 3, "unknown opponent 'conservativ'"),
    ],
)
def test_bad_input_is_refused(pool: list[tuple[str, float]], seat: int, episodes: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        references("kuhn_poker", pool, seat, episodes)


def test_exact_values_are_shown_as_fractions() -> None:
    assert [fraction_text(v) for v in (22 / 63, 157 / 648, 0.1 * 3 - 0.3, 2**-0.5)] == [
        "22/63",
        "157/648",
        "0",
        "0.7071",
    ]


def test_plans_are_read_back_from_disk_and_broken_entries_written_anew() -> None:
    value = bayes_optimal("rps(rounds=2)", SEVEN, 0, 2, PlanObjective.SUM)
    (entry,) = (cache_directory() / "exact").iterdir()
    content = entry.read_bytes()
    entry.write_bytes(b"[0.25,0.5]")
    assert bayes_optimal("rps(rounds=2)", SEVEN, 0, 2, PlanObjective.SUM) == (0.25, 0.5)
    for broken in (b"", content[:-3], b"\xff\x00", b"[1.0]", b'{"a": 1}'):
        entry.write_bytes(broken)
        assert bayes_optimal("rps(rounds=2)", SEVEN, 0, 2, PlanObjective.SUM) == value
        assert entry.read_bytes() == content


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path / "file"))
    assert bayes_optimal("kuhn_poker", KUHN, 0, 2, PlanObjective.LAST)[-1] == near("5/27")


def test_the_cache_tells_opponents_apart() -> None:
    first = bayes_optimal("rps(rounds=1)", [("always:rock", 1.0), ("always:paper", 1.0)], 0, 2, PlanObjective.SUM)
    second = bayes_optimal("rps(rounds=1)", [("always:rock", 3.0), ("always:paper", 1.0)], 0, 2, PlanObjective.SUM)
    assert first == (0.5, 1.0)
    assert second == (0.75, 1.0)
