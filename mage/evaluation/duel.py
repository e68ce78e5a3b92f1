"""Two specs against each other: one takes every seat in turn, the other fills the rest of the seats."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from typing import cast

import msgspec

from mage.errors import ConfigError
from mage.opponents.policy import PolicyAgent, PolicyPlayer
from mage.opponents.registry import check_opponent
from mage.protocols import Agent
from mage.rollout.group import play_trials
from mage.seeds import derive
from mage.spec import parse_spec
from mage.stats import Estimate, Verdict, clustered_proportion, mean, verdict
from mage.types import Ending, Episode, Failure, Task, Trial
from mage.worlds.openspiel.game import load_game
from mage.worlds.openspiel.world import OpenSpielWorld, opponent, other_seats

_CONCURRENCY = 16
"""Players without a model never wait, so more at a time would only delay the first results."""


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


def num_tasks(duel: Duel) -> int:
    """How many trials a duel has in all seats together."""
    return duel.trials * load_game(duel.world).num_seats


def tasks(duel: Duel) -> Iterator[Task]:
    """All tasks, seat by seat within each trial number, so that an interrupted duel is balanced."""
    game = load_game(duel.world)
    others = filled(duel.opponents, game.num_seats - 1, duel.world)
    for number in range(duel.trials):
        seed = derive(duel.seed, "duel", number)
        for seat in range(game.num_seats):
            yield Task(
                world=game.spec,
                opponents=others,
                seat=seat,
                seed=seed,
                episodes=duel.episodes,
                replay_deal=False,
                early_stop=False,
                max_turns=duel.max_turns,
            )


def filled(specs: Sequence[str], num: int, game: str) -> tuple[str, ...]:
    """One spec for each of `num` seats: as given, or a single one for all.

    >>> filled(["uniform"], 2, "kuhn_poker(players=3)")
    ('uniform', 'uniform')
    """
    if len(specs) not in (1, num):
        raise ConfigError(f"{game} takes 1 opponent for all other seats or {num}, one for each; not {len(specs)}")
    return tuple(map(canonical, specs)) * (num if len(specs) == 1 else 1)


def canonical(spec: str) -> str:
    """A spec as it is written down: equal specs are equal strings."""
    return str(parse_spec(spec))


def seated(player: str, task: Task, sibling: int) -> Agent:
    """The duelling player in the task's seat. Its seed differs from every opponent's, because its seat does."""
    found = opponent(player, task, task.seat)
    return PolicyAgent(found, canonical(player)) if isinstance(found, PolicyPlayer) else cast(Agent, found)


def check(duel: Duel) -> None:
    """Fail now, with one line, on a player that cannot sit in one of its seats."""
    if duel.trials < 2:
        raise ConfigError(f"a duel needs at least 2 trials in each seat for an interval, not {duel.trials}")
    game = load_game(duel.world)
    for task in islice(tasks(duel), game.num_seats):
        check_opponent(duel.player, game, task.seat)
        for seat, spec in zip(other_seats(task), task.opponents, strict=True):
            check_opponent(spec, game, seat)


async def play(duel: Duel) -> AsyncIterator[Trial | Failure]:
    """Play all trials and yield them in the order of `tasks`."""
    jobs = ((task, 0) for task in tasks(duel))
    outcomes = play_trials(
        OpenSpielWorld(), jobs, lambda task, sibling: seated(duel.player, task, sibling), concurrency=_CONCURRENCY
    )
    async for outcome in outcomes:
        yield outcome


class DuelCounter:
    """Counts outcomes as they come in, without keeping them."""

    def __init__(self, num_seats: int) -> None:
        self._seats = [_SeatCounter() for _ in range(num_seats)]

    def add(self, outcome: Trial | Failure) -> None:
        """Count one trial or failure."""
        self._seats[outcome.task.seat].add(outcome)

    def rows(self) -> list[DuelRow]:
        """One row for each seat, then one for all seats; the latter treats trials of one seed as one cluster."""
        rows = [_row(seat, [tally], list(tally.counted.values())) for seat, tally in enumerate(self._seats)]
        by_seed: dict[int, list[tuple[float, Verdict]]] = {}
        for tally in self._seats:
            for seed, counted in tally.counted.items():
                by_seed.setdefault(seed, []).extend(counted)
        return [*rows, _row(None, self._seats, list(by_seed.values()))]


class _SeatCounter:
    def __init__(self) -> None:
        self.counted: dict[int, list[tuple[float, Verdict]]] = {}
        """Score and verdict of every episode that was played out, by the seed of its task."""
        self.num_trials = self.failures = self.forfeits = self.opponent_forfeits = self.truncations = 0

    def add(self, outcome: Trial | Failure) -> None:
        if isinstance(outcome, Failure):
            self.failures += 1
            return
        self.num_trials += 1
        seat = outcome.task.seat
        for episode in outcome.episodes:
            self._count(episode, seat, outcome.task.seed)

    def _count(self, episode: Episode, seat: int, seed: int) -> None:
        result = episode.result
        if result.ending is Ending.FINISHED:
            self.counted.setdefault(seed, []).append((result.returns[seat], verdict(result.returns, seat)))
        elif result.ending is Ending.TRUNCATED:
            self.truncations += 1
        elif result.forfeited_by == seat:
            self.forfeits += 1
        else:
            self.opponent_forfeits += 1


def _row(
    seat: int | None, tallies: Sequence[_SeatCounter], clusters: Sequence[Sequence[tuple[float, Verdict]]]
) -> DuelRow:
    num_episodes = sum(map(len, clusters))
    scores = [_mean(score for score, _ in cluster) for cluster in clusters]
    return DuelRow(
        seat,
        sum(t.num_trials for t in tallies),
        num_episodes,
        mean(scores) if len(scores) > 1 else None,
        (_rate(Verdict.WIN, clusters), _rate(Verdict.DRAW, clusters), _rate(Verdict.LOSS, clusters))
        if clusters
        else None,
        sum(t.forfeits for t in tallies),
        sum(t.opponent_forfeits for t in tallies),
        sum(t.truncations for t in tallies),
        sum(t.failures for t in tallies),
    )


def _rate(wanted: Verdict, clusters: Sequence[Sequence[tuple[float, Verdict]]]) -> Estimate:
    shares = [_mean(float(word is wanted) for _, word in cluster) for cluster in clusters]
    return clustered_proportion(shares, sum(map(len, clusters)))


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
