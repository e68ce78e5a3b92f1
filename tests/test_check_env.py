"""The contract's check finds every kind of broken environment, and every promise that is not kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mage.checks.worlds import NewEnv, WorldClaims, check_new_env
from mage.errors import PlayError
from mage.protocols import Env
from mage.types import Ending, Observation, Result, Task
from tests.worlds import AnyWorld

KUHN = WorldClaims(num_seats=2, lowest=-2.0, total=0.0, has_chance=True)


def check(new_env: NewEnv, promises: WorldClaims = KUHN) -> None:
    check_new_env(new_env, promises, "kuhn_poker", range(6), max_turns=50)


def new_env(task: Task, episode: int) -> Env:
    return AnyWorld().new_env(task, episode)


class Broken:
    """An environment that breaks one promise."""

    def __init__(self, env: Env, fault: str) -> None:
        self._env = env
        self._fault = fault
        self._looked = 0

    def to_move(self) -> int | None:
        return self._env.to_move()

    def observe(self, seat: int) -> Observation:
        seen = self._env.observe(seat)
        self._looked += 1
        changes: dict[str, Any] = {
            "restless": {"text": f"{seen.text} {self._looked}"},
            "blank": {"text": " "},
            "wrong seat": {"seat": seat + 1},
            "one word": {"actions": ("go",) * len(seen.ids)},
            "untidy": {"actions": tuple(f"{a} " for a in seen.actions)},
            "unaligned": {"ids": seen.ids[1:]},
            "everybody acts": {"actions": ("go",), "ids": (0,)},
        }
        return msgspec.structs.replace(seen, **changes.get(self._fault, {}))

    def step(self, action: str | None) -> tuple[float, ...]:
        over = self._env.to_move() is None
        if self._fault == "obliging" and action is not None and not over:
            seen = self._env.observe(self._env.to_move() or 0)
            action = action if action in seen.actions else seen.actions[0]
        if self._fault == "endless" and over:
            return (0.0, 0.0)
        gains = self._env.step(action)
        return tuple(g + 1 for g in gains) if self._fault == "generous" else gains

    def result(self) -> Result:
        if self._fault == "hasty" and self._env.to_move() is not None:
            return Result((0.0, 0.0), ("", ""), Ending.FINISHED, None, {})
        result = self._env.result()
        if self._fault == "mild" and result.ending is Ending.FORFEITED:
            return msgspec.structs.replace(result, returns=(0.0, 0.0))
        if self._fault == "tireless" and result.ending is Ending.TRUNCATED:
            return msgspec.structs.replace(result, ending=Ending.FINISHED)
        return result


FAULTS = {
    "restless": "observing twice",
    "blank": "has no text",
    "wrong seat": "seat or turn",
    "one word": "share a word",
    "untidy": "untidy spaces",
    "unaligned": "not aligned",
    "everybody acts": "has actions",
    "obliging": "not legal is played",
    "endless": "after the end",
    "generous": "gains along the way",
    "hasty": "before the end",
    "mild": "a forfeit ends",
    "tireless": "does not stop it",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_environments_are_found(fault: str) -> None:
    with pytest.raises(PlayError, match=FAULTS[fault]):
        check(lambda task, episode: Broken(new_env(task, episode), fault))


@pytest.mark.parametrize(
    ("promises", "why"),
    [
        (KUHN._replace(total=1.0), "do not add up to 1"),
        (KUHN._replace(lowest=-0.5), "a seat scores below"),
        (KUHN._replace(lowest=-3.0), "a forfeit ends"),
    ],
)
def test_broken_promises_are_found(promises: WorldClaims, why: str) -> None:
    check(new_env)
    with pytest.raises(PlayError, match=why):
        check(new_env, promises)


def test_seeds_must_matter() -> None:
    with pytest.raises(PlayError, match="chance is the same for every seed"):
        check(lambda task, episode: new_env(msgspec.structs.replace(task, seed=1), episode))


def test_nothing_but_the_seed_may_matter() -> None:
    seeds = iter(range(1000))
    with pytest.raises(PlayError, match="the same seed gives another episode"):
        check(lambda task, episode: new_env(msgspec.structs.replace(task, seed=next(seeds)), episode))


def test_a_replayed_deal_must_be_the_same() -> None:
    def ignores_replay(task: Task, episode: int) -> Env:
        return new_env(msgspec.structs.replace(task, replay_deal=False), episode)

    with pytest.raises(PlayError, match="a replayed deal differs"):
        check(ignores_replay)
