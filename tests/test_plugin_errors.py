"""What users plug in is checked where it is used: one line names it, what it did, and what is allowed."""

from __future__ import annotations

import asyncio
import math
import random
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import typer

import mage
from mage.checks.players import observations_of
from mage.cli.duel import command as duel
from mage.engines.registry import make_server
from mage.errors import ConfigError, InexactError, PlayError
from mage.learners.registry import make_learner
from mage.models.load import load_model
from mage.opponents.behaviours import behaviours
from mage.opponents.enumerate import enumerate_policies
from mage.opponents.policy import CheckedPolicy
from mage.opponents.registry import check_opponent, make_player, make_policy
from mage.rollout.group import outcomes_of
from mage.spec import parse_spec
from mage.training.parts import Parts
from mage.types import Failure, Group, Task
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


def few(*given: object) -> None:
    """What a test registers in place of a factory."""


def raises(*given: object) -> None:
    raise KeyError("made")


RAISED = rf"raises KeyError: 'made' \(at test_plugin_errors.py:{raises.__code__.co_firstlineno + 1}\)"


def takes_two(game: Any, seat: int) -> None:
    """Lacks the third parameter of a maker."""


def takes_one(loaded: Any) -> None:
    """Lacks the other parameters of engines and learners."""


def takes_none() -> None:
    """Lacks the parameter of a loader."""


@pytest.mark.parametrize(
    ("maker", "said"),
    [
        (takes_two, r"opponent 'own' is called with \(game, seat, rng, …parameters\), but takes game, seat$"),
        (few, "the maker of opponent 'own' returned None; allowed is a policy, a function from an observation"),
        (raises, f"the maker of opponent 'own' {RAISED}"),
    ],
)
def test_a_maker_that_cannot_be_used_is_refused(maker: Any, said: str) -> None:
    mage.register_opponent("own", maker)
    with pytest.raises(ConfigError, match=said):
        check_opponent("own", load_game(PENNIES), 1)


def test_fits_may_raise() -> None:
    mage.register_opponent("own", few, fits=raises)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"fits of opponent 'own' {RAISED}"):
        check_opponent("own", load_game(PENNIES), 1)


def test_an_opponent_is_registered_by_functions() -> None:
    with pytest.raises(
        ConfigError, match=r"an opponent is a function maker\(game, seat, rng, …\) or an Opponent, not 5"
    ):
        mage.register_opponent("own", 5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="fits is a function from a game to whether it can be played, not 'rps'"):
        mage.register_opponent("own", few, fits="rps")  # type: ignore[arg-type]


def test_an_outcome_is_drawn_by_a_maker_as_before() -> None:
    def maker(game: Any, seat: int, rng: random.Random) -> Any:
        return rng.random()

    mage.register_opponent("own", maker)
    with pytest.raises(InexactError):
        enumerate_policies("own", load_game(PENNIES), 1)


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (takes_one, r"is called with \(loaded, settings\), but takes \(loaded: 'Any'\) -> 'None'"),
        (raises, RAISED),
        (few, "lacks publish, policy, drop"),
    ],
)
def test_an_engine_that_cannot_be_made_is_refused(factory: Any, said: str) -> None:
    mage.register_engine("own", factory)
    with pytest.raises(ConfigError, match=f"engine 'own' {said}"):
        make_server("own", None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (takes_one, r"is called with \(model, settings, with_values, imitates\), but takes \(loaded"),
        (raises, RAISED),
    ],
)
def test_a_learner_that_cannot_be_made_is_refused(factory: Any, said: str) -> None:
    mage.register_learner("own", factory)
    with pytest.raises(ConfigError, match=f"learner 'own' {said}"):
        make_learner("own", None, None, with_values=False, imitates=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        (takes_none, r"model 'own' is called with \(request, …parameters\), but takes no parameters"),
        (raises, f"the loader of model 'own' {RAISED}"),
        (few, "the loader of the model 'own' must return"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_refused(loader: Any, said: str) -> None:
    mage.register_model("own", loader)
    with pytest.raises(ConfigError, match=said):
        load_model("own")


def failed(error: Exception) -> Failure:
    """What becomes of a trial in which a user's code raises."""

    async def play() -> None:
        raise error

    async def outcomes() -> list[Failure | None]:
        return [outcome async for outcome in outcomes_of([((TASK, 0), play)], 1)]

    (outcome,) = asyncio.run(outcomes())
    assert outcome is not None
    return outcome


TASK = Task(PENNIES, (), 0, 0, 1, replay_deal=False, early_stop=False, max_turns=10)


def test_a_failure_says_where_a_users_code_raised() -> None:
    line = failed.__code__.co_firstlineno + 4
    assert failed(KeyError("late boom")).message == f"'late boom' (at test_plugin_errors.py:{line})"
    assert failed(PlayError("told")).message == "told"


@pytest.mark.parametrize(
    ("num", "said"),
    [(1, "the only trial failed: KeyError: boom"), (2, "all 2 trials failed; the first: KeyError: boom")],
)
def test_a_run_ends_where_all_its_trials_failed(num: int, said: str) -> None:
    group = Group(TASK, (), (Failure(TASK, 0, "KeyError", "boom"),) * num)
    with pytest.raises(PlayError, match=f"^{said}$"):
        Parts.raise_if_all_failed(cast(Any, None), [group])
