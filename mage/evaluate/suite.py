"""Judging an agent on a split: the same tasks with its memory and without, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mage.credit.steps import agent_turns
from mage.evaluate.exact import References, references
from mage.evaluate.metrics import Estimate, mean
from mage.evaluate.splits import Split, load_split
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
    """score@k against each member."""
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
            seed=derive(seed, split.name, member, trial),
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
    pairs = [(a, c) for a, c in zip(with_memory, without, strict=True) if _played(a) and _played(c)]
    trials = [a for a, _ in pairs if isinstance(a, Trial)]
    controls = [c for _, c in pairs if isinstance(c, Trial)]
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
        by_member=tuple((m, _scores([t for t in trials if m in t.task.opponents])) for m in split.members),
        references=tuple((seat, _references(split, seat, tasks[0].episodes)) for seat in seats),
    )


def figures(trials: Sequence[Trial]) -> Figures:
    """Everything that is measured on a set of trials."""
    calls = [c for t in trials for turn in agent_turns(t) for c in turn.calls]
    return Figures(
        scores=_scores(trials),
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


def _scores(trials: Sequence[Trial]) -> tuple[Estimate, ...]:
    return tuple(mean(scores) for scores in zip(*(t.scores for t in trials), strict=True))


def _played(outcome: Trial | Failure) -> bool:
    return isinstance(outcome, Trial)


def _references(split: Split, seat: int, episodes: int) -> References:
    members = load_split(split.pool).members
    return references(split.game, [(member, 1.0 / len(members)) for member in members], seat, episodes)
