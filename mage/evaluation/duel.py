"""Two specs against each other: one takes every seat in turn, the other fills the rest of the seats."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeAlias

import msgspec

from mage.errors import ConfigError
from mage.opponents.agent_seat import check_seat_agent, seat_agent
from mage.protocols import Agent
from mage.rollout.group import play_trials
from mage.rollout.tasks import other_seats
from mage.seeds import derive
from mage.spec import parse_spec
from mage.stats import Estimate, Range, Verdict, clustered_proportion, mean, result_verdict
from mage.types import Ending, Failure, Task, Trial
from mage.worlds.registry import load_world

_CONCURRENCY = 16
"""Players without a model never wait, so more at a time would only delay the first results."""
_COUNTS = ("num_trials", "forfeits", "opponent_forfeits", "truncations", "failures")

Cluster: TypeAlias = list[tuple[float, Verdict]]
"""Score and verdict of episodes that are not independent."""


class Duel(msgspec.Struct, frozen=True):
    """What is to be played."""

    player: str
    """The spec that is evaluated; it takes every seat in turn."""
    opponents: tuple[str, ...]
    """One spec for all other seats, or one for each in order of seats."""
    world: str
    trials: int
    """Trials in each seat. Trial i has the same seed in every seat, so seats are dealt the same cards."""
    episodes: int
    seed: int
    max_turns: int


class DuelRow(msgspec.Struct, frozen=True):
    """How the player did in one seat, or in all. Only episodes that were played out count as skill."""

    seat: int | None
    """None for all seats together."""
    num_trials: int
    num_episodes: int
    """Episodes that were played out."""
    score: Estimate | None
    """None where fewer than two trials count."""
    rates: tuple[Estimate, Estimate, Estimate] | None
    """Wins, draws and losses; None where nothing counts."""
    forfeits: int
    """Episodes given up by the player."""
    opponent_forfeits: int
    truncations: int
    failures: int


def tasks(duel: Duel) -> Iterator[Task]:
    """All tasks, seat by seat within each trial number, so that an interrupted duel is balanced."""
    spec, num_seats = str(parse_spec(duel.world)), load_world(duel.world).info.num_seats
    others = filled(duel.opponents, num_seats - 1, duel.world)
    for number in range(duel.trials):
        seed = derive(duel.seed, "duel", number)
        for seat in range(num_seats):
            yield Task(spec, others, seat, seed, duel.episodes, False, False, duel.max_turns)


def filled(specs: Sequence[str], num: int, game: str) -> tuple[str, ...]:
    """One spec for each of `num` seats: as given, or a single one for all.

    >>> filled(["uniform"], 2, "kuhn_poker(players=3)")
    ('uniform', 'uniform')
    """
    if len(specs) not in (1, num):
        raise ConfigError(f"{game} takes 1 opponent for all other seats or {num}, one for each; not {len(specs)}")
    return tuple(str(parse_spec(spec)) for spec in specs) * (num if len(specs) == 1 else 1)


def seated(player: str, task: Task, sibling: int) -> Agent:
    """The duelling player in the task's seat. Its seed differs from every opponent's, because its seat does."""
    return seat_agent(load_world(task.world), player, task)


def check(duel: Duel) -> None:
    """Fail now, with one line, on a player that cannot sit in one of its seats."""
    if duel.trials < 2:
        raise ConfigError(f"a duel needs at least 2 trials in each seat for an interval, not {duel.trials}")
    world = load_world(duel.world)
    num_seats = world.info.num_seats
    if num_seats == 1:
        raise ConfigError(f"a duel needs opponents, and {duel.world} has one seat; mage evaluate plays it")
    for task in islice(tasks(duel), num_seats):
        check_seat_agent(world, duel.player, task.seat)
        for seat, spec in zip(other_seats(task, num_seats), task.opponents, strict=True):
            world.check_opponent(spec, seat)


def play(duel: Duel) -> AsyncIterator[Trial | Failure]:
    """Play all trials and yield them in the order of `tasks`."""
    jobs = ((task, 0) for task in tasks(duel))
    return play_trials(load_world(duel.world), jobs, partial(seated, duel.player), concurrency=_CONCURRENCY)


class DuelCounter:
    """Counts outcomes as they come in, without keeping them."""

    def __init__(self, num_seats: int, score_range: Range | None = None) -> None:
        self._range = score_range
        self._counts = [Counter[str]() for _ in range(num_seats)]
        self._counted: list[dict[int, Cluster]] = [{} for _ in range(num_seats)]
        """By seat: the episodes that were played out, by the seed of their task."""

    def add(self, outcome: Trial | Failure) -> None:
        """Count one trial or failure."""
        seat = outcome.task.seat
        counts = self._counts[seat]
        if isinstance(outcome, Failure):
            counts["failures"] += 1
            return
        counts["num_trials"] += 1
        for result in (episode.result for episode in outcome.episodes):
            if result.ending is Ending.FINISHED:
                counted = (result.returns[seat], result_verdict(result, seat))
                self._counted[seat].setdefault(outcome.task.seed, []).append(counted)
            elif result.ending is Ending.TRUNCATED:
                counts["truncations"] += 1
            else:
                counts["forfeits" if result.forfeited_by == seat else "opponent_forfeits"] += 1

    def rows(self) -> list[DuelRow]:
        """One row for each seat, then one for all seats; the latter treats trials of one seed as one cluster."""
        seats = enumerate(zip(self._counts, self._counted, strict=True))
        rows = [_row(seat, counts, list(counted.values()), self._range) for seat, (counts, counted) in seats]
        by_seed: dict[int, Cluster] = {}
        for seed, cluster in (item for counted in self._counted for item in counted.items()):
            by_seed.setdefault(seed, []).extend(cluster)
        return [*rows, _row(None, sum(self._counts, Counter()), list(by_seed.values()), self._range)]


def _row(
    seat: int | None, counts: Mapping[str, int], clusters: Sequence[Cluster], score_range: Range | None
) -> DuelRow:
    scores = [_mean(score for score, _ in cluster) for cluster in clusters]
    win, draw, loss = Verdict.WIN, Verdict.DRAW, Verdict.LOSS
    return DuelRow(
        seat=seat,
        num_episodes=sum(map(len, clusters)),
        score=mean(scores, score_range) if len(scores) > 1 else None,
        rates=(_rate(win, clusters), _rate(draw, clusters), _rate(loss, clusters)) if clusters else None,
        **{name: counts.get(name, 0) for name in _COUNTS},
    )


def _rate(wanted: Verdict, clusters: Sequence[Cluster]) -> Estimate:
    shares = [_mean(float(word is wanted) for _, word in cluster) for cluster in clusters]
    return clustered_proportion(shares, sum(map(len, clusters)))


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
