"""Waiting for a coroutine costs nothing beside the work itself."""

from __future__ import annotations

import asyncio
import gc

import msgspec
import pytest

from mage import types
from mage.aio import run_sync


class Result:
    """Counts how often it is written out."""

    times = 0

    def __repr__(self) -> str:
        Result.times += 1
        return "result"


async def work() -> list[Result]:
    await asyncio.sleep(0)
    return [Result()]


async def failing() -> None:
    raise LookupError("lost")


def test_what_comes_back_is_not_written_out_on_the_way() -> None:
    Result.times = 0
    assert len(run_sync(work())) == 1
    assert Result.times == 0


def test_inside_a_running_loop_it_comes_back_too() -> None:
    async def outer() -> int:
        return len(run_sync(work()))

    assert asyncio.run(outer()) == 1


def test_an_error_comes_through() -> None:
    with pytest.raises(LookupError, match="lost"):
        run_sync(failing())


def test_the_collector_does_not_look_at_what_trials_are_made_of() -> None:
    nouns = [kind for kind in vars(types).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    assert {"Observation", "Turn", "Trial"} <= {noun.__name__ for noun in nouns}
    assert [noun.__name__ for noun in nouns if noun.__struct_config__.gc] == []
    assert not gc.is_tracked(types.Reply("rock", "rock", ()))
