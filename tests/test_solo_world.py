"""Worlds of one seat: levels, chance, forfeits, limits, keys, and the exact model beside what is played."""

from __future__ import annotations

from collections import Counter
from math import fsum
from typing import Any

import msgspec
import pytest

from mage.checks.worlds import check_world
from mage.errors import ConfigError, InexactError, PlayError
from mage.protocols import Env, ExactWorld
from mage.types import Ending, Result, Task
from mage.worlds.registry import load_world
from mage.worlds.solo import SoloPosition, SoloWorld
from tests.solo_worlds import Guesses, HiddenNumber

NUMBER, TOSSED, SHOP = "test-number", "test-number(coin=true)", "test-shop"


def task_of(world: str = NUMBER, seed: int = 1, **changes: Any) -> Task:
    task = Task(world, (), 0, seed, 3, replay_deal=False, early_stop=False, max_turns=50)
    return msgspec.structs.replace(task, **changes)


def played(task: Task, *actions: str | None, episode: int = 0) -> tuple[Env, list[str]]:
    """An environment after some actions, and all that was told."""
    env = load_world(task.world).new_env(task, episode)
    told = [env.observe(0).text]
    for action in actions:
        env.step(action)
        told.append(env.observe(0).text)
    return env, told


def hidden_in(task: Task, episode: int = 0) -> str:
    env, _ = played(task, None, episode=episode)
    return str(env.result().facts["hidden"])


@pytest.mark.parametrize("spec", [NUMBER, TOSSED, SHOP, "test-number(size=1)"])
def test_they_keep_the_contract_of_worlds(spec: str) -> None:
    report = check_world(spec)
    assert report.info.num_seats == 1
    assert report.levels


def test_the_seed_draws_what_is_hidden_by_its_weight_and_it_stays_for_the_trial() -> None:
    drawn = Counter(hidden_in(task_of(seed=seed)) for seed in range(400))
    assert [abs(drawn[str(n)] / 400 - n / 10) < 0.08 for n in range(1, 5)] == [True] * 4
    for seed in range(5):
        assert len({hidden_in(task_of(seed=seed), episode) for episode in range(4)}) == 1


@pytest.mark.parametrize("level", ["1", "2", "3", "4"])
def test_a_level_is_what_is_hidden_whatever_the_seed(level: str) -> None:
    assert {hidden_in(task_of(seed=seed, level=level)) for seed in range(20)} == {level}
    env, told = played(task_of(level=level), level)
    assert told[-1] == f"{level} is right."
    assert env.result().returns == (1.0,)


def test_a_level_that_does_not_exist_is_refused_with_those_that_do() -> None:
    world = load_world(NUMBER)
    world.check_level("4")
    for refused in (lambda: world.check_level("five"), lambda: world.new_env(task_of(level="five"), 0)):
        with pytest.raises(ConfigError, match="unknown level 'five'; known: 1, 2, 3, 4"):
            refused()


def test_there_are_no_opponents() -> None:
    world = load_world(NUMBER)
    with pytest.raises(ConfigError, match="has one seat and no opponent 'uniform'"):
        world.opponent("uniform", task_of(), 1)
    with pytest.raises(ConfigError, match="a world of one seat has no opponent 'uniform'"):
        world.check_opponent("uniform", 1)


def test_success_is_what_the_world_says() -> None:
    for guesses, score, success in ((("3",), 1.0, True), (("1", "3"), 0.5, True), (("1", "2"), 0.0, False)):
        result = played(task_of(level="3"), *guesses)[0].result()
        assert (result.ending, result.returns, result.is_success(0)) == (Ending.FINISHED, (score,), success)


def test_gains_add_up_to_the_score() -> None:
    env = load_world(NUMBER).new_env(task_of(level="3"), 0)
    assert [env.step("1"), env.step("3")] == [(0.0,), (0.5,)]


def test_a_forfeit_scores_the_lowest_and_is_no_success() -> None:
    env, _ = played(task_of(level="3"), "1", None)
    result = env.result()
    assert (result.ending, result.forfeited_by, result.returns) == (Ending.FORFEITED, 0, (0.0,))
    assert not result.is_success(0)
    with pytest.raises(PlayError, match="the episode is over, '3' cannot be played"):
        env.step("3")


def test_an_episode_that_is_too_long_is_truncated() -> None:
    env, _ = played(task_of(level="3", max_turns=1), "1")
    assert env.to_move() is None
    assert env.result().ending is Ending.TRUNCATED
    assert env.result().outcomes == ("The episode was stopped because it was too long.",)
    finished, _ = played(task_of(level="3", max_turns=1), "3")
    assert finished.result().ending is Ending.FINISHED, "an episode may end with its last turn"


def test_what_is_not_legal_is_refused_and_changes_nothing() -> None:
    env, _ = played(task_of(level="3"), "1")
    before = env.observe(0)
    with pytest.raises(PlayError, match="'9' is not legal; legal are 1, 2, 3, 4"):
        env.step("9")
    with pytest.raises(PlayError, match="the episode is not over"):
        env.result()
    assert env.observe(0) == before


def test_chance_is_drawn_by_seed_and_episode_alone() -> None:
    def coins(task: Task, episode: int) -> list[str]:
        return played(task, "1", episode=episode)[1]

    episodes = [coins(task_of(TOSSED, level="4", seed=seed), episode) for seed in range(10) for episode in range(10)]
    shown = Counter(line.split()[-1] for told in episodes for line in told)
    assert shown.total() == 200
    assert 0.15 < shown["heads."] / 200 < 0.35
    assert coins(task_of(TOSSED, level="4"), 0) == coins(task_of(TOSSED, level="4"), 0)
    again = task_of(TOSSED, level="4", replay_deal=True)
    assert len({tuple(coins(again, episode)) for episode in range(10)}) == 1


def test_a_key_is_all_that_was_told_and_done() -> None:
    def key(*actions: str, level: str = "4") -> str:
        return played(task_of(level=level), *actions)[0].observe(0).key

    assert key("1") == key("1", level="3"), "what is hidden is not in the key"
    assert len({key(), key("1"), key("2"), key("4", level="3")}) == 4
    assert key("1") == "Your first guess?\n> 1\n1 is too low.\n"


def test_what_is_hidden_is_told_to_viewers_and_not_to_players() -> None:
    env, _ = played(task_of(level="3"), "1")
    assert env.observe(0).facts == {"made": (1,)}
    env.step("2")
    assert env.result().facts == {"made": (1, 2), "hidden": "3"}


def test_what_is_hidden_must_have_weights() -> None:
    class Empty(HiddenNumber):
        def hidden(self) -> dict[int, float]:
            return {}

    class Weightless(HiddenNumber):
        def hidden(self) -> dict[int, float]:
            return {1: 1.0, 2: 0.0}

    for world in (Empty(), Weightless()):
        with pytest.raises(ConfigError, match="at least one thing, each with a weight above 0"):
            world.draw(task_of())


def reached(world: SoloWorld[int, Guesses], level: str, *actions: int) -> dict[tuple[bool, str], float]:
    """What the exact model of one level says may be seen after some actions, with probabilities."""
    model = world.exact_model([(level, 1.0)], 0)
    assert dict(model.prior) == {0: 1.0}

    def settled(position: SoloPosition[int, Guesses], chance: float) -> dict[SoloPosition[int, Guesses], float]:
        following = model.forward(position, {0})
        if not following:
            return {position: chance}
        return {end: p for after, by in following for end, p in settled(after, chance * by[0]).items()}

    ((first, by_type),) = model.start(0)
    here = settled(first, by_type[0])
    for action in actions:
        here = {end: p for at, share in here.items() for end, p in settled(model.after(at, action), share).items()}
    seen: dict[tuple[bool, str], float] = {}
    for position, share in here.items():
        seen[model.seen(position)] = seen.get(model.seen(position), 0.0) + share
    return seen


def test_the_exact_model_has_the_probabilities_of_what_is_played() -> None:
    world = HiddenNumber(coin=True)
    expected = reached(world, "4", 0)
    assert fsum(expected.values()) == pytest.approx(1.0)
    num = 2000
    keys = Counter(played(task_of(TOSSED, seed, level="4"), "1")[0].observe(0).key for seed in range(num))
    assert set(expected) == {(False, key) for key in keys}
    for (_, key), share in expected.items():
        assert keys[key] / num == pytest.approx(share, abs=0.04)


def test_the_exact_model_tells_and_scores_ends_as_they_are_played() -> None:
    world = HiddenNumber()
    model = world.exact_model([], 0)
    assert dict(model.prior) == pytest.approx({0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4})
    for number, (position, by_type) in enumerate(model.start(0)):
        assert dict(by_type) == {number: 1.0}
        for first in range(4):
            for second in range(4):
                at = model.after(position, first)
                actions = [first] if model.seen(at)[0] else [first, second]
                end = at if len(actions) == 1 else model.after(at, second)
                result: Result = played(task_of(level=str(number + 1)), *(str(a + 1) for a in actions))[0].result()
                assert (model.seen(end), model.score(end)) == ((True, result.outcomes[0]), result.returns[0])


def test_there_is_no_exact_model_of_open_actions_and_nothing_to_guarantee() -> None:
    shop = load_world(SHOP)
    assert isinstance(shop, ExactWorld)
    with pytest.raises(InexactError, match="any text is an action"):
        shop.exact_model([], 0)
    with pytest.raises(InexactError, match="no opponents to guard against"):
        shop.guaranteed_score(0)
