"""Many trials at once: order, failures, concurrency, memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from mage.engines.scripted import MODELS, ScriptedEngine
from mage.errors import ConfigError, EngineError
from mage.protocols import Sampling
from mage.rollout.group import Job, play_groups, play_trials
from mage.types import Completion, Failure, Memory, Task, Trial
from tests.seated import (
    WORLD,
    RandomEngine,
    make_settings,
    make_task,
    play_all,
    seat_engine,
)


class SlowFirst(RandomEngine):
    """Keeps the first callers waiting longest, and counts how many wait at once."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        self.most_waiting = 0

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        for _ in range(max(1, 40 - len(self.prompts))):
            await asyncio.sleep(0)
        self.waiting -= 1
        return await super().complete(prompt, sampling, choices)


def test_outcomes_come_in_the_order_of_the_jobs() -> None:
    jobs = [(make_task("kuhn_poker", seed=seed), sibling) for seed in range(10) for sibling in range(2)]
    engine = SlowFirst()
    outcomes = play_all(jobs, seat_engine(engine, make_settings()))
    assert [(outcome.task, outcome.sibling) for outcome in outcomes] == jobs
    assert engine.most_waiting == 20


def test_how_many_play_at_once_changes_nothing_but_speed() -> None:
    jobs = [(make_task("kuhn_poker", seed=seed), 0) for seed in range(12)]

    async def played(concurrency: int) -> tuple[list[bytes], int]:
        engine = SlowFirst()
        source = play_trials(WORLD, iter(jobs), seat_engine(engine, make_settings()), concurrency=concurrency)
        return [msgspec.json.encode(outcome) async for outcome in source], engine.most_waiting

    (alone, one), (together, four) = asyncio.run(played(1)), asyncio.run(played(4))
    assert alone == together
    assert (one, four) == (1, 4)


def test_jobs_are_drawn_as_they_are_needed() -> None:
    drawn: list[int] = []

    def endless() -> Iterator[Job]:
        while True:
            drawn.append(len(drawn))
            yield make_task(seed=len(drawn)), 0

    async def some() -> list[Trial | Failure]:
        outcomes: list[Trial | Failure] = []
        source = play_trials(WORLD, endless(), seat_engine(RandomEngine(), make_settings()), concurrency=4)
        async for outcome in source:
            outcomes.append(outcome)
            if len(outcomes) == 3:
                break
        await source.aclose()  # type: ignore[attr-defined]
        return outcomes

    outcomes = asyncio.run(some())
    assert [outcome.task.seed for outcome in outcomes] == [1, 2, 3]
    assert len(drawn) <= 7


def fails_in_second_episode(prompt: str, choices: tuple[str, ...]) -> str:
    if "Round 1 of 3" in prompt and "Episode 2 of 3" in prompt:
        raise RuntimeError("the model fell over")
    return MODELS["first"](prompt, choices)


class BrokenEngine:
    """Cannot be reached."""

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        raise EngineError("no model at this address")


def test_a_failing_trial_is_recorded_and_the_others_finish() -> None:
    games = ["rps(rounds=2)", "rps(rounds=3)", "kuhn_poker", "rps(rounds=3)"]
    tasks = [make_task(game, seed=seed) for seed, game in enumerate(games)]
    outcomes = play_all(
        [(task, 5) for task in tasks], seat_engine(ScriptedEngine(fails_in_second_episode), make_settings())
    )
    assert [type(outcome) for outcome in outcomes] == [Trial, Failure, Trial, Failure]
    line = fails_in_second_episode.__code__.co_firstlineno + 2
    assert outcomes[1] == Failure(tasks[1], 5, "RuntimeError", f"the model fell over (at test_group.py:{line})")


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        (make_task(), "EngineError", "no model at this address"),
        (make_task(opponents=("nobody",)), "ConfigError", "unknown opponent 'nobody'"),
        (make_task(opponents=()), "ConfigError", "rps(rounds=2) needs 1 opponents, not 0"),
        (make_task("chess?"), "ConfigError", "unknown world 'chess?'"),
        (make_task(seat=2), "ConfigError", "seat 2 does not exist"),
    ],
)
def test_whatever_fails_becomes_data(task: Task, error: str, message: str) -> None:
    (failure,) = play_all([(task, 0)], seat_engine(BrokenEngine(), make_settings()))
    assert isinstance(failure, Failure)
    assert failure.error == error
    assert message in failure.message


def test_a_context_too_small_is_a_failure_with_advice() -> None:
    (failure,) = play_all([(make_task(), 0)], seat_engine(RandomEngine(), make_settings(context=100)))
    assert isinstance(failure, Failure)
    assert failure.error == "PlayError"
    assert "raise agent.context" in failure.message


def test_groups_hold_the_siblings_of_one_task() -> None:
    tasks = [make_task("kuhn_poker", seed=1), make_task(opponents=("nobody",)), make_task("kuhn_poker", seed=2)]
    groups = asyncio.run(play_groups(WORLD, tasks, 4, seat_engine(RandomEngine(), make_settings())))
    assert [group.task for group in groups] == tasks
    assert [(len(group.trials), len(group.failures)) for group in groups] == [(4, 0), (0, 4), (4, 0)]
    for group in (groups[0], groups[2]):
        assert [trial.sibling for trial in group.trials] == [0, 1, 2, 3]
        assert len({trial.episodes[0].result.facts["cards"] for trial in group.trials}) == 1


def test_the_scripted_counter_adapts_where_it_remembers() -> None:
    def mean_scores(memory: Memory) -> list[float]:
        jobs = [(make_task("rps(rounds=3)", opponents=(f"cycle(phase={p})",), seed=p), 0) for p in range(3)]
        how = make_settings(memory=memory, reflection_tokens=80)
        trials = play_all(jobs, seat_engine(ScriptedEngine(MODELS["counter"]), how))
        scores = [trial.scores for trial in trials if isinstance(trial, Trial)]
        assert len(scores) == 3
        return [sum(column) / 3 for column in zip(*scores, strict=True)]

    for memory in (Memory.HISTORY, Memory.REFLECTIONS, Memory.BOTH):
        assert mean_scores(memory)[1:] == [1.0, 1.0]
    assert len(set(mean_scores(Memory.NONE))) == 1


def test_nothing_under_way_is_refused_instead_of_playing_nothing() -> None:
    make_agent = seat_engine(RandomEngine(), make_settings())

    async def none_at_a_time() -> list[Trial | Failure]:
        return [outcome async for outcome in play_trials(WORLD, [(make_task("rps"), 0)], make_agent, concurrency=0)]

    with pytest.raises(ConfigError, match="concurrency = 0"):
        asyncio.run(none_at_a_time())


PEAK = """
import re, resource, sys
from pathlib import Path
from mage.types import Memory, Trial
from tests.seated import make_settings, make_task, play_all, seat_engine
from tests.test_group import SlowFirst

engine = SlowFirst()
how = make_settings(memory=Memory.BOTH, reflection_tokens=200)
jobs = [(make_task("kuhn_poker", seed=seed), 0) for seed in range(1000)]
outcomes = play_all(jobs, seat_engine(engine, how))
assert all(isinstance(o, Trial) and len(o.reflections) == 2 for o in outcomes)
if sys.platform == "darwin":
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
else:  # getrusage would count the pages of the process that started this one
    peak_bytes = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(engine.most_waiting, peak_bytes)
"""


def test_a_thousand_trials_with_reflections_take_less_than_a_gigabyte() -> None:
    root = Path(__file__).parents[1]
    run = subprocess.run([sys.executable, "-c", PEAK], cwd=root, capture_output=True, text=True, check=True, timeout=60)
    most_waiting, peak_bytes = map(int, run.stdout.split())
    assert most_waiting == 1000, "all were under way at once"
    assert peak_bytes < 1e9
