"""WebShop: its players, its splits, and how its pages are drawn."""

from __future__ import annotations

import asyncio
from statistics import mean
from typing import Any

import pytest

from mage.config.load import load_config
from mage.errors import ConfigError
from mage.evaluation.eval_agent import load_eval_agent
from mage.evaluation.held_out import avoid_held_out, refuse_held_out
from mage.evaluation.splits import load_split
from mage.opponents.agent_seat import check_seat_agent, seat_agent
from mage.opponents.person import parse_choice
from mage.protocols import Agent
from mage.rollout.trial import play_trial
from mage.runs.drawings import drawing_of
from mage.types import Memory, Task, Trial
from mage.worlds.registry import load_world
from mage.worlds.webshop.generate import full_query
from tests.test_webshop import shop, task

PLAYERS = ("uniform", "rule-based", "learns-from-failure", "expert")


def played(player: str, world: str = "webshop", seed: int = 0, level: str = "") -> Trial:
    def make(task: Task, sibling: int) -> Agent:
        return seat_agent(load_world(task.world), player, task)

    return asyncio.run(play_trial(load_world(world), task(world, seed, level), 0, make))


def successes(player: str, world: str, num: int) -> list[float]:
    """By episode the share of goals that a player meets."""
    trials = [played(player, world, level, str(level)) for level in range(num)]
    return [mean(trial.episodes[episode].result.is_success(0) for trial in trials) for episode in range(3)]


@pytest.mark.parametrize("spec", ["webshop", "webshop(search=free)", "webshop(reworded=7)", "webshop(turns=6)"])
def test_the_expert_always_succeeds(spec: str) -> None:
    assert successes("expert", spec, 150) == [1.0, 1.0, 1.0]


def test_the_expert_succeeds_with_every_goal_in_six_turns() -> None:
    for level in range(1000):
        trial = asyncio.run(
            play_trial(
                shop(), task(level=str(level), episodes=1), 0, lambda task, _: seat_agent(shop(), "expert", task)
            )
        )
        assert trial.scores == (1.0,)
        assert len(trial.episodes[0].turns) <= 6


@pytest.mark.parametrize("spec", ["webshop", "webshop(search=free)", "webshop(reworded=7)"])
def test_rules_go_half_the_way_and_learning_from_failure_further(spec: str) -> None:
    rule_based, learner = (successes(player, spec, 150) for player in ("rule-based", "learns-from-failure"))
    assert 0.3 < rule_based[0] == rule_based[2] < 0.6
    assert learner[0] == rule_based[0]
    assert learner[0] + 0.1 < learner[1] < learner[2]


def test_random_play_fails() -> None:
    assert max(successes("uniform", "webshop", 300)) < 0.02


def test_who_learns_from_failure_does_not_without_memory() -> None:
    loaded = load_eval_agent("learns-from-failure", worlds=["webshop"])
    for level in range(40):
        make_agent = loaded.make_agent(shop(), Memory.NONE)
        control = asyncio.run(play_trial(shop(), task(level=str(level)), 0, make_agent))
        assert control.scores == played("rule-based", level=str(level)).scores


def test_what_fitted_is_bought_again() -> None:
    for level in range(60):
        scores = played("learns-from-failure", level=str(level)).scores
        is_met = [score == 1.0 for score in scores]
        assert is_met == sorted(is_met)


def test_players_are_known_by_name() -> None:
    for player in PLAYERS:
        check_seat_agent(shop(), player, 0)
    with pytest.raises(ConfigError, match="uniform, expert, rule-based, learns-from-failure and models play"):
        check_seat_agent(shop(), "copy", 0)


def test_splits_are_of_different_goals_and_held_out_ones_are_not_trained_on() -> None:
    seen, unseen, harder = (load_split(f"webshop-{name}") for name in ("seen", "unseen", "harder"))
    assert sorted(map(int, (*seen.members, *unseen.members))) == list(range(1000))
    assert max(map(int, unseen.members)) < 500
    assert set(harder.members) < set(unseen.members)
    refuse_held_out("webshop", ())
    refuse_held_out("webshop", seen.members)
    with pytest.raises(ConfigError, match="is held out by the split 'webshop-"):
        refuse_held_out("webshop(turns=6)", unseen.members[:1])
    config = load_config("doors", ["world=webshop"])
    drawn = [avoid_held_out(config, task(seed=seed)) for seed in range(40)]
    levels = [int(shop().drawn_level(one)) for one in drawn]
    assert min(levels) >= 500
    assert len(set(levels)) > 30


def test_pages_are_drawn_in_the_terminal_but_not_in_other_words() -> None:
    env = shop().new_env(task(level="3"), 0)
    env.step(f"search[{full_query(shop().draw(task(level='3')))}]")
    drawing: Any = drawing_of("webshop").position(env.observe(0))
    asked, head, table, left = drawing.renderables
    assert asked.plain.startswith("Find: ")
    assert head.plain.startswith("Page 1 of 10 for: ")
    assert table.row_count == 5
    assert left.plain == "Turns left: 11"
    assert drawing_of("webshop(reworded=7)").position(env.observe(0)) is None


def test_a_person_may_type_what_stands_in_the_brackets() -> None:
    actions = ("click[B0003]", "click[buy now]", "click[< prev]", "search[red shoes]")
    assert parse_choice("Buy  Now", actions, True) == ("click[buy now]", "")
    assert parse_choice("red shoes", actions, True) == ("search[red shoes]", "")
    assert parse_choice("b0003", actions, True) == ("click[B0003]", "")
    assert parse_choice("b", actions, True)[0] is None
