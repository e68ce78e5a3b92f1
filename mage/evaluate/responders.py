"""A lower bound on NashConv by play, for games too large to be read everywhere: what some responders gain.

Nobody replies better than the best reply, so whatever a responder gains, NashConv is at least that. The best of several
is chosen on trials of its own, seat by seat, and judged on others: what is chosen for its luck does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import msgspec

from mage.errors import ConfigError
from mage.evaluate.meeting import Meeting, announced
from mage.evaluate.metrics import Estimate, mean
from mage.evaluate.nashconv import Named
from mage.evaluate.suite import complete
from mage.games.openspiel import Game, load_game
from mage.players.policy import Guest, Policy, PolicyPlayer, evenly
from mage.protocols import Agent, Seating, World
from mage.rollout.group import play_trials
from mage.seeds import derive
from mage.types import Failure, Observation, Task, Trial

LEARNED = "learned"
"""The name of the responder that learns by play."""
_ROUNDS = 10
"""How often a responder that learns looks at what it has learned."""
_EXPLORES = 0.2
"""How often it then tries another move; in its first round it does nothing else."""


class Response(msgspec.Struct, frozen=True):
    """The best responder in one seat, against the agent in all others."""

    seat: int
    responder: str
    score: Estimate
    """On trials on which it was not chosen."""


class LowerBound(msgspec.Struct, frozen=True):
    """How exploitable an agent is at least, in the first episode of a trial."""

    game: str
    agent: str
    episodes: int
    """Of a trial, as the agent is told; the first of them is played."""
    responders: tuple[str, ...]
    responses: tuple[Response, ...]
    own: tuple[Estimate, ...] | None
    """What the agent scores against itself, by seat; None in zero-sum games, where it adds up to nothing."""
    nash_conv: Estimate
    """What the responders gain over that, summed over the seats, paired by trial: NashConv is at least this."""
    num_trials: int
    """Trials that it rests on; as many were played to choose the responders."""
    failures: int
    """Trials that could not be played in every seat; they are left out."""


class _Table:
    """One agent, met by others in every seat."""

    def __init__(self, world: World, agent: Named, game: Game, episodes: int, seed: int) -> None:
        self.game = game
        self._name = agent[0]
        self._seating = announced(agent[1], episodes)
        self._world = Meeting(world, {self._name: self._seating})
        self._seed = seed

    async def meet(self, seating: Seating, seat: int, numbers: range, purpose: str) -> list[Trial | Failure]:
        """First episodes with a responder in `seat`; trials of one purpose and number are dealt alike."""
        others = (self._name,) * (self.game.num_seats - 1)
        tasks = [
            Task(self.game.spec, others, seat, derive(self._seed, purpose, number), 1, False, False, 1000)
            for number in numbers
        ]
        return [o async for o in play_trials(self._world, [(task, 0) for task in tasks], seating)]

    async def alone(self, numbers: range, purpose: str) -> list[Trial | Failure]:
        """First episodes with the agent in every seat."""
        return await self.meet(self._seating, 0, numbers, purpose)


async def lower_bound(
    world: World,
    agent: Named,
    game: str,
    responders: Sequence[Named],
    *,
    episodes: int,
    trials: int,
    learn: int = 0,
    seed: int = 0,
) -> LowerBound:
    """Let responders meet an agent in every seat, choose the best in each, and judge these on `trials` others.

    With `learn` there is one more responder, which first learns from that many episodes in each seat.
    """
    if trials < 2:
        raise ConfigError(f"trials = {trials}: an interval needs at least 2")
    table = _Table(world, agent, load_game(game), episodes, seed)
    known = dict(responders)
    if learn:
        known[LEARNED] = await _learned(table, learn)
    if not known:
        raise ConfigError("a lower bound needs at least 1 responder, or some episodes to learn one from")
    chosen = [await _best(table, known, seat, trials) for seat in range(table.game.num_seats)]
    arms = [await table.meet(known[name], seat, range(trials), "judge") for seat, name in enumerate(chosen)]
    if not table.game.zero_sum:
        arms.append(await table.alone(range(trials), "judge"))
    played = complete(*arms)
    met, own = played[: len(chosen)], [trial for arm in played[len(chosen) :] for trial in arm]
    gains = [sum(trial.scores[0] for trial in trials) for trials in zip(*met, strict=True)]
    costs = [sum(trial.episodes[0].result.returns) for trial in own] or [0.0] * len(gains)
    return LowerBound(
        game=table.game.spec,
        agent=agent[0],
        episodes=episodes,
        responders=tuple(known),
        responses=tuple(
            Response(seat, name, mean([trial.scores[0] for trial in met[seat]])) for seat, name in enumerate(chosen)
        ),
        own=_by_seat(own) if own else None,
        nash_conv=mean([gain - cost for gain, cost in zip(gains, costs, strict=True)]),
        num_trials=len(gains),
        failures=trials - len(gains),
    )


async def _best(table: _Table, responders: Mapping[str, Seating], seat: int, trials: int) -> str:
    """Who scores the most in a seat, the first of equals."""
    scores = {}
    for name, seating in responders.items():
        (played,) = complete(await table.meet(seating, seat, range(trials), "choose"))
        scores[name] = mean([trial.scores[0] for trial in played]).value
    return max(scores, key=lambda name: scores[name])


def _by_seat(trials: Sequence[Trial]) -> tuple[Estimate, ...]:
    return tuple(mean(returns) for returns in zip(*(t.episodes[0].result.returns for t in trials), strict=True))


class _Learner:
    """What each action came to in the end, by what its seat knew: Monte Carlo control."""

    def __init__(self) -> None:
        self._returns: dict[str, dict[int, tuple[float, int]]] = {}
        self.explores = 1.0

    def policy(self, observation: Observation) -> Sequence[float]:
        """Mostly the action that has come to the most so far, else any."""
        tried = self._returns.get(observation.key)
        if tried is None:
            return evenly(observation)
        best = max(tried, key=lambda action: tried[action][0] / tried[action][1])
        share = self.explores / len(observation.ids)
        return [share + (1 - self.explores) * (action == best) for action in observation.ids]

    def learn(self, trial: Trial) -> None:
        """Take one episode into account."""
        for turn in trial.episodes[0].turns:
            if turn.observation.seat == trial.task.seat and turn.action is not None:
                tried = self._returns.setdefault(turn.observation.key, {})
                action = turn.observation.ids[turn.observation.actions.index(turn.action)]
                total, num = tried.get(action, (0.0, 0))
                tried[action] = (total + trial.scores[0], num + 1)


async def _learned(table: _Table, num: int) -> Seating:
    """A responder that has learned from `num` episodes in each seat, and then plays what it found best."""
    learners = [_Learner() for _ in range(table.game.num_seats)]
    size = ceil(num / _ROUNDS)
    for seat, learner in enumerate(learners):
        for start in range(0, num, size):
            numbers = range(start, min(start + size, num))
            for outcome in await table.meet(_seating(learner.policy), seat, numbers, "learn"):
                if isinstance(outcome, Trial):
                    learner.learn(outcome)
            learner.explores = _EXPLORES
        learner.explores = 0.0

    def seat_learned(task: Task, sibling: int) -> Agent:
        return _seating(learners[task.seat].policy)(task, sibling)

    return seat_learned


def _seating(policy: Policy) -> Seating:
    def seat(task: Task, sibling: int) -> Agent:
        return Guest(PolicyPlayer(policy, derive(task.seed, "responder", task.seat)), LEARNED)

    return seat
