"""Cross-play: every pair of agents in both seats; a pay-off matrix with intervals, and ratings from it.

Axes of arrays: T trials, N agents (rows and columns), S seats of the row, K episodes. Episodes that were not finished
are NaN: a forfeit says nothing about the other agent's skill, and is counted separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import msgspec
import numpy as np
from numpy.typing import NDArray

from mage.errors import ConfigError, PlayError
from mage.evaluation.agent_world import AgentWorld
from mage.evaluation.exploitability.nashconv import NamedAgent
from mage.evaluation.ratings import NO_ALPHA_RANK, Matrix, alpha_rank, can_alpha_rank, elo, nash_average
from mage.evaluation.suite.evaluate import Play, play_all
from mage.protocols import World
from mage.seeds import derive, stream
from mage.spec import parse_spec, whole
from mage.stats import ROUNDING, Estimate, Range, Verdict, clustered_proportion, mean, verdict
from mage.types import Ending, Failure, Task, Trial, WorldInfo

_SEATS = 2
_RATINGS = ("elo", "nash_share", "nash_score", "alpha_rank")
_RESAMPLES = 200
"""Bootstrap resamples of the trials, for the intervals of ratings."""


class PairResult(msgspec.Struct, frozen=True):
    """One agent's results against another; None where no episode was finished in each seat."""

    row: str
    column: str
    score: Estimate | None
    """The row's mean score per episode; both seats have equal weight."""
    by_seat: tuple[Estimate | None, ...]
    by_episode: tuple[Estimate | None, ...]
    wins: Estimate | None
    draws: Estimate | None
    losses: Estimate | None
    num_episodes: int
    """Finished episodes."""


class AgentStanding(msgspec.Struct, frozen=True):
    """One agent's score and ratings; None where a rating does not exist, and the report says why."""

    agent: str
    score: Estimate | None
    """Mean of its scores against the other agents."""
    elo: Estimate | None
    """Bradley-Terry on the Elo scale; draws count as half a win, the mean over agents is 0."""
    nash_share: Estimate | None
    """Its probability in the maximum-entropy equilibrium among the agents."""
    nash_score: Estimate | None
    """Nash averaging: its expected score against that equilibrium."""
    alpha_rank: Estimate | None
    """Its mass in the stationary distribution of alpha-rank."""
    forfeits: int
    """Episodes that it forfeited."""


class CrossPlayReport(msgspec.Struct, frozen=True):
    """The pay-off matrix of some agents, and their ratings."""

    world: str
    episodes: int
    num_trials: int
    """Per ordered pair; all pairs play the same deals."""
    agents: tuple[str, ...]
    cells: tuple[PairResult, ...]
    """All pairs, row by row; a zero-sum world has no cells on the diagonal, which is 0."""
    standings: tuple[AgentStanding, ...]
    missing: Mapping[str, str]
    """Why some ratings are missing, by name."""
    failures: int
    """Trials that raised an error."""
    truncations: int
    """Episodes stopped at the turn limit."""


class _Results:
    """All results, as arrays."""

    def __init__(self, num_trials: int, num_agents: int, episodes: int) -> None:
        shape = (num_trials, num_agents, num_agents, _SEATS, episodes)
        self.scores_TNNSK = np.full(shape, np.nan)
        self.won_TNNSK = np.zeros(shape, np.bool_)
        self.drew_TNNSK = np.zeros(shape, np.bool_)
        self.forfeits: Counter[int] = Counter()
        self.failures: list[Failure] = []
        self.truncations = 0

    def add(self, number: int, agents: tuple[int, int], outcome: Trial | Failure) -> None:
        """Add a trial; `agents` are in seat order."""
        if isinstance(outcome, Failure):
            self.failures.append(outcome)
            return
        for k, episode in enumerate(outcome.episodes):
            result = episode.result
            if result.ending is Ending.FINISHED:
                for seat in range(_SEATS):
                    place = (number, agents[seat], agents[1 - seat], seat, k)
                    self.scores_TNNSK[place] = result.returns[seat]
                    found = verdict(result.returns, seat)  # agents are compared: both may succeed, one at most wins
                    self.won_TNNSK[place] = found is Verdict.WIN
                    self.drew_TNNSK[place] = found is Verdict.DRAW
            elif result.forfeited_by is not None:
                self.forfeits[agents[result.forfeited_by]] += 1
            else:
                self.truncations += 1

    def payoffs(self) -> Matrix:
        """The row's score by trial, row and column; both seats have equal weight."""
        return np.asarray(_nan_mean(self.scores_TNNSK, 4).mean(axis=3))


async def cross_play(
    world: World,
    agents: Sequence[NamedAgent],
    game: str,
    *,
    episodes: int,
    trials: int,
    seed: int = 0,
    max_turns: int = 1000,
    play: Play = play_all,
) -> CrossPlayReport:
    """Play every ordered pair of agents `trials` times; trials with the same number have the same deal."""
    info, spec = world.info, str(parse_spec(game))
    names = tuple(name for name, _ in agents)
    check_cross_play(world, spec, names)
    whole("trials", trials, 1)
    whole("episodes", episodes, 1)
    results = _Results(trials, len(agents), episodes)
    agent_world = AgentWorld(world, dict(agents))
    pairs = _pairs(info, len(agents))
    seeds = [derive(seed, "cross-play", number) for number in range(trials)]
    for first, second in pairs:
        tasks = [Task(spec, (names[second],), 0, s, episodes, False, False, max_turns) for s in seeds]
        arm = f"{names[first]} and {names[second]}"
        outcomes = await play(arm, agent_world, [(task, 0) for task in tasks], agents[first][1])
        for number, outcome in enumerate(outcomes):
            results.add(number, (first, second), outcome)
    if len(results.failures) == trials * len(pairs):
        why = results.failures[0]
        raise PlayError(f"none of {len(results.failures)} trials could be played: {why.error}: {why.message}")
    return _report(info, spec, names, results, seed)


def check_cross_play(world: World, spec: str, names: Sequence[str]) -> None:
    """Raise `ConfigError` where these agents cannot play cross-play."""
    check_two_seats(world, spec)
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigError(f"cross-play needs two or more agents with different names, not {', '.join(names) or 'none'}")


def check_two_seats(world: World, spec: str) -> None:
    """Raise `ConfigError` for a world that cannot have cross-play."""
    if world.info.num_seats != _SEATS:
        raise ConfigError(f"cross-play needs a world with two seats; {spec} has {world.info.num_seats}")


def _pairs(info: WorldInfo, num: int) -> list[tuple[int, int]]:
    """Ordered pairs to play; in a zero-sum world an agent against itself is left out, as its score is 0."""
    return [(i, j) for i, j in product(range(num), repeat=2) if i != j or not info.is_zero_sum]


def _report(info: WorldInfo, spec: str, names: Sequence[str], results: _Results, seed: int) -> CrossPlayReport:
    standings, missing = _standings(info, names, results, seed)
    num_trials, *_, episodes = results.scores_TNNSK.shape
    return CrossPlayReport(
        world=spec,
        episodes=episodes,
        num_trials=num_trials,
        agents=tuple(names),
        cells=tuple(_cell(info, names, results, i, j) for i, j in _pairs(info, len(names))),
        standings=standings,
        missing=missing,
        failures=len(results.failures),
        truncations=results.truncations,
    )


def _cell(info: WorldInfo, names: Sequence[str], results: _Results, i: int, j: int) -> PairResult:
    bounds = info.lowest, info.highest
    scores_TSK = results.scores_TNNSK[:, i, j]
    played_TSK = ~np.isnan(scores_TSK)
    won_TSK, drew_TSK = results.won_TNNSK[:, i, j], results.drew_TNNSK[:, i, j]
    lost_TSK = played_TSK & ~won_TSK & ~drew_TSK
    wins, draws, losses = (_rate(those, played_TSK) for those in (won_TSK, drew_TSK, lost_TSK))
    return PairResult(
        row=names[i],
        column=names[j],
        score=_estimate(_nan_mean(scores_TSK, 2).mean(axis=1), bounds),
        by_seat=tuple(_estimate(_nan_mean(scores_TSK[:, seat], 1), bounds) for seat in range(_SEATS)),
        by_episode=tuple(
            _estimate(of_episode_TS.mean(axis=1), bounds) for of_episode_TS in np.moveaxis(scores_TSK, 2, 0)
        ),
        wins=wins,
        draws=draws,
        losses=losses,
        num_episodes=int(played_TSK.sum()),
    )


def _standings(
    info: WorldInfo, names: Sequence[str], results: _Results, seed: int
) -> tuple[tuple[AgentStanding, ...], Mapping[str, str]]:
    payoffs_TNN = results.payoffs()
    others_NN = ~np.eye(len(names), dtype=np.bool_)
    rated, missing = _ratings(info, names, results, payoffs_TNN, seed)
    means_TN = [
        [float(row[others].mean()) for row, others in zip(trial, others_NN, strict=True)] for trial in payoffs_TNN
    ]
    scores = [_estimate(np.array(column), (info.lowest, info.highest)) for column in zip(*means_TN, strict=True)]
    no_ratings: list[Estimate | None] = [None] * len(names)
    standings = [
        AgentStanding(
            agent=name,
            score=scores[agent],
            **{rating: rated.get(rating, no_ratings)[agent] for rating in _RATINGS},
            forfeits=results.forfeits[agent],
        )
        for agent, name in enumerate(names)
    ]
    return tuple(standings), missing


def _ratings(
    info: WorldInfo, names: Sequence[str], results: _Results, payoffs_TNN: Matrix, seed: int
) -> tuple[Mapping[str, Sequence[Estimate | None]], Mapping[str, str]]:
    """Every rating by agent, and the reasons for missing ones."""
    wins_TNN, draws_TNN = results.won_TNNSK.sum(axis=(3, 4)), results.drew_TNNSK.sum(axis=(3, 4))

    def payoffs(drawn: Sequence[int]) -> Matrix:
        found_NN = _nan_mean(payoffs_TNN[drawn], 0)
        return (found_NN - found_NN.T) / 2 if info.is_zero_sum else found_NN

    if info.is_zero_sum:
        payoffs_TNN[:, range(len(names)), range(len(names))] = 0.0
    everything = range(len(payoffs_TNN))
    unmet = np.argwhere(np.isnan(payoffs(everything)))
    if len(unmet):
        pair = " and ".join(names[int(agent)] for agent in unmet[0])
        return {}, {"ratings": f"{pair} finished no episode in each seat"}
    rng = stream(seed, "resample")
    again = [rng.choices(everything, k=len(everything)) for _ in range(_RESAMPLES if len(everything) > 1 else 0)]
    drawn = [everything, *(some for some in again if not np.isnan(payoffs(some)).any())]
    found = {
        "elo": _bootstrap_estimates(
            [elo(_pair_counts(wins_TNN[some]), _pair_counts(draws_TNN[some])) for some in drawn]
        )
    }
    missing = {}
    if info.is_zero_sum:
        averages = {found_NN.tobytes(): nash_average(found_NN) for found_NN in _distinct(map(payoffs, drawn))}
        shares, scores = zip(*(averages[payoffs(some).tobytes()] for some in drawn), strict=True)
        found |= {"nash_share": _bootstrap_estimates(shares), "nash_score": _bootstrap_estimates(scores)}
    else:
        missing["nash"] = "Nash averaging needs a zero-sum world"
    if can_alpha_rank():
        found["alpha_rank"] = _bootstrap_estimates([alpha_rank(payoffs(some)) for some in drawn])
    else:
        missing["alpha_rank"] = NO_ALPHA_RANK
    return found, missing


def _distinct(matrices: Iterable[Matrix]) -> list[Matrix]:
    """Unique matrices: with few or deterministic trials many resamples are equal."""
    return list({matrix.tobytes(): matrix for matrix in matrices}.values())


def _bootstrap_estimates(found: Sequence[Matrix]) -> list[Estimate]:
    """Values with bootstrap intervals: the first entry is from all trials, the others from resamples.

    A value that is the same in all of them has no interval: its trials may all be alike by chance.
    """
    values, *again = found
    if not again:
        return [Estimate(float(value), None, None) for value in values]
    ends = np.percentile(again, (2.5, 97.5), axis=0)
    return [
        Estimate(float(value), None, None) if high - low < ROUNDING else Estimate(float(value), float(low), float(high))
        for value, low, high in zip(values, *ends, strict=True)
    ]


def _pair_counts(some_TNN: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts summed over trials, with a zero diagonal."""
    counts = some_TNN.sum(axis=0)
    np.fill_diagonal(counts, 0)
    return np.asarray(counts)


def _nan_mean(values: Matrix, axis: int) -> Matrix:
    """Mean over the entries that are not NaN; NaN where there are none."""
    there = ~np.isnan(values)
    num = there.sum(axis=axis)
    total = np.where(there, values, 0.0).sum(axis=axis)
    return np.asarray(np.divide(total, num, out=np.full(total.shape, np.nan), where=num > 0))


def _estimate(values_T: Matrix, bounds: Range) -> Estimate | None:
    there = [float(value) for value in values_T if not np.isnan(value)]
    return mean(there, bounds) if there else None


def _rate(those_TSK: NDArray[np.bool_], played_TSK: NDArray[np.bool_]) -> Estimate | None:
    """Share of the finished episodes, with trials as clusters."""
    shares = [float(t[p].mean()) for t, p in zip(those_TSK, played_TSK, strict=True) if p.any()]
    return clustered_proportion(shares, int(played_TSK.sum())) if shares else None
