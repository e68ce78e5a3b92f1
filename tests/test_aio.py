"""Waiting for a coroutine costs nothing beside the work itself, and an interrupt ends it in an orderly way."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pytest

from mage import types
from mage.aio import run_sync
from mage.training.run import interruptible


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


@pytest.fixture
def terminated_by_interrupt() -> Iterator[None]:
    """SIGTERM as `mage` has it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


SIGNALS = pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])


async def interrupted_while_it_waits(signum: signal.Signals, said: list[str]) -> None:
    def interrupt() -> None:
        signal.raise_signal(signum)
        said.append("not raised in the event loop")

    asyncio.get_running_loop().call_soon(interrupt)
    try:
        await asyncio.sleep(60)
    finally:
        said.append("cancelled")


@SIGNALS
@pytest.mark.usefixtures("terminated_by_interrupt")
def test_an_interrupt_cancels_and_is_raised_when_all_has_ended(signum: signal.Signals) -> None:
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run_sync(interrupted_while_it_waits(signum, said))
    assert said == ["not raised in the event loop", "cancelled"]
    assert signal.getsignal(signum) is signal.default_int_handler


@SIGNALS
@pytest.mark.usefixtures("terminated_by_interrupt")
def test_an_interrupt_is_raised_at_once_where_the_coroutine_computes(signum: signal.Signals) -> None:
    said: list[str] = []

    async def interrupted() -> None:
        signal.raise_signal(signum)
        said.append("went on")

    with pytest.raises(KeyboardInterrupt):
        run_sync(interrupted())
    assert said == []


@SIGNALS
@pytest.mark.usefixtures("terminated_by_interrupt")
def test_a_second_interrupt_is_raised_where_the_coroutine_does_not_end(signum: signal.Signals) -> None:
    said: list[str] = []

    async def interrupted() -> None:
        try:
            await interrupted_while_it_waits(signum, said)
        except asyncio.CancelledError:
            await interrupted_while_it_waits(signum, said)

    with pytest.raises(KeyboardInterrupt):
        run_sync(interrupted())
    assert said == ["not raised in the event loop", "cancelled", "cancelled"]


@pytest.mark.usefixtures("terminated_by_interrupt")
def test_an_interrupt_is_not_lost_where_the_coroutine_has_a_result() -> None:
    async def interrupted() -> int:
        with suppress(asyncio.CancelledError):
            await interrupted_while_it_waits(signal.SIGTERM, [])
        return 1

    with pytest.raises(KeyboardInterrupt):
        run_sync(interrupted())


@SIGNALS
@pytest.mark.usefixtures("terminated_by_interrupt")
def test_where_the_first_is_a_request_the_second_cancels(signum: signal.Signals) -> None:
    said: list[str] = []

    async def interrupted() -> None:
        signal.raise_signal(signum)
        said.append("went on")
        await interrupted_while_it_waits(signum, said)

    with pytest.raises(KeyboardInterrupt), interruptible(lambda: said.append("asked")):
        run_sync(interrupted())
    assert said == ["asked", "went on", "not raised in the event loop", "cancelled"]
    assert signal.getsignal(signum) is signal.default_int_handler


def test_interrupts_at_any_moment_leave_nothing_to_wait_for() -> None:
    code = """
import asyncio, random, signal
from mage.aio import run_sync

async def one():
    while True:
        await asyncio.sleep(0)

async def several():
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.002, 0.004))
    await asyncio.gather(*(one() for _ in range(20)))

signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGTERM))
signal.signal(signal.SIGTERM, signal.default_int_handler)
for _ in range(200):
    try:
        run_sync(several())
    except KeyboardInterrupt:
        print("ended")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.count("ended"), done.returncode) == (200, 0), done.stderr
