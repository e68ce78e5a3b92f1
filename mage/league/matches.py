"""Draws and plays matches: a learner against opponents. Between two learners, one match gives each a trial."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from mage.config.schema import Config
from mage.evaluation.held_out import avoid_held_out
from mage.league.members import SPEC_PREFIX, Member, MemberKind
from mage.league.samplers import draw_member
from mage.protocols import AgentFactory, Player, World
from mage.rollout.group import outcomes_of
from mage.rollout.tasks import task_of
from mage.rollout.trial import play_seats, seen_from
from mage.seeds import derive, uniform
from mage.types import Ending, Failure, Group, Task, Trial
from mage.worlds.registry import load_world
from mage.worlds.wrapped import WrappedWorld

Outcome = tuple[Trial, ...] | Failure
"""The trials of one match, one for each seat that learns."""


class TaskOrigin(StrEnum):
    """Why a task is played in a step."""

    DRAWN = "drawn"
    """It is one of the step's new tasks."""
    REPLAYED = "replayed"
    """It was played before and went badly."""
    REPLACEMENT = "replacement"
    """It replaces a dead group of the same step."""


class Match(NamedTuple):
    """A learner's task, and the seats whose trials are trained on, its own first."""

    learner: str
    task: Task
    seats: tuple[int, ...]
    origin: TaskOrigin = TaskOrigin.DRAWN
    first_sibling: int = 0
    """The number of the first sibling; above 0 where the task was played before."""


MatchJob = tuple[Match, int]
"""A match and the number of the sibling that plays it."""


class PlayedMatch(NamedTuple):
    """Sibling trials of one learner."""

    learner: str
    opponents: tuple[str, ...]
    """Ids of its opponents, by seat."""
    group: Group
    is_drawn: bool
    """Whether the learner itself drew the task, not an opponent that learns too."""
    origin: TaskOrigin = TaskOrigin.DRAWN

    @property
    def score(self) -> float | None:
        """The mean score of the last episode without forfeits, which show no skill; None where none is left."""
        seat = self.group.task.seat
        finished = [trial.episodes[-1].result for trial in self.group.trials if len(trial.episodes) > 0]
        scores = [result.returns[seat] for result in finished if result.ending is not Ending.FORFEITED]
        return sum(scores) / len(scores) if scores else None


class LeagueWorld(WrappedWorld):
    """Wraps a world: opponents can be members with weights, played as the given sibling."""

    def __init__(self, world: World, agent_factories: Mapping[str, AgentFactory], sibling: int, name: str) -> None:
        super().__init__(world)
        self._agent_factories = agent_factories
        self._sibling = sibling
        self._name = name

    def opponent(self, spec: str, task: Task, seat: int) -> Player:
        if not spec.startswith(SPEC_PREFIX):
            return super().opponent(spec, task, seat)
        return self._agent_factories[spec.removeprefix(SPEC_PREFIX)](seen_from(task, seat, self._name), self._sibling)

    def check_opponent(self, spec: str, seat: int) -> None:
        if not spec.startswith(SPEC_PREFIX):
            super().check_opponent(spec, seat)


def draw_matches(
    config: Config, learner: str, members: Sequence[Member], odds: Mapping[str, float], num: int, *path: str | int
) -> Iterator[Match]:
    """A learner's matches from the random stream `path`; it takes its seats in turn."""
    known = {member.id: member for member in members}
    live = [member.spec for member in members if member.kind is MemberKind.LEARNER] if config.league.both else []
    num_others = load_world(config.world).info.num_seats - 1
    for index in range(num):
        seed = derive(config.seed, *path, index)
        drawn = [known[draw_member(odds, uniform(seed, "member", 1 + other))] for other in range(num_others)]
        task = avoid_held_out(config, task_of(config, tuple(member.spec for member in drawn), index, seed))
        yield Match(learner, task, learning_seats(task, live))


def learning_seats(task: Task, live: Collection[str]) -> tuple[int, ...]:
    """The task's own seat, then those of the opponents whose specs are in `live`.

    >>> learning_seats(Task("leduc", ("cfr", "member:a", "member:b"), 1, 7, 3, False, False, 99), ["member:b"])
    (1, 3)
    """
    others = [seat for seat in range(len(task.opponents) + 1) if seat != task.seat]
    return (task.seat, *(seat for seat, spec in zip(others, task.opponents, strict=True) if spec in live))


async def play_matches(
    matches: Sequence[Match], size: int, agent_factories: Mapping[str, AgentFactory], concurrency: int
) -> list[PlayedMatch]:
    """Play `size` siblings of every match in parallel; returns the groups of each match, its learner's own first."""
    return groups_of(matches, size, await play_jobs(jobs_of(matches, size), agent_factories, concurrency))


def jobs_of(matches: Sequence[Match], size: int) -> list[MatchJob]:
    """`size` siblings of every match."""
    return [(match, sibling) for match in matches for sibling in range(match.first_sibling, match.first_sibling + size)]


async def play_jobs(
    jobs: Sequence[MatchJob], agent_factories: Mapping[str, AgentFactory], concurrency: int
) -> list[Outcome]:
    """Play jobs in parallel; returns their outcomes in the order of the jobs."""
    plays = (((match.task, sibling), _play_sibling(match, sibling, agent_factories)) for match, sibling in jobs)
    return [outcome async for outcome in outcomes_of(plays, concurrency)]


def groups_of(matches: Sequence[Match], size: int, outcomes: Sequence[Outcome]) -> list[PlayedMatch]:
    """The groups of each match, its learner's own first, from the outcomes of `jobs_of`."""
    return [
        played
        for number, match in enumerate(matches)
        for played in _groups(match, outcomes[number * size : (number + 1) * size])
    ]


def _play_sibling(
    match: Match, sibling: int, agent_factories: Mapping[str, AgentFactory]
) -> Callable[[], Awaitable[tuple[Trial, ...]]]:
    """One sibling of a match. Opponents play all siblings alike, unless they learn too and must differ."""
    name = SPEC_PREFIX + match.learner
    world = LeagueWorld(load_world(match.task.world), agent_factories, sibling if len(match.seats) > 1 else 0, name)
    return partial(play_seats, world, match.task, sibling, agent_factories[match.learner], match.seats, name)


def _groups(match: Match, outcomes: Sequence[Outcome]) -> Iterator[PlayedMatch]:
    """A group for each seat that learns. Failures count for the learner that drew the task."""
    failures = tuple(outcome for outcome in outcomes if isinstance(outcome, Failure))
    played = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
    for place, seat in enumerate(match.seats):
        task = seen_from(match.task, seat, SPEC_PREFIX + match.learner)
        learner = match.learner if place == 0 else _id(match.task.opponents[seat - (seat > match.task.seat)])
        group = Group(task, tuple(trials[place] for trials in played), failures if place == 0 else ())
        yield PlayedMatch(learner, tuple(map(_id, task.opponents)), group, place == 0, match.origin)


def _id(spec: str) -> str:
    """The id of the member that a spec names; that of an anchor is its spec."""
    return spec.removeprefix(SPEC_PREFIX)
