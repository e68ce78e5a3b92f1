"""A teacher plays the agent's trials in its place, so that its moves can be cloned.

The agent reads what it would read, in its own words and with its own memory, and answers what the teacher chose. So a
trial is a token stream like any other, and only who decided differs.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mage.build import draw_tasks, language_seating, members_of
from mage.engines.trie import Trie
from mage.errors import ConfigError, EngineError
from mage.evaluate.exact import BayesSeating, Objective, bayes_optimal
from mage.games.openspiel import load_game
from mage.players.agent import AgentSettings
from mage.players.draws import InexactError
from mage.players.policy import Guest
from mage.players.table import check_opponent, make_player
from mage.protocols import Agent, Codec, Sampling, Seating, World
from mage.schema import Config
from mage.seeds import derive
from mage.types import AgentInfo, Memory, Observation, Reply, ReplyMode, Sampled, Task

BAYES = "bayes-optimal"
_ESTIMATOR = "credit.estimator = cloning"


class Dictation:
    """An engine that answers what it was told to, with the ids it could have chosen from; nothing was sampled."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._place = 0

    def tell(self, place: int) -> None:
        """The place, among the choices, of the next answer."""
        self._place = place

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Sampled:
        if choices is None:
            raise EngineError("a teacher chooses among actions and writes nothing")
        tokens, allowed = tuple(choices[self._place]), []
        left = Trie([tuple(choice) for choice in choices])
        for token in tokens:
            allowed.append(left.allowed)
            left = left.after(token)
        return Sampled(tokens, (0.0,) * len(tokens), tuple(allowed), self._version, False)


class TaughtAgent:
    """An agent whose answers its teacher dictates; both are told how episodes end."""

    def __init__(self, agent: Agent, dictation: Dictation, teacher: Agent) -> None:
        self._agent = agent
        self._dictation = dictation
        self._teacher = teacher
        self.info = AgentInfo(teacher.info.name, agent.info.memory, agent.info.reply)

    async def act(self, observation: Observation) -> Reply:
        chosen = (await self._teacher.act(observation)).action
        assert chosen is not None
        self._dictation.tell(observation.actions.index(chosen))
        return await self._agent.act(observation)

    async def reflect(self, outcome: Observation) -> Reply | None:
        await self._teacher.reflect(outcome)
        return await self._agent.reflect(outcome)

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return self._agent.memory()


def taught_seating(world: World, codec: Codec, how: AgentSettings, teacher: Seating, version: int) -> Seating:
    """Seats agents that a teacher plays for; `version` is that of the weights that learn from it."""

    def seat(task: Task, sibling: int) -> Agent:
        dictation = Dictation(version)
        agent = language_seating(world, dictation, codec, how)(task, sibling)
        return TaughtAgent(agent, dictation, teacher(task, sibling))

    return seat


def teacher_of(config: Config, spec: str) -> Seating:
    """The teacher that `spec` names, refused with one line where it could not teach this config's agent."""
    agent = config.agent
    if agent.memory not in (Memory.NONE, Memory.HISTORY):
        raise ConfigError(f"{_ESTIMATOR} takes agent.memory = history or none, not {agent.memory}: no teacher writes")
    if agent.reply is not ReplyMode.CHOICE:
        raise ConfigError(f"{_ESTIMATOR} takes agent.reply = choice, not {agent.reply}: a teacher only chooses")
    if spec == BAYES:
        return _bayes(config)
    game = load_game(config.game)
    for seat in config.trial.seats:
        check_opponent(spec, game, seat)

    def seat_player(task: Task, sibling: int) -> Agent:
        return Guest(make_player(spec, game, task.seat, derive(task.seed, "teacher", sibling)), spec)

    return seat_player


def _bayes(config: Config) -> Seating:
    """Exact Bayes-optimal play for the last episode, for whoever knows the population; planned now, in seconds."""
    members = members_of(config)
    weights = config.population.weights or (1.0,) * len(members)
    pool = list(zip(members, weights, strict=True))
    seating = BayesSeating(pool, Objective.LAST)
    try:
        some = next(draw_tasks(config, "teacher"))
        for seat in config.trial.seats:
            seating(msgspec.structs.replace(some, seat=seat), 0)
            bayes_optimal(config.game, pool, seat, some.episodes, Objective.LAST)
    except InexactError as error:
        raise ConfigError(f"{_ESTIMATOR}: there is no exact plan against this population: {error}") from None
    return seating
