"""NashConv of an agent's own policy: how much the best replies to it would gain, summed over the seats.

The policy is what the agent would do at every information state of every seat in one episode: the first of a trial,
where it remembers nothing, or the last, after episodes against a named opponent. An agent that remembers has a policy
for each memory, so the latter is a mean over trials.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mage.errors import ConfigError
from mage.evaluate.figures import mean_scores
from mage.evaluate.meeting import Meeting
from mage.evaluate.metrics import Estimate, mean
from mage.evaluate.probabilities import Odds, OpenAgent, Place, information_states, policy_of
from mage.evaluate.suite import complete
from mage.games.openspiel import Game, load_game
from mage.players.solver import count_states, equilibrium
from mage.protocols import Agent, Seating, World
from mage.rollout.group import play_trials
from mage.seeds import derive
from mage.spec import whole
from mage.types import Observation, Reply, Task

Table = Mapping[str, Sequence[float]]
"""For every information state the probabilities of its legal actions, in their order."""
Named = tuple[str, Seating]
"""An agent: what it is called and how it is brought to the table."""

_AT_A_TIME = 16
"""Trials whose agents are read together: each is asked at many information states at once."""
_CFR_VISITS = 1_000_000
"""States that are visited to find an equilibrium for scale: a second or two."""
_MAX_ITERATIONS = 1000


class Gains(NamedTuple):
    """What best replies to a policy gain."""

    nash_conv: float
    by_seat: tuple[float, ...]


class Reading(msgspec.Struct, frozen=True):
    """How exploitable an agent is in one episode of a trial."""

    nash_conv: Estimate
    gains: tuple[Estimate, ...]
    """By seat: what a best reply to the agent in all other seats gains over the agent's own play."""
    num_trials: int
    """Policies that were read; one alone has no interval, and where all are alike one is enough."""
    num_samples: int
    """Answers that were drawn at each information state; 0 where the probabilities are exact."""
    forfeits: float
    """Share of the answers that gave up; the policy is what the others say."""
    unread: float
    """Share of the information states where all gave up; there the policy is taken to be even."""


class Remembering(msgspec.Struct, frozen=True):
    """The same agent in the last episode of trials against one opponent."""

    opponent: str
    scores: tuple[Estimate, ...]
    """score@k against the opponent, in both seats."""
    reading: Reading
    change: Estimate
    """NashConv in the last episode minus NashConv in the first, paired by trial."""
    failures: int
    """Trials that could not be played in every seat; they are left out."""


class NashConvReport(msgspec.Struct, frozen=True):
    """An agent's policy against the best replies to it, beside even play and an equilibrium."""

    game: str
    agent: str
    episodes: int
    """Of a trial, as the agent is told."""
    num_states: tuple[int, ...]
    """Information states, by seat."""
    first: Reading
    """In the first episode, where nothing is remembered."""
    last: Remembering | None
    """In the last one, where an opponent was named; else None."""
    uniform: float
    """NashConv of even play."""
    cfr: float | None
    """NashConv of an equilibrium as CFR+ finds it; None where it is not made for the game."""
    cfr_iterations: int
    """As many as a second or two allow; 0 where there is no equilibrium to find."""
    policy: Mapping[str, Mapping[str, float]]
    """The first policy that was read in the first episode: by information state, the probability of each action."""


async def nash_conv_of(
    world: World,
    agent: Named,
    game: str,
    *,
    episodes: int,
    trials: int,
    after: Named | None = None,
    num_samples: int = 64,
    seed: int = 0,
) -> NashConvReport:
    """Read an agent's policy in the first episode of a trial and, where `after` names an opponent, in the last.

    Where probabilities are not exact, `num_samples` answers are drawn at each information state. Best replies then
    fit the luck of the draw as well, so that NashConv is overestimated, the less the more are drawn.
    """
    loaded = load_game(game)
    whole("trials", trials, 1)
    whole("episodes", episodes, 1)
    if after is not None and episodes < 2:
        raise ConfigError(f"episodes = {episodes}: the last is read after others, so at least 2 are needed")
    places = information_states(loaded)
    tasks = [_tasks(loaded, after, episodes, derive(seed, "nash-conv", number)) for number in range(trials)]
    tables = await _read_first(agent, tasks, places, num_samples)
    gains = _gains(loaded, tables)
    iterations = _iterations(loaded)
    return NashConvReport(
        game=loaded.spec,
        agent=agent[0],
        episodes=episodes,
        num_states=tuple(map(len, places)),
        first=_reading(gains, tables),
        last=None if after is None else await _read_last(world, agent, after, loaded, tasks, num_samples, gains),
        uniform=exploited(loaded, even(places)).nash_conv,
        cfr=exploited(loaded, equilibrium(loaded, iterations)).nash_conv if iterations else None,
        cfr_iterations=iterations,
        policy={
            place.key: dict(zip(place.observation.actions, tables[0][place.key].probabilities, strict=True))
            for seat in places
            for place in seat
        },
    )


async def first_episode(agent: Named, game: str, *, episodes: int, num_samples: int = 64, seed: int = 0) -> Gains:
    """What best replies gain against an agent that remembers nothing yet."""
    loaded = load_game(game)
    tasks = [_tasks(loaded, None, episodes, derive(seed, "nash-conv", 0))]
    (gains,) = _gains(loaded, await _read_first(agent, tasks, information_states(loaded), num_samples))
    return gains


def exploited(game: Game, table: Table) -> Gains:
    """What best replies gain against a policy, by OpenSpiel, in units of the game's scores.

    >>> kuhn = load_game("kuhn_poker")
    >>> round(exploited(kuhn, even(information_states(kuhn))).nash_conv, 4)
    0.9167
    """
    from open_spiel.python.algorithms.exploitability import nash_conv
    from open_spiel.python.policy import TabularPolicy

    policy = TabularPolicy(game.rules)
    for key, row in policy.state_lookup.items():
        policy.action_probability_array[row] = 0.0
        policy.action_probability_array[row, policy.legal_actions_mask[row] > 0] = table[key]
    found = nash_conv(game.rules, policy, return_only_nash_conv=False)
    gains = tuple(float(gain) / game.scale for gain in found.player_improvements)
    return Gains(sum(gains), gains)


def even(places: Iterable[Sequence[Place]]) -> Table:
    """The same probability for every action, everywhere."""
    return {p.key: (1 / len(p.observation.ids),) * len(p.observation.ids) for seat in places for p in seat}


def opened(agent: Agent) -> OpenAgent:
    """The agent, if it can be asked what it would do."""
    if not isinstance(agent, OpenAgent):
        raise ConfigError(f"{agent.info.name} cannot be asked what it would do, only watched: its NashConv is unknown")
    return agent


def _iterations(game: Game) -> int:
    """How many iterations of CFR+ are spent on a game; none where it finds no equilibrium."""
    is_solvable = game.zero_sum and game.num_seats == 2
    return min(_MAX_ITERATIONS, _CFR_VISITS // count_states(game, _CFR_VISITS)) if is_solvable else 0


def _tasks(game: Game, after: Named | None, episodes: int, seed: int) -> list[Task]:
    """One trial's tasks, by seat."""
    others = ("uniform" if after is None else after[0],) * (game.num_seats - 1)
    return [Task(game.spec, others, seat, seed, episodes, False, False, 1000) for seat in range(game.num_seats)]


async def _read_first(
    agent: Named, tasks: Sequence[Sequence[Task]], places: Sequence[Sequence[Place]], num_samples: int
) -> list[dict[str, Odds]]:
    """What fresh agents would do. Language models whose odds are exact are all alike, so the first is enough."""
    first = [opened(agent[1](task, 0)) for task in tasks[0]]
    table = await _table(first, places, num_samples)
    if first[0].info.reply is not None and _num_samples(table) == 0:
        return [table]
    others = [[opened(agent[1](task, 0)) for task in trial] for trial in tasks[1:]]
    return [table, *await _tables(others, places, num_samples)]


async def _read_last(
    world: World,
    agent: Named,
    after: Named,
    game: Game,
    tasks: Sequence[Sequence[Task]],
    num_samples: int,
    first: Sequence[Gains],
) -> Remembering:
    """What the agent would do in the last episode, after the others against an opponent."""
    kept: dict[Task, OpenAgent] = {}

    def seat(task: Task, sibling: int) -> Agent:
        return _Kept(opened(agent[1](task, sibling)), task, kept)

    jobs = [(task, 0) for trial in tasks for task in trial]
    outcomes = [o async for o in play_trials(Meeting(world, dict([after])), jobs, seat)]
    played = list(zip(*complete(*(outcomes[s :: game.num_seats] for s in range(game.num_seats))), strict=True))
    readers = [[kept[trial.task] for trial in trials] for trials in played]
    tables = await _tables(readers, information_states(game, tasks[0][0].episodes - 1), num_samples)
    gains = _gains(game, tables)
    before = {trial[0].seed: first[number if len(first) > 1 else 0].nash_conv for number, trial in enumerate(tasks)}
    return Remembering(
        opponent=after[0],
        scores=mean_scores([trial for trials in played for trial in trials]),
        reading=_reading(gains, tables),
        change=mean([now.nash_conv - before[t[0].task.seed] for now, t in zip(gains, played, strict=True)]),
        failures=len(tasks) - len(played),
    )


class _Kept:
    """Plays a trial as the agent does, and keeps a copy of it as it is when the last episode begins."""

    def __init__(self, agent: OpenAgent, task: Task, kept: dict[Task, OpenAgent]) -> None:
        self.info = agent.info
        self._agent = agent
        self._task = task
        self._kept = kept

    async def act(self, observation: Observation) -> Reply:
        return await self._agent.act(observation)

    async def reflect(self, outcome: Observation) -> Reply | None:
        reply = await self._agent.reflect(outcome)
        if outcome.episode == self._task.episodes - 2:
            self._kept[self._task] = self._agent.fork(0)
        return reply

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return self._agent.memory()


async def _tables(
    trials: Sequence[Sequence[OpenAgent]], places: Sequence[Sequence[Place]], num_samples: int
) -> list[dict[str, Odds]]:
    """The policies of several trials, a few of them at a time."""
    found: list[dict[str, Odds]] = []
    for start in range(0, len(trials), _AT_A_TIME):
        some = trials[start : start + _AT_A_TIME]
        found += await asyncio.gather(*(_table(agents, places, num_samples) for agents in some))
    return found


async def _table(agents: Sequence[OpenAgent], places: Sequence[Sequence[Place]], num_samples: int) -> dict[str, Odds]:
    """What agents, one in each seat, would do at all their information states."""
    by_seat = await asyncio.gather(
        *(policy_of(agent, its, num_samples) for agent, its in zip(agents, places, strict=True))
    )
    return {key: odds for table in by_seat for key, odds in table.items()}


def _num_samples(table: Mapping[str, Odds]) -> int:
    return max(odds.num_samples for odds in table.values())


def _gains(game: Game, tables: Sequence[Mapping[str, Odds]]) -> list[Gains]:
    return [exploited(game, {key: odds.probabilities for key, odds in table.items()}) for table in tables]


def _reading(found: Sequence[Gains], tables: Sequence[Mapping[str, Odds]]) -> Reading:
    everywhere = [odds for table in tables for odds in table.values()]
    drawn = sum(odds.num_samples for odds in everywhere)
    return Reading(
        nash_conv=mean([gains.nash_conv for gains in found]),
        gains=tuple(mean(gains) for gains in zip(*(gains.by_seat for gains in found), strict=True)),
        num_trials=len(tables),
        num_samples=max(map(_num_samples, tables)),
        forfeits=sum(odds.forfeits for odds in everywhere) / drawn if drawn else 0.0,
        unread=sum(0 < odds.num_samples == odds.forfeits for odds in everywhere) / len(everywhere),
    )
