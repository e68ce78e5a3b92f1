"""The parts of a training run, built from its config."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from mage.agents.tutor import Tutor
from mage.config.schema import Config, CreditConfig
from mage.credit.estimators import Estimator, make_estimator
from mage.credit.estimators.cloning import Cloning
from mage.credit.returns import ReturnSpec
from mage.credit.steps import CreditGroup, agent_turns, credit_group
from mage.engines.local.engine import LocalEngine
from mage.errors import ConfigError, PlayError
from mage.evaluation.splits import Split, load_split
from mage.learners.local import Learner, LearnerSettings
from mage.learners.samples import to_samples
from mage.models.device import configure_torch, resolve_placement
from mage.models.load import LoadedModel
from mage.opponents.registry import family
from mage.protocols import AgentFactory, Engine, World
from mage.rollout.group import play_groups
from mage.training.build import check, check_splits, draw_tasks, language_agent_factory, settings
from mage.training.model_cache import ModelCache, model_and_engine
from mage.training.step_resources import StepResources
from mage.training.teacher import taught_agent_factory, teacher_of
from mage.types import Group, Memory, Sample, Task, Trial
from mage.worlds.openspiel.world import OpenSpielWorld

LEARNER = "main"
"""The name of the only learner, in the keys of statistics."""
CONCURRENCY = 4096
"""Trials of a step in flight at once."""


@dataclass(frozen=True)
class Parts:
    """What a step works with."""

    config: Config
    world: World
    loaded: LoadedModel
    engine: LocalEngine
    learner: Learner
    estimator: Estimator
    make_agent: AgentFactory
    control: AgentFactory
    """The same weights without memory."""
    training: Callable[[int], AgentFactory]
    """The seating for training at a step: the agent's, its teacher's where the estimator clones one, or a tutor's."""
    tutor: Tutor
    is_taught: bool
    """Whether a teacher plays in training."""
    splits: tuple[Split, ...]
    resources: StepResources

    async def publish(self, step: int) -> None:
        """Let the engine play with the learner's weights, and forget what it remembers of others."""
        if self.engine.capacity is not None:
            # Added to the weights, an adapter would lose what lies below their rounding.
            await self.engine.publish(self.learner.base(), step)
            await self.engine.publish_adapter(LEARNER, self.learner.adapter(), step)
        else:
            await self.engine.publish(self.learner.weights(), step)
        self.engine.reset_cache()

    def tasks(self, num: int, *path: str | int) -> list[Task]:
        """The first tasks of a named stream."""
        return list(islice(draw_tasks(self.config, *path), num))

    async def play(
        self, tasks: Sequence[Task], size: int, step: int | None = None, first: Sequence[int] = ()
    ) -> list[Group]:
        """Siblings of every task. A trial may fail, but not all of them: then nothing could be learned.

        With a `step` they are trials to learn from, seated for training. `first` has the numbers of the tasks' first
        siblings.
        """
        make_agent = self.make_agent if step is None else self.training(step)
        with self.resources.playing():
            groups = await play_groups(self.world, tasks, size, make_agent, concurrency=CONCURRENCY, first=first)
        self.refuse_failed(groups)
        return groups

    def refuse_failed(self, groups: Sequence[Group]) -> None:
        """Stop where all trials failed: nothing can be learned from that."""
        failures = [failure for group in groups for failure in group.failures]
        if failures and not any(group.trials for group in groups):
            raise PlayError(f"all {len(failures)} trials failed; the first: {failures[0].error}: {failures[0].message}")

    def credit(
        self,
        groups: Sequence[Group],
        learner: str = LEARNER,
        agents: Sequence[str] | None = None,
        credit: CreditConfig | None = None,
    ) -> list[CreditGroup]:
        """Groups as plain numbers, with values where the estimator uses them. `agents` names whom they played."""
        return_spec = return_spec_of(credit or self.config.credit)
        names = [opponent_name(group.task) for group in groups] if agents is None else agents
        return [
            credit_group(group, return_spec, name, learner, values)
            for group, name, values in zip(groups, names, self._values(groups), strict=True)
        ]

    def _values(self, groups: Sequence[Group]) -> list[list[list[float]] | None]:
        """What the value head expects at each turn of each trial; all trials are asked about at once."""
        if not self.learner.has_values:
            return [None for _ in groups]
        trials = [trial for group in groups for trial in group.trials]
        asked = [_to_ask(trial) for trial in trials]
        answers = iter(self.learner.values([sample for samples in asked for sample in samples]))
        found = [
            _turn_values(trial, [(sample, next(answers)) for sample in samples])
            for trial, samples in zip(trials, asked, strict=True)
        ]
        by_trial = iter(found)
        return [[next(by_trial) for _ in group.trials] for group in groups]


def _to_ask(trial: Trial) -> list[Sample]:
    turns = agent_turns(trial)
    return to_samples(trial, turns, [0.0] * len(turns), [0.0] * len(turns))


def _turn_values(trial: Trial, answers: Sequence[tuple[Sample, list[float]]]) -> list[float]:
    """The value before each turn's first token; a turn that decided nothing has the next one's value."""
    by_turn: dict[int, float] = {}
    for sample, values in answers:
        for turn, value in zip(sample.turns, values, strict=True):
            by_turn.setdefault(turn, value)
    found: list[float] = []
    for number in reversed(range(len(agent_turns(trial)))):
        found.append(by_turn.get(number, found[-1] if found else 0.0))
    return found[::-1]


def opponent_name(task: Task) -> str:
    """Whom a task is played against, as statistics know them: members that never come back go by their family."""
    return " + ".join(family(spec) for spec in task.opponents)


def return_spec_of(credit: CreditConfig) -> ReturnSpec:
    """What is paid and what is fined."""
    return ReturnSpec(
        objective=credit.objective,
        turn=credit.turn,
        episode=credit.episode,
        invalid=credit.invalid_penalty,
        overlong=credit.truncated_penalty,
        length=credit.length_penalty,
        free=credit.length_free,
        to_go=credit.to_go,
    )


def played_by(engine: LocalEngine) -> Engine:
    """The engine as the learner plays with it: through its adapter where there is room for one."""
    return engine.adapter(LEARNER) if engine.capacity is not None else engine


def build_parts(
    config: Config, model_cache: ModelCache | None = None, learning: LearnerSettings | None = None
) -> Parts:
    """Load the model, or borrow it from a bench, seat it, and make everything a step needs.

    `learning` is how the weights were learned, where they are only to be played with: perhaps as nothing can be
    learned, such as at a temperature of 0.
    """
    check(config)
    check_splits(config)
    how_to_learn = learning or learner_settings(config)
    configure_torch(resolve_placement(config.device, config.dtype), config.threads)
    estimator = make_estimator(config.credit.estimator, config.credit.options)
    teacher = teacher_of(config, estimator.teacher) if isinstance(estimator, Cloning) else None
    splits = tuple(load_split(name) for name in config.evaluation.splits)
    loaded, engine = model_and_engine(config) if model_cache is None else model_cache.get(config)
    needs_values = getattr(estimator, "needs_values", False)
    learner = Learner(loaded.model, how_to_learn, with_values=needs_values, imitates=teacher is not None)
    world = OpenSpielWorld()
    if config.agent.context > engine.length:
        raise ConfigError(f"agent.context = {config.agent.context}: {loaded.name} has room for {engine.length} tokens")
    how = settings(config.agent)
    without = settings(config.agent.model_copy(update={"memory": Memory.NONE}))
    seated = partial(language_agent_factory, world, played_by(engine), loaded.chat_format, how)
    tutor = Tutor(config.agent.tutor, config.agent.tutor_steps, config.agent.tutor_fade)
    tutored = partial(tutor.make_agent, seated)
    taught = None if teacher is None else partial(taught_agent_factory, world, loaded.chat_format, how, teacher)
    gc.collect()
    gc.freeze()  # what is built now lives as long as the run: collections need not look at it again
    return Parts(
        config=config,
        world=world,
        loaded=loaded,
        engine=engine,
        learner=learner,
        estimator=estimator,
        make_agent=seated(),
        control=language_agent_factory(world, played_by(engine), loaded.chat_format, without),
        training=taught or tutored,
        tutor=tutor,
        is_taught=teacher is not None,
        splits=splits,
        resources=StepResources(engine),
    )


def learner_settings(config: Config) -> LearnerSettings:
    """How to learn, from the config."""
    return LearnerSettings(
        config=config.learner,
        temperature=config.agent.temperature,
        steps=config.steps,
        tokens=config.tokens,
        seed=config.seed,
    )
