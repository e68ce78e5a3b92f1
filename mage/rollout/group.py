"""Play many trials concurrently. The only place where an exception becomes a recorded `Failure`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from mage.errors import ConfigError, EngineGoneError
from mage.plugin_errors import message_of
from mage.protocols import AgentFactory, World
from mage.rollout.trial import play_trial
from mage.shortage import shortage_of
from mage.types import Failure, Group, Task, Trial

T = TypeVar("T")
Job = tuple[Task, int]
"""A task and the number of the sibling that plays it."""


async def play_trials(
    world: World, jobs: Iterable[Job], make_agent: AgentFactory, *, concurrency: int = 1000
) -> AsyncIterator[Trial | Failure]:
    """Play jobs concurrently and yield their outcomes in the order of the jobs."""
    plays = ((job, partial(play_trial, world, *job, make_agent)) for job in jobs)
    async for outcome in outcomes_of(plays, concurrency):
        yield outcome


async def outcomes_of(
    plays: Iterable[tuple[Job, Callable[[], Awaitable[T]]]], concurrency: int
) -> AsyncIterator[T | Failure]:
    """Run coroutines concurrently and yield their results in order, a `Failure` where one raised."""
    if concurrency < 1:
        raise ConfigError(f"concurrency = {concurrency}: at least one trial must be under way")
    waiting: deque[asyncio.Task[T | Failure]] = deque()
    source = iter(plays)
    try:
        while True:
            while len(waiting) < concurrency and (play := next(source, None)) is not None:
                waiting.append(asyncio.create_task(_outcome(*play)))
            if not waiting:
                return
            yield await waiting.popleft()
    finally:
        for task in waiting:
            if not task.cancel() and not task.cancelled():
                task.exception()  # known, so that asyncio does not log it: several may have failed at once


async def play_groups(
    world: World,
    tasks: Sequence[Task],
    size: int,
    make_agent: AgentFactory,
    *,
    concurrency: int = 1000,
    first_siblings: Sequence[int] = (),
) -> list[Group]:
    """Play `size` siblings of each task, numbered from the task's entry in `first_siblings`, by default from 0."""
    starts = zip(tasks, first_siblings or [0] * len(tasks), strict=True)
    jobs = [(task, start + sibling) for task, start in starts for sibling in range(size)]
    outcomes = [outcome async for outcome in play_trials(world, jobs, make_agent, concurrency=concurrency)]
    return [_group(task, outcomes[i * size : (i + 1) * size]) for i, task in enumerate(tasks)]


def _group(task: Task, outcomes: Sequence[Trial | Failure]) -> Group:
    trials = tuple(o for o in outcomes if isinstance(o, Trial))
    return Group(task, trials, tuple(o for o in outcomes if isinstance(o, Failure)))


async def _outcome(job: Job, play: Callable[[], Awaitable[T]]) -> T | Failure:
    """What a trial ends in: here every error of a trial becomes data, but for those that say nothing about it."""
    try:
        return await play()
    except Exception as error:
        if isinstance(error, EngineGoneError) or shortage_of(error) is not None:
            raise  # of the engine or the process, not of this trial
        return Failure(*job, type(error).__name__, message_of(error))
