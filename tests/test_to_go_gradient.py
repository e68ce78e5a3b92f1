"""Returns to go are a baseline: by enumeration of small games, the expected gradient is that of the objective."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from mage.credit.returns import ReturnSpec
from mage.types import Objective
from mage.worlds.registry import load_world
from tests.enumerated import (
    Whole,
    estimated,
    fixed,
    gradient_of,
    is_complete,
    kuhn,
    lengths,
    stated,
    stop_or_go,
    trials,
)

GAMES = ("stop or go", "early stop", "kuhn", "fixed")


@cache
def played(game: str) -> list[Whole]:
    if game == "kuhn":
        return trials(kuhn, 2)
    if game == "fixed":
        return trials(fixed, 2)
    return trials(stop_or_go, 3, early_stop=game == "early stop")


def test_the_games_are_enumerated_completely_and_their_lengths_vary_where_they_should() -> None:
    assert all(is_complete(played(game)) for game in GAMES)
    assert [lengths(played(game)) for game in GAMES] == [{1, 2, 3}, {1, 2, 3}, {1, 2}, {2}]
    assert {len(whole.trial.episodes) for whole in played("early stop")} == {1, 2, 3}


@pytest.mark.parametrize("turn", [1.0, pytest.param(0.9, marks=pytest.mark.slow), 0.5])
@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("game", GAMES)
def test_with_returns_to_go_and_without_the_expected_gradient_is_that_of_the_objective(
    game: str, objective: Objective, turn: float
) -> None:
    wanted = stated(played(game), ReturnSpec(objective, turn, 0.6))
    assert wanted.abs().max() > 1e-3
    for turns in (0, 2) if game == "fixed" else (0,):
        for to_go in (False, True):
            found = estimated(played(game), ReturnSpec(objective, turn, 0.6, to_go=to_go, turns=turns))
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


def test_even_a_wrong_number_of_turns_gives_the_same_gradient() -> None:
    wanted = stated(played("kuhn"), ReturnSpec(Objective.DIFFERENTIAL, 0.5, 0.6))
    found = estimated(played("kuhn"), ReturnSpec(Objective.DIFFERENTIAL, 0.5, 0.6, to_go=True, turns=5))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("to_go", [False, True])
@pytest.mark.parametrize("game", GAMES)
def test_without_discounts_three_objectives_are_gradients_of_what_a_trial_scores(game: str, to_go: bool) -> None:
    total = gradient_of(played(game), lambda trial: sum(trial.scores))
    last = gradient_of(played(game), lambda trial: trial.scores[-1])
    for objective, wanted in (
        (Objective.CUMULATIVE, total),
        (Objective.DIFFERENTIAL, last),
        (Objective.FINAL, last),
    ):
        found = estimated(played(game), ReturnSpec(objective, 1.0, 1.0, to_go=to_go))
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


def test_repeated_games_say_how_many_turns_they_have_and_others_that_it_varies() -> None:
    assert [load_world(spec).info.turns for spec in ("rps(rounds=4)", "pd", "kuhn_poker", "tic_tac_toe")] == [
        4,
        5,
        0,
        0,
    ]
