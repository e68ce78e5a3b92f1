"""Exact references of worlds of one seat: values worked out by hand, played by the exact players, and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from mage.config.load import load_config
from mage.errors import ConfigError, InexactError, PlayError
from mage.evaluation.eval_agent import load_eval_agent
from mage.evaluation.exact import (
    BayesAgentFactory,
    MemorylessAgentFactory,
    PlanObjective,
    bayes_optimal,
    best_memoryless,
    best_response,
    references,
)
from mage.evaluation.exact.pool import load_pool, normalise_members
from mage.evaluation.exact.tree import MAX_DECISIONS
from mage.evaluation.splits import make_split
from mage.evaluation.suite.regret import exploitation, regret
from mage.protocols import AgentFactory, ExactWorld
from mage.rollout.group import play_trials
from mage.stats import mean
from mage.training.teacher import teacher_of
from mage.types import Failure, Memory, Task, Trial
from mage.worlds.registry import WORLDS, load_world
from mage.worlds.solo import SoloWorld
from tests import exact_worlds, hidden_number

near = pytest.approx
hidden_number.register()
TAUGHT = ("population.split=", "trial.seats=[0]", "agent.memory=history", "trial.episodes=3", "evaluation.splits=[]")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what another run of the tests has stored."""
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("world", "memoryless", "last", "split"),
    [
        ("solo-doors", 0.5, 1.0, (1 / 3, 2 / 3, 1.0)),
        ("solo-scout", 0.3, 1.0, (0.0, 1.0, 1.0)),
        ("solo-diagnosis", 0.5, 1.0, (0.4, 0.5, 1.0)),
        ("hidden_number", 7 / 8, 1.0, (7 / 8, 1.0, 1.0)),
    ],
)
def test_worlds_have_the_values_worked_out_by_hand(
    world: str, memoryless: float, last: float, split: Sequence[float]
) -> None:
    found = references(world, [], 0, 3)
    assert found.memoryless == near(memoryless)
    assert found.bayes_last == near(last)
    assert found.bayes_sum == near(sum(split))
    assert found.bayes_sum_split == near(tuple(split))
    assert found.best_response == {"": near(1.0)}
    assert found.best_response_mean == near(1.0)
    assert found.opponents == (("", 1.0),)
    assert found.equilibrium is None
    assert set(found.missing) == {"equilibrium"}


def test_members_are_levels_with_weights() -> None:
    pool = [("1", 1.0), ("2", 3.0)]
    found = references("solo-doors", pool, 0, 2)
    assert found.opponents == (("1", 0.25), ("2", 0.75))
    assert found.best_response == {"1": near(1.0), "2": near(1.0)}
    assert found.memoryless == near(0.75)
    assert found.bayes_sum_split == near((0.75, 1.0))
    assert best_response("solo-doors", "3", 0, 1) == near(1.0)
    assert references("solo-doors", [("2", 1.0), ("1", 1.0), ("2", 2.0)], 0, 2).memoryless == found.memoryless


def test_all_levels_evenly_are_what_the_seed_draws() -> None:
    levels = [(str(level), 1.0) for level in range(1, 9)]
    named, drawn = references("hidden_number", levels, 0, 2), references("hidden_number", [], 0, 2)
    assert (named.memoryless, named.bayes_last, named.bayes_sum) == near(
        (drawn.memoryless, drawn.bayes_last, drawn.bayes_sum)
    )
    assert references("hidden_number", [("", 5.0)], 0, 2) == drawn


def test_chance_within_an_episode_is_averaged_and_learned_from() -> None:
    """Heads: named loaded, right in 0.9 / 2 of all trials; tails: named fair, right in 0.5 / 2.

    With two flips only HH (0.81 against 0.25) is named loaded.
    """
    assert best_memoryless("solo-coin", [], 0, 1) == near(0.7)
    assert bayes_optimal("solo-coin", [], 0, 2, PlanObjective.LAST) == near((0.7, (0.81 + 3 * 0.25) / 2))
    assert best_response("solo-coin", "", 0, 1) == near(1.0)


@pytest.mark.parametrize("objective", PlanObjective)
@pytest.mark.parametrize("world", ["solo-doors", "solo-scout", "solo-diagnosis", "hidden_number"])
def test_players_score_their_exact_values_over_all_levels(world: str, objective: PlanObjective) -> None:
    num_levels = len(_solo(world).hidden())
    tasks = [_task(world, str(level)) for level in range(1, num_levels + 1)]
    trials = _played(world, tasks, BayesAgentFactory([], objective))
    scores = [sum(t.scores[k] for t in trials) / len(trials) for k in range(3)]
    assert scores == near(bayes_optimal(world, [], 0, 3, objective))
    controls = _played(world, tasks, MemorylessAgentFactory([]))
    assert [sum(t.scores[k] for t in controls) / len(controls) for k in range(3)] == near(
        [best_memoryless(world, [], 0, 1)] * 3
    )


def test_players_learn_from_chance_as_planned() -> None:
    tasks = [_task("solo-coin", "", seed) for seed in range(1500)]
    trials = _played("solo-coin", tasks, BayesAgentFactory([], PlanObjective.LAST))
    for k, value in enumerate(bayes_optimal("solo-coin", [], 0, 3, PlanObjective.LAST)):
        assert mean([t.scores[k] for t in trials]).holds(value)


def test_players_refuse_a_level_that_they_do_not_expect() -> None:
    task = _task("hidden_number", "8")
    (outcome,) = _outcomes("hidden_number", [task], BayesAgentFactory([("1", 1.0)], PlanObjective.LAST))
    assert isinstance(outcome, Failure)
    assert "level is not in the pool" in outcome.message


def test_regret_is_zero_for_the_exact_player_and_exploitation_unknown() -> None:
    tasks = [_task("solo-doors", str(level)) for level in (1, 2, 3)]
    trials = _played("solo-doors", tasks, BayesAgentFactory([], PlanObjective.LAST))
    exact = {0: references("solo-doors", [], 0, 3)}
    found = regret(trials, exact)
    assert found is not None
    assert found.value == near(0.0)
    assert exploitation(trials, exact) is None


def test_the_evaluated_exact_player_needs_no_pool_in_a_world_of_one_seat() -> None:
    world = load_world("solo-scout")
    agent = load_eval_agent("bayes-optimal(objective=sum)").for_split(
        make_split("own", "", "solo-scout", (), held_out=False)
    )
    tasks = [_task("solo-scout", str(level)) for level in (1, 2, 3, 4)]
    assert {t.scores for t in _played("solo-scout", tasks, agent.make_agent(world))} == {(0.0, 1.0, 1.0)}
    controls = _played("solo-scout", tasks, agent.make_agent(world, Memory.NONE))
    assert {t.scores for t in controls} == {(0.3, 0.3, 0.3)}


@pytest.mark.parametrize("members", ["[]", '["1", "2"]'])
def test_the_exact_player_teaches_in_a_world_of_one_seat(members: str) -> None:
    config = load_config("rps", (*TAUGHT, "world=solo-doors", f"population.members={members}"))
    make_teacher = teacher_of(config, "bayes-optimal")
    trials = _played("solo-doors", [_task("solo-doors", level) for level in ("1", "2")], make_teacher)
    assert [t.scores[-1] for t in trials] == [1.0, 1.0]
    with pytest.raises(ConfigError, match="'cfr' plays games with opponents"):
        teacher_of(config, "cfr")


def test_without_an_exact_plan_nothing_is_taught() -> None:
    config = load_config("rps", (*TAUGHT, "world=solo-shouting"))
    with pytest.raises(ConfigError, match="no exact plan against this population: any text is an action"):
        teacher_of(config, "bayes-optimal")


@pytest.mark.parametrize("by", ["words", "number"])
def test_a_list_of_actions_that_gives_the_level_away_is_refused(by: str) -> None:
    with pytest.raises(PlayError, match=r"told 'Choose.' the actions are .* where lists differ something else"):
        best_memoryless(f"solo-unlike(by={by})", [], 0, 1)


@pytest.mark.usefixtures("own_names")
def test_keys_that_hide_different_actions_are_refused_in_any_model() -> None:
    class Leaky:
        """Two types at one decision, with different actions."""

        prior: ClassVar = {0: 0.5, 1: 0.5}

        def start(self, episode: int) -> list[tuple[int, dict[int, float]]]:
            return [(0, {0: 1.0}), (1, {1: 1.0})]

        def forward(self, position: int, types: object) -> tuple[()]:
            return ()

        def seen(self, position: int) -> tuple[bool, str]:
            return position > 1, "Choose."

        def actions(self, position: int) -> tuple[int, ...]:
            return tuple(range(1 + position))

        def after(self, position: int, action: int) -> int:
            return 2

        def score(self, position: int) -> float:
            return 0.0

    class LeakyWorld(exact_worlds.Doors):
        def exact_model(self, members: Sequence[tuple[str, float]], seat: int) -> Leaky:  # type: ignore[override]
            return Leaky()

    WORLDS.add("solo-leaky", LeakyWorld)
    with pytest.raises(PlayError, match=r"solo-leaky: decisions with the key 'Choose.' have .* keys must differ"):
        best_memoryless("solo-leaky", [], 0, 1)


def test_the_longest_episode_is_planned_and_a_longer_one_refused() -> None:
    longest = f"solo-corridor(steps={MAX_DECISIONS})"
    assert bayes_optimal(longest, [], 0, 1, PlanObjective.LAST) == (1.0,)
    with pytest.raises(InexactError, match="too long a trial"):
        bayes_optimal(longest, [], 0, 2, PlanObjective.LAST)
    for world in (f"solo-corridor(steps={MAX_DECISIONS + 1})", "solo-corridor"):
        found = references(world, [], 0, 3)
        assert (found.memoryless, found.bayes_last, found.bayes_sum, dict(found.best_response)) == (
            None,
            None,
            None,
            {},
        )
        assert found.missing["memoryless"].endswith("can take more than 150 decisions, too many to enumerate")


def test_chance_without_an_end_and_too_many_levels_are_refused() -> None:
    for world in ("solo-corridor(by_chance=true)", "hidden_number(highest_number=60)"):
        with pytest.raises(InexactError, match="more than 200000 states") as caught:
            best_memoryless(world, [], 0, 1)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("world", "why"), [("solo-shouting", "any text is an action"), ("solo-unlisted", "lists nothing")]
)
def test_what_cannot_be_listed_has_a_reason(world: str, why: str) -> None:
    found = references(world, [], 0, 3)
    assert (found.memoryless, found.bayes_last, found.bayes_sum, found.bayes_sum_split) == (None,) * 4
    assert all(why in found.missing[name] for name in ("best_response()", "memoryless", "bayes_last", "bayes_sum"))


@pytest.mark.usefixtures("own_names")
def test_a_world_without_an_exact_model_has_no_references_and_says_so() -> None:
    class Plain:
        """A world that can be played and no more."""

        def __init__(self) -> None:
            doors = exact_worlds.Doors()
            self.info, self.rules, self.new_env = doors.info, doors.rules, doors.new_env
            self.opponent, self.check_opponent = doors.opponent, doors.check_opponent
            self.check_level = doors.check_level

    WORLDS.add("solo-plain", Plain)
    assert not isinstance(load_world("solo-plain"), ExactWorld)
    found = references("solo-plain", [("1", 1.0)], 0, 3)
    values = {"memoryless", "myopic", "bayes_last", "bayes_sum"}
    assert set(found.missing) == {"best_response(1)", "equilibrium", *values}
    assert set(found.missing.values()) == {"solo-plain has no exact model"}
    assert (found.memoryless, found.equilibrium, found.best_response_mean) == (None, None, None)


@pytest.mark.usefixtures("own_names")
def test_chance_must_sum_to_one() -> None:
    class Bent(exact_worlds.Coin):
        def chance(self, hidden: str, position: str) -> dict[str, float]:
            return {"heads": 0.5, "tails": 0.4} if position == "flip" else {}

    WORLDS.add("solo-bent", Bent)
    with pytest.raises(PlayError, match="at 'flip' has probabilities that do not sum to 1"):
        best_memoryless("solo-bent", [], 0, 1)


@pytest.mark.parametrize(
    ("pool", "seat", "message"),
    [
        ([("9", 1.0)], 0, "unknown level '9'; known: 1, 2, 3"),
        ([("1", 0.0)], 0, "the weight of level '1' must be a positive number"),
        ([("", 1.0), ("1", 1.0)], 0, "cannot be in a pool with others"),
        ([], 1, "seat 1 does not exist"),
    ],
)
def test_bad_pools_are_refused(pool: list[tuple[str, float]], seat: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        references("solo-doors", pool, seat, 3)


def test_levels_are_no_specs_and_opponents_are() -> None:
    assert normalise_members("rps", [("always:rock", 1.0), ("always(rock)", 1.0)], 0, 1) == (("always(rock)", 1.0),)
    assert normalise_members("solo-doors", [("1", 2.0)], 0, 1) == (("1", 1.0),)


def test_episodes_that_begin_alike_share_a_tree_and_those_of_opponents_do_not() -> None:
    first, second = load_pool("solo-doors", (("", 1.0),), 0).trees(2)
    assert first is second
    pool = normalise_members("rps(rounds=1)", [("switch(always:rock, always:paper, at=1)", 1.0)], 0, 2)
    first, second = load_pool("rps(rounds=1)", pool, 0).trees(2)
    assert first != second


def _solo(world: str) -> SoloWorld[int, tuple[str, ...]]:
    found = load_world(world)
    assert isinstance(found, SoloWorld)
    return found


def _task(world: str, level: str, seed: int = 0) -> Task:
    return Task(world, (), 0, seed, 3, replay_deal=False, early_stop=False, max_turns=100, level=level)


def _outcomes(world: str, tasks: Sequence[Task], make_agent: AgentFactory) -> list[Trial | Failure]:
    async def play() -> list[Trial | Failure]:
        return [outcome async for outcome in play_trials(load_world(world), [(t, 0) for t in tasks], make_agent)]

    return asyncio.run(play())


def _played(world: str, tasks: Sequence[Task], make_agent: AgentFactory) -> list[Trial]:
    outcomes = _outcomes(world, tasks, make_agent)
    assert [o for o in outcomes if isinstance(o, Failure)] == []
    return [o for o in outcomes if isinstance(o, Trial)]
