"""What users plug in is checked where it is used: one line names it, what it did, and what is allowed."""

from __future__ import annotations

import math
import random
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import mage
from mage.checks.players import observations_of
from mage.cli.duel import command as duel
from mage.errors import PlayError
from mage.opponents.behaviours import behaviours
from mage.opponents.policy import CheckedPolicy
from mage.opponents.registry import make_player, make_policy
from mage.spec import parse_spec
from mage.worlds.openspiel.game import load_game

pytestmark = pytest.mark.usefixtures("own_names")

PENNIES = "pennies(rounds=2)"
TINY = {
    "agent.model": "nano(hidden=16,layers=1,heads=2,context=512)",
    "agent.context": 512,
    "batch.groups": 2,
    "batch.size": 2,
    "steps": 1,
    "threads": 1,
}


def register(returned: Any) -> None:
    """Register the opponent `own`, whose policy returns this, or raises it."""

    def policy(seen: Any) -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    register_policy(policy)


def register_policy(policy: Any) -> None:
    """Register the opponent `own`, made by a function that returns this."""

    def maker(game: Any, seat: int, rng: random.Random, patience: int = 1) -> Any:
        return policy

    mage.register_opponent("own", maker)


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        ([1.0, 1.0], "[1.0, 1.0]"),
        ([2.0, -1.0], "[2.0, -1.0]"),
        ([math.nan, 1.0], "[nan, 1.0]"),
        ([1.0, math.nan], "[1.0, nan]"),
        ([math.inf, 0.0], "[inf, 0.0]"),
        ([1.0], "[1.0]"),
        ([0.5, 0.25, 0.25], "[0.5, 0.25, 0.25]"),
        ([0.5, 0.50001], "[0.5, 0.50001]"),
        ([], "[]"),
        ([[0.5, 0.5]], "[[0.5, 0.5]]"),
        (["0.5", "0.5"], "['0.5', '0.5']"),
        (np.array([[0.5, 0.5]]), "array([[0.5, 0.5]])"),
        (None, "None"),
        (0, "0"),
        ("10", "'10'"),
        ({0: 1.0, 1: 0.0}, "{0: 1.0, 1: 0.0}"),
    ],
)
def test_a_policy_that_returns_no_distribution_is_refused(returned: object, shown: str) -> None:
    register(returned)
    said = f"opponent 'own' returned {shown}; allowed are 2 numbers from 0 that sum to 1, one for each action"
    with pytest.raises(PlayError) as refused:
        behaviours("own", load_game(PENNIES), 1)
    assert str(refused.value) == said


@pytest.mark.parametrize("returned", [(1, 0), [1 / 3, 2 / 3 + 1e-9], np.array([0.25, 0.75], np.float32), [True, False]])
def test_every_kind_of_numbers_is_a_distribution(returned: Sequence[float]) -> None:
    register(returned)
    (seen,) = observations_of(PENNIES, 1, [0], episodes=1)[:1]
    odds = make_player("own", load_game(PENNIES), 1, 0).odds(seen)
    assert odds == [float(share) for share in returned]
    assert all(type(share) is float for share in odds)


def raising(seen: Any) -> Any:
    raise KeyError("boom")


def test_where_a_policy_raises_is_said() -> None:
    register_policy(raising)
    line = raising.__code__.co_firstlineno + 1
    with pytest.raises(PlayError) as refused:
        behaviours("own(patience=2)", load_game(PENNIES), 1)
    assert str(refused.value) == (
        f"opponent 'own(patience=2)' raises KeyError: 'boom' (at test_plugin_errors.py:{line})"
    )


def medians(seen: Any) -> Any:
    return statistics.median([])


def test_the_place_is_one_in_the_users_file_and_the_error_one_line() -> None:
    register_policy(medians)
    line = medians.__code__.co_firstlineno + 1
    with pytest.raises(PlayError, match=rf"no median for empty data \(at test_plugin_errors.py:{line}\)"):
        behaviours("own", load_game(PENNIES), 1)


def test_a_shortage_is_none_of_the_opponents_errors() -> None:
    register(MemoryError())
    with pytest.raises(MemoryError):
        behaviours("own", load_game(PENNIES), 1)


def test_opponents_that_come_with_mage_are_not_wrapped() -> None:
    assert not isinstance(make_policy(parse_spec("uniform"), load_game(PENNIES), 1, random.Random(0)), CheckedPolicy)


@pytest.mark.parametrize("opponent", ["own", "mixture(own,uniform)"])
def test_commands_end_in_a_line_where_a_policy_is_wrong(
    opponent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    register([1.0, 1.0])
    said = r"opponent 'own' returned \[1.0, 1.0\]; allowed are 2 numbers"
    with pytest.raises(PlayError, match=said):
        mage.value(PENNIES, opponents=[opponent])
    with pytest.raises(PlayError, match=rf"none of .* tasks could be played; the first failure is PlayError: {said}"):
        mage.evaluate("uniform", world=PENNIES, opponents=[opponent], trials=2)
    with pytest.raises(typer.Exit):
        duel("uniform", [opponent], PENNIES, trials=2)
    assert re.search(f"The first failure: PlayError: {said}", " ".join(capsys.readouterr().out.split()))
    with pytest.raises(PlayError, match=said):
        mage.train("rps", {**TINY, "population.members": [opponent], "population.split": "", "world": PENNIES})
