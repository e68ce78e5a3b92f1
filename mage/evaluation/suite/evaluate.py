"""Evaluate an agent on a split: the same tasks with its memory and without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from mage.errors import PlayError
from mage.evaluation.exact import References, references
from mage.evaluation.splits import Split, SplitKind, has_levels
from mage.evaluation.suite.averaging import Averaging, units_of
from mage.evaluation.suite.metrics import TrialMetrics, mean_scores, score_gain, trial_metrics
from mage.evaluation.suite.regret import ScoreParts, TaskValue, exploitation, last_score_parts, regret, task_value
from mage.grouped import Units
from mage.protocols import AgentFactory, World
from mage.rollout.group import Job, play_trials
from mage.seeds import derive
from mage.stats import Estimate, Range
from mage.types import Failure, Task, Trial
from mage.worlds.registry import load_world

CONCURRENCY = 4096
"""Maximum number of parallel trials of `play_all`."""


class Play(Protocol):
    """Plays the jobs of one arm of an evaluation and returns their outcomes in the order of the jobs."""

    async def __call__(
        self, arm: str, world: World, jobs: Sequence[Job], make_agent: AgentFactory
    ) -> list[Trial | Failure]:
        """`arm` names the condition, such as `agent` or `control`."""


async def play_all(arm: str, world: World, jobs: Sequence[Job], make_agent: AgentFactory) -> list[Trial | Failure]:
    """The default `Play`: all jobs in parallel, kept in memory."""
    return [outcome async for outcome in play_trials(world, jobs, make_agent, concurrency=CONCURRENCY)]


class SplitReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """Metrics of an agent on a split, with those of its control and exact references."""

    split: str
    kind: SplitKind
    sha256: str
    world: str
    members: tuple[str, ...]
    episodes: int
    seats: tuple[int, ...]
    num_trials: int
    tasks: tuple[tuple[int, int, int], ...]
    """By trial: index of its opponent or level in `members` (0 without members), seat, and number among the trials that
    share both. With the same split and seed, equal keys are the same task."""
    failures: int
    """Tasks that failed in either arm; they are left out of both."""
    agent: TrialMetrics
    control: TrialMetrics
    """The same weights and tasks with memory `none`: what repeated episodes alone give."""
    over_control: Estimate
    """Adaptation minus the control's, paired by trial."""
    by_member: tuple[tuple[str, tuple[Estimate, ...]], ...]
    """score@k against or on each member."""
    exploitation: Estimate | None
    """(score@N - equilibrium) / (best response - equilibrium)."""
    exploitation_by_member: tuple[tuple[str, Estimate | None], ...]
    """The same against each member; None where nothing can be gained or an exact value is missing."""
    regret: Estimate | None
    """Bayes-optimal score of the last episode minus the agent's."""
    references: tuple[tuple[int, References], ...]
    """Exact values by seat."""
    has_levels: bool = False
    """Whether the members are levels of a world of one seat."""
    parts: ScoreParts | None = None
    """The agent's last score by what needs no memory, what memory can add and what only exploration can; None where an
    exact value is missing, and in reports written before it was computed."""
    task_value: TaskValue | None = None
    """What memory and exploration are worth on these tasks."""
    units: Units = Units.TRIALS
    """What the intervals of averages over the split are over. Files written before have the default."""
    score_range: Range | None = None
    """The lowest and highest score of an episode; None in files written before."""


def evaluation_tasks(split: Split, *, episodes: int, seats: Sequence[int], trials: int, seed: int) -> list[Task]:
    """The tasks of a split: every member, every seat, `trials` times its weight; a function of the arguments alone.

    Without members there are `trials` tasks, whose seeds draw what is hidden. Repeated seats count once: their tasks
    would be the same.
    """
    num_others = load_world(split.world).info.num_seats - 1
    return [
        Task(
            world=split.world,
            opponents=(member,) * num_others,
            level="" if num_others else member,
            seat=seat,
            seed=derive(seed, split.name, member, seat, trial),
            episodes=episodes,
            replay_deal=False,
            early_stop=False,
            max_turns=1000,
        )
        for member, weight in split.weighted_members or (("", 1),)
        for seat in dict.fromkeys(seats)
        for trial in range(trials * weight)
    ]


async def evaluate_split(
    world: World,
    agent: AgentFactory,
    control: AgentFactory,
    split: Split,
    tasks: Sequence[Task],
    *,
    play: Play = play_all,
) -> SplitReport:
    """Play the tasks with memory and without, and report both; the arms are `agent` and `control`."""
    jobs = [(task, 0) for task in tasks]
    with_memory = await play("agent", world, jobs, agent)
    trials, controls = paired_trials(with_memory, await play("control", world, jobs, control))
    seats = tuple(sorted({task.seat for task in tasks}))
    exact = split_references(split, seats, tasks[0].episodes)
    averaging = split_averaging(world, split)
    of_member = msgspec.structs.replace(averaging, units=Units.TRIALS)
    by_member = [(member, found) for member in split.members if (found := trials_against(member, trials))]
    metrics = trial_metrics(trials, averaging)
    return SplitReport(
        split=split.name,
        kind=split.kind,
        sha256=split.sha256,
        world=split.world,
        members=split.members,
        episodes=tasks[0].episodes,
        seats=seats,
        num_trials=len(trials),
        tasks=task_keys(split, tasks, trials),
        failures=len(tasks) - len(trials),
        agent=metrics,
        control=trial_metrics(controls, averaging),
        over_control=averaging.gap(
            trials, [score_gain(t) - score_gain(c) for t, c in zip(trials, controls, strict=True)], 2
        ),
        by_member=tuple((member, mean_scores(found, of_member)) for member, found in by_member),
        exploitation=exploitation(trials, dict(exact), averaging),
        exploitation_by_member=tuple(
            (member, exploitation(found, dict(exact), of_member)) for member, found in by_member
        ),
        regret=regret(trials, dict(exact), averaging),
        references=exact,
        has_levels=has_levels(split.world),
        units=averaging.units,
        score_range=averaging.score_range,
        parts=last_score_parts(metrics.scores, exact),
        task_value=task_value(exact),
    )


def split_averaging(world: World, split: Split) -> Averaging:
    """How trials of a split are averaged: a split that is not of seen members has its members as units."""
    return Averaging(units_of(split.kind, len(split.members)), (world.info.lowest, world.info.highest))


def paired_trials(*arms: Sequence[Trial | Failure]) -> list[list[Trial]]:
    """The trials of each arm, without the tasks that failed in any, so that arms are paired."""
    failures = [o for arm in arms for o in arm if isinstance(o, Failure)]
    rows = [row for row in zip(*arms, strict=True) if not any(isinstance(o, Failure) for o in row)]
    if not rows:
        why = f"; the first failure is {failures[0].error}: {failures[0].message}" if failures else ""
        raise PlayError(f"none of {len(arms[0])} tasks could be played{why}")
    return [[o for o in arm if isinstance(o, Trial)] for arm in zip(*rows, strict=True)]


def task_keys(split: Split, tasks: Sequence[Task], trials: Sequence[Trial]) -> tuple[tuple[int, int, int], ...]:
    """By trial: index of its opponent or level in the members, seat, and number among the tasks that share both."""
    places = {member: place for place, member in enumerate(split.members)}
    numbers: dict[tuple[int, int], int] = {}
    found: dict[Task, tuple[int, int, int]] = {}
    for task in tasks:
        cell = (places[task.members[0]] if task.members else 0, task.seat)
        numbers[cell] = number = numbers.get(cell, -1) + 1
        found[task] = (*cell, number)
    return tuple(found[trial.task] for trial in trials)


def trials_against(member: str, trials: Sequence[Trial]) -> list[Trial]:
    """The trials against an opponent, or on a level."""
    return [t for t in trials if member in t.task.members]


def split_references(split: Split, seats: Sequence[int], episodes: int) -> tuple[tuple[int, References], ...]:
    """The exact references of each seat for the split's own members, which may be none in a world of one seat."""
    total = sum(weight for _, weight in split.weighted_members)
    pool = [(member, weight / total) for member, weight in split.weighted_members]
    return tuple((seat, references(split.world, pool, seat, episodes)) for seat in seats)
