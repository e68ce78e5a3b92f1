"""Judging an agent on a split: the same tasks with its memory and without, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mage.credit.steps import agent_turns
from mage.errors import PlayError
from mage.evaluate.exact import References, references
from mage.evaluate.metrics import Estimate, mean
from mage.evaluate.splits import Split, pool_of
from mage.games.openspiel import load_game
from mage.protocols import Seating, World
from mage.rollout.group import play_trials
from mage.seeds import derive
from mage.types import Ending, Failure, Task, Trial


class Figures(msgspec.Struct, frozen=True):
    """What one agent did on one set of tasks."""

    scores: tuple[Estimate, ...]
    """score@k: the mean score of episode k, for every k, no early stop."""
    adaptation: Estimate
    """score@N - score@1, paired by trial."""
    invalid: int
    """Replies that could not be used."""
    cut: int
    """Replies that were cut short."""
    forfeits: int
    overflows: int
    tokens_sampled: int
    tokens_read: int
    """Length of all token streams: what was read at least once."""


class SplitReport(msgspec.Struct, frozen=True):
    """An agent judged on a split, beside its control and the exact references."""

    split: str
    sha256: str
    game: str
    episodes: int
    seats: tuple[int, ...]
    num_trials: int
    failures: int
    """Trials that could not be played, with memory or without; they are left out on both sides."""
    agent: Figures
    control: Figures
    """The same weights and tasks with memory `none`: what a second chance alone gives."""
    over_control: Estimate
    """Adaptation minus the control's, paired by trial: the evidence of adaptation."""
    by_member: tuple[tuple[str, tuple[Estimate, ...]], ...]
    """score@k against each member; one trial alone has no interval."""
    references: tuple[tuple[int, References], ...]
    """Exact values by seat."""


def evaluation_tasks(split: Split, *, episodes: int, seats: Sequence[int], trials: int, seed: int) -> list[Task]:
    """The tasks of a split: every member, every seat, `trials` times; the same whenever the arguments are."""
    num_others = load_game(split.game).num_seats - 1
    return [
        Task(
            game=split.game,
            opponents=(member,) * num_others,
            seat=seat,
            seed=derive(seed, split.name, member, seat, trial),
            episodes=episodes,
            replay_deal=False,
            early_stop=False,
            max_turns=1000,
        )
        for member in split.members
        for seat in seats
        for trial in range(trials)
    ]


async def judge(
    world: World, agent: Seating, control: Seating, split: Split, tasks: Sequence[Task], *, concurrency: int = 4096
) -> SplitReport:
    """Play the tasks twice, with memory and without, and report both."""
    jobs = [(task, 0) for task in tasks]
    with_memory = [o async for o in play_trials(world, jobs, agent, concurrency=concurrency)]
    without = [o async for o in play_trials(world, jobs, control, concurrency=concurrency)]
    trials, controls = complete(with_memory, without)
    seats = tuple(sorted({task.seat for task in tasks}))
    return SplitReport(
        split=split.name,
        sha256=split.sha256,
        game=split.game,
        episodes=tasks[0].episodes,
        seats=seats,
        num_trials=len(trials),
        failures=len(tasks) - len(trials),
        agent=figures(trials),
        control=figures(controls),
        over_control=mean([gained(t) - gained(c) for t, c in zip(trials, controls, strict=True)]),
        by_member=tuple((m, mean_scores(found)) for m in split.members if (found := against(m, trials))),
        references=references_of(split, seats, tasks[0].episodes),
    )


def complete(*arms: Sequence[Trial | Failure]) -> list[list[Trial]]:
    """The trials of each arm, without the tasks that failed in any: what is left is paired."""
    failures = [o for arm in arms for o in arm if isinstance(o, Failure)]
    rows = [row for row in zip(*arms, strict=True) if not any(isinstance(o, Failure) for o in row)]
    if not rows:
        why = f"; the first failure is {failures[0].error}: {failures[0].message}" if failures else ""
        raise PlayError(f"none of {len(arms[0])} tasks could be played{why}")
    return [[o for o in arm if isinstance(o, Trial)] for arm in zip(*rows, strict=True)]


def figures(trials: Sequence[Trial]) -> Figures:
    """Everything that is measured on a set of trials."""
    calls = [c for t in trials for turn in agent_turns(t) for c in turn.calls]
    return Figures(
        scores=mean_scores(trials),
        adaptation=mean([gained(t) for t in trials]),
        invalid=sum(c.problem is not None for c in calls),
        cut=sum(c.sampled.cut for c in calls),
        forfeits=sum(e.result.ending is Ending.FORFEITED for t in trials for e in t.episodes),
        overflows=sum(len(t.overflows) for t in trials),
        tokens_sampled=sum(len(c.sampled.tokens) for c in calls),
        tokens_read=sum(len(s) for t in trials for s in t.streams),
    )


def gained(trial: Trial) -> float:
    """Adaptation in one trial: the last score minus the first."""
    return trial.scores[-1] - trial.scores[0]


def against(member: str, trials: Sequence[Trial]) -> list[Trial]:
    """The trials in which a member sat opposite."""
    return [t for t in trials if member in t.task.opponents]


def mean_scores(trials: Sequence[Trial]) -> tuple[Estimate, ...]:
    """score@k, for every k."""
    return tuple(mean(scores) for scores in zip(*(t.scores for t in trials), strict=True))


def references_of(split: Split, seats: Sequence[int], episodes: int) -> tuple[tuple[int, References], ...]:
    """The exact values for each seat against whom a player may expect in this split."""
    members = pool_of(split).members
    pool = [(member, 1.0 / len(members)) for member in members]
    return tuple((seat, references(split.game, pool, seat, episodes)) for seat in seats)
