"""Teachers for behaviour cloning: a teacher chooses the agent's moves in training trials.

The agent's prompts and memory are its own, and its answers are the teacher's choices, so a trial has token streams
like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random

import msgspec

from mage.agents.language import AgentSettings
from mage.agents.tutor import Tutor
from mage.config.schema import Config
from mage.engines.trie import Trie
from mage.errors import ConfigError, InexactError
from mage.evaluation.config_splits import population_of
from mage.evaluation.exact import BayesAgentFactory, PlanObjective, StrayingPlayer, bayes_optimal
from mage.opponents.agent_seat import check_seat_agent, seat_agent
from mage.opponents.policy import PolicyAgent
from mage.protocols import Agent, AgentFactory, ChatFormat, Sampling, World
from mage.seeds import derive, stream
from mage.training.build import draw_tasks, language_agent_factory
from mage.types import AgentInfo, Completion, Memory, Observation, Reply, ReplyMode, Task
from mage.worlds.openspiel.world import OpenSpielWorld
from mage.worlds.registry import load_world

BAYES = "bayes-optimal"
_ESTIMATOR = "credit.estimator = cloning"


class TeacherEngine:
    """An engine that returns a preset choice, with the ids it could have been chosen from, or a preset note."""

    def __init__(self, version: int, end: int) -> None:
        self._version = version
        self._end = end
        self._note: tuple[int, ...] = (end,)
        self._index = 0
        self._is_forced = False

    def set_note(self, tokens: tuple[int, ...]) -> None:
        """Set the tokens, with the end of the turn, of the next reflection."""
        self._note = tokens

    def set_choice(self, index: int, *, is_forced: bool) -> None:
        """Set the index, among the choices, of the next answer. One that is forced has probability one in learning."""
        self._index = index
        self._is_forced = is_forced

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        if choices is None:
            note = self._note[: sampling.max_tokens]
            return Completion(note, (0.0,) * len(note), None, self._version, note[-1] != self._end)
        tokens, allowed = tuple(choices[self._index]), []
        left = Trie([tokens] if self._is_forced else [tuple(choice) for choice in choices])
        for token in tokens:
            allowed.append(left.allowed)
            left = left.after(token)
        return Completion(tokens, (0.0,) * len(tokens), tuple(allowed), self._version, False)


class StrayingTeacher:
    """A teacher that draws a share of its moves at random, and plays on from where they lead."""

    def __init__(self, teacher: Agent, noise: float, rng: Random) -> None:
        self.info = teacher.info
        self._teacher = teacher
        self._noise = noise
        self._rng = rng
        self.strayed = False
        """Whether the last move was drawn at random."""

    async def act(self, observation: Observation) -> Reply:
        reply = await self._teacher.act(observation)
        self.strayed = self._rng.random() < self._noise
        return Reply(self._rng.choice(observation.actions), "", ()) if self.strayed else reply

    async def reflect(self, outcome: Observation) -> Reply | None:
        return await self._teacher.reflect(outcome)

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return self._teacher.memory()


class TaughtAgent:
    """An agent whose moves a teacher chooses and whose notes a tutor writes; both observe the outcomes of episodes."""

    def __init__(
        self, agent: Agent, engine: TeacherEngine, teacher: Agent, tutor: Tutor, chat_format: ChatFormat
    ) -> None:
        self._agent = agent
        self._engine = engine
        self._teacher = teacher
        self._tutor = tutor
        self._chat_format = chat_format
        self.info = AgentInfo(teacher.info.name, agent.info.memory, agent.info.reply)

    async def act(self, observation: Observation) -> Reply:
        chosen = (await self._teacher.act(observation)).action
        assert chosen is not None
        has_strayed = isinstance(self._teacher, StrayingPlayer | StrayingTeacher) and self._teacher.strayed
        self._engine.set_choice(observation.actions.index(chosen), is_forced=has_strayed)
        return await self._agent.act(observation)

    async def reflect(self, outcome: Observation) -> Reply | None:
        await self._teacher.reflect(outcome)
        if self.info.memory is Memory.REFLECTIONS:
            self._engine.set_note(self._chat_format.answer(self._tutor.note(outcome) or ""))
        return await self._agent.reflect(outcome)

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return self._agent.memory()


def taught_agent_factory(
    world: World, chat_format: ChatFormat, how: AgentSettings, teacher: AgentFactory, tutor: Tutor, version: int
) -> AgentFactory:
    """A factory of agents that a teacher plays for; `version` is that of the weights in training, the step."""

    def make_agent(task: Task, sibling: int) -> Agent:
        engine = TeacherEngine(version, chat_format.end)
        agent = language_agent_factory(world, engine, chat_format, how)(task, sibling)
        return TaughtAgent(agent, engine, teacher(task, sibling), tutor, chat_format)

    return make_agent


def teacher_of(config: Config, spec: str, noise: float = 0.0) -> AgentFactory:
    """The teacher that `spec` names; a ConfigError where it cannot teach this config's agent."""
    agent = config.agent
    is_tutored = agent.memory is Memory.REFLECTIONS and agent.tutor and agent.tutor_steps >= config.steps
    if agent.memory not in (Memory.NONE, Memory.HISTORY) and not is_tutored:
        raise ConfigError(
            f"{_ESTIMATOR} takes agent.memory = history or none, not {agent.memory}: no teacher writes; or "
            f"reflections with an agent.tutor in all steps (agent.tutor_steps = {config.steps})"
        )
    if agent.reply is not ReplyMode.CHOICE:
        raise ConfigError(f"{_ESTIMATOR} takes agent.reply = choice, not {agent.reply}: a teacher only chooses")
    if spec == BAYES:
        return _bayes(config, noise)
    for name in (config.world, *config.scheduled_worlds):
        for seat in config.trial.seats:
            check_seat_agent(load_world(name), spec, seat)

    def make_teacher(task: Task, sibling: int) -> Agent:
        world = load_world(task.world)
        seed = derive(task.seed, "teacher", sibling)
        teacher: Agent
        if isinstance(world, OpenSpielWorld):
            teacher = PolicyAgent(world.player(spec, task.seat, seed), spec)
        else:
            teacher = seat_agent(world, spec, msgspec.structs.replace(task, seed=seed))
        return StrayingTeacher(teacher, noise, stream(task.seed, "teacher", sibling, "noise")) if noise else teacher

    return make_teacher


def _bayes(config: Config, noise: float) -> AgentFactory:
    """Exact Bayes-optimal play for the last episode, given the population; planned now, which takes seconds.

    Between the points of a schedule it is planned when a value is first played.
    """
    population = population_of(config)
    make_agent = BayesAgentFactory(population, PlanObjective.LAST, noise=noise)
    try:
        some = next(draw_tasks(config, "teacher"))
        for world, seat in product(config.scheduled_worlds or (config.world,), config.trial.seats):
            make_agent(msgspec.structs.replace(some, world=world, seat=seat), 0)
            bayes_optimal(world, population, seat, some.episodes, PlanObjective.LAST)
    except InexactError as error:
        raise ConfigError(
            f"{_ESTIMATOR}: there is no exact plan against this population: {error}; "
            "credit.options={teacher=…} names another teacher"
        ) from None
    return make_agent
