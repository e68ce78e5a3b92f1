"""The check of worlds finds every kind of broken world and says what is broken; shipped worlds pass."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from mage.checks.worlds import check_world
from mage.cli import app
from mage.errors import ConfigError, MageError, PlayError
from mage.worlds.hidden import HiddenTable
from mage.worlds.openspiel.game_builders import GAMES
from mage.worlds.registry import load_world
from tests.broken_worlds import BROKEN

MATRIX = "matrix([[1,0],[0,1]])"


@pytest.mark.parametrize(
    ("spec", "why"),
    [(f'{name}(fault="{fault}")', why) for name, (_, faults) in BROKEN.items() for fault, why in faults.items()],
)
def test_a_broken_world_is_found_and_the_reason_is_one_line(spec: str, why: str) -> None:
    load_world.cache_clear()
    with pytest.raises(PlayError, match=why) as caught:
        check_world(spec, range(6), max_turns=50)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", BROKEN)
def test_the_same_worlds_without_a_fault_pass(name: str) -> None:
    assert check_world(name, range(6), max_turns=50).num_episodes > 6


@pytest.mark.parametrize(
    "spec", [*(name for name in GAMES if name != "matrix"), *(spec for spec, _, _ in HiddenTable.listed()), MATRIX]
)
def test_every_shipped_world_passes(spec: str) -> None:
    assert check_world(spec, range(3)).exact == "agrees with 9 episodes"


def test_exact_models_are_followed_where_there_are_some() -> None:
    assert check_world("test-number(coin=true)", range(4)).exact.startswith("agrees with 12 episodes")
    assert check_world("test-shop", range(2)).exact.startswith("none: any text is an action")


def test_levels_can_be_named_and_are_refused_where_they_do_not_exist() -> None:
    assert check_world("test-number", range(1), levels=["4"]).levels[0] == "4"
    with pytest.raises(ConfigError, match="unknown level '9'"):
        check_world("test-number", range(1), levels=["9"])


def test_actions_can_be_named_for_open_worlds() -> None:
    bought = check_world("test-shop", range(4), texts=["buy[red shoes]", "buy[blue shoes]"] * 5)
    assert (bought.lowest, bought.highest) == (0.0, 1.0)
    assert check_world("test-shop", range(4)).highest == 0.0


def test_a_world_without_seeds_is_not_checked() -> None:
    with pytest.raises(ConfigError, match="at least 1 seed"):
        check_world("rps", range(0))


def test_the_command_says_what_was_checked() -> None:
    done = CliRunner().invoke(app, ["check-world", "test-number", "--seeds", "3"], catch_exceptions=False)
    assert done.exit_code == 0
    lines = dict(line.strip().split("  ", 1) for line in done.output.splitlines()[1:] if line.strip())
    assert {key: value.strip() for key, value in lines.items() if key != "episodes"} == {
        "seats": "1",
        "actions": "from a list",
        "scores": "0 to 1 seen, 0 to 1 claimed",
        "levels": ", ".join(check_world("test-number", range(3)).levels),
        "exact model": "agrees with 9 episodes",
    }
    assert lines["episodes"].strip().endswith("turns")


def test_the_command_explains_a_broken_world_in_one_line() -> None:
    with pytest.raises(MageError, match="a seat is told nothing at the end"):
        CliRunner().invoke(app, ["check-world", 'test-broken-kuhn(fault="silent")'], catch_exceptions=False)
