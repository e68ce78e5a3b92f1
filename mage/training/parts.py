"""The parts of a training run (world, model, policy server, learner, estimator), built from its config."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from mage.agents.tutor import Tutor
from mage.config.schema import Config
from mage.config.sections import CreditConfig
from mage.credit.estimators import Estimator, make_estimator
from mage.credit.estimators.cloning import Cloning
from mage.credit.returns import ReturnSpec
from mage.credit.steps import CreditGroup, agent_turns, credit_group
from mage.errors import ConfigError, PlayError
from mage.evaluation.config_splits import evaluated_splits
from mage.evaluation.splits import Split
from mage.league.members import learner as learner_member
from mage.learners.registry import make_learner
from mage.learners.samples import to_samples
from mage.learners.settings import LearnerSettings, learner_settings
from mage.models.device import configure_torch, num_cores, resolve_placement, share_threads
from mage.models.load import LoadedModel, check_words
from mage.opponents.registry import family
from mage.protocols import AgentFactory, ChatFormat, Engine, Learner, PolicyServer, World
from mage.rollout.group import play_groups
from mage.training.build import agent_settings, check, check_splits, draw_tasks, language_agent_factory, worlds_of
from mage.training.model_cache import ModelCache, model_and_server
from mage.training.step_resources import StepResources
from mage.training.teacher import taught_agent_factory, teacher_of
from mage.types import Group, Memory, Sample, Task, Trial
from mage.worlds.registry import load_world

LEARNER = "main"
"""The only learner of a run without a league, in keys of statistics; also the policy that is evaluated."""
CONCURRENCY = 4096
"""Trials of a step in flight at once."""


@dataclass(frozen=True)
class Parts:
    """The objects that a training step uses."""

    config: Config
    world: World
    loaded: LoadedModel
    server: PolicyServer
    policy: str
    """The policy that is evaluated: the learner's weights, or those of the leader of a league."""
    learner: Learner
    estimator: Estimator
    make_agent: AgentFactory
    """Makes agents of the run's own world, as they are evaluated."""
    training_agent_factory: Callable[[int], AgentFactory]
    """The agent factory for training at a step; with a teacher or tutor where the config has one."""
    tutor: Tutor
    has_teacher: bool
    """Whether a teacher plays in training."""
    splits: tuple[Split, ...]
    resources: StepResources

    def is_tutored(self, task: Task, step: int) -> bool:
        """Whether the notes of a task are the tutor's and not learned; those of a teacher's trials are."""
        return not self.has_teacher and self.tutor.is_active(task, step)

    @property
    def engine(self) -> Engine:
        """The engine of the policy that is evaluated."""
        return self.server.policy(self.policy)

    async def publish(self, step: int) -> None:
        """Publish the learner's weights to the server and reset its prefix cache."""
        await self.server.publish(self.policy, self.learner.weights(), step)
        self.server.reset_cache()

    def evaluated_agents(self, world: World) -> tuple[AgentFactory, AgentFactory]:
        """Agents of a world, which may be a split's own, and the control: the same weights without memory."""
        chat_format, agent = self.loaded.chat_format, self.config.agent
        how = (agent_settings(agent), agent_settings(agent.model_copy(update={"memory": Memory.NONE})))
        with_memory, without = (language_agent_factory(world, self.engine, chat_format, each) for each in how)
        return with_memory, without

    def tasks(self, num: int, *path: str | int) -> list[Task]:
        """The first `num` tasks of the random stream `path`."""
        return list(islice(draw_tasks(self.config, *path), num))

    async def play(self, tasks: Sequence[Task], size: int) -> list[Group]:
        """Play `size` siblings of every task with agents as they are evaluated; raises where all trials failed."""
        with self.resources.playing():
            groups = await play_groups(self.world, tasks, size, self.make_agent, concurrency=CONCURRENCY)
        self.raise_if_all_failed(groups)
        return groups

    def raise_if_all_failed(self, groups: Sequence[Group]) -> None:
        """Raise a PlayError if there are failures and no trial succeeded."""
        failures = [failure for group in groups for failure in group.failures]
        if failures and not any(group.trials for group in groups):
            said = "the only trial failed" if len(failures) == 1 else f"all {len(failures)} trials failed; the first"
            raise PlayError(f"{said}: {failures[0].error}: {failures[0].message}")

    def return_spec(self, task: Task, credit: CreditConfig | None = None) -> ReturnSpec:
        """What a task's returns are computed by; `credit` overrides the config's."""
        return return_spec_of(credit or self.config.credit, load_world(task.world).info.turns)

    def credit(
        self,
        groups: Sequence[Group],
        learner: str = LEARNER,
        opponents: Sequence[str] | None = None,
        credit: CreditConfig | None = None,
    ) -> list[CreditGroup]:
        """Groups as numbers for the estimator, with values where it uses them; `opponents` are their names."""
        names = [opponent_name(group.task) for group in groups] if opponents is None else opponents
        return [
            credit_group(group, self.return_spec(group.task, credit), name, learner, values)
            for group, name, values in zip(groups, names, self._values(groups), strict=True)
        ]

    def _values(self, groups: Sequence[Group]) -> list[list[list[float]] | None]:
        """The value head's output by group, trial and turn, computed for all trials together."""
        if not self.learner.has_values:
            return [None for _ in groups]
        trials = [trial for group in groups for trial in group.trials]
        samples = [_value_samples(trial) for trial in trials]
        values = iter(self.learner.values([sample for own in samples for sample in own]))
        found = [
            _turn_values(trial, [(sample, next(values)) for sample in own])
            for trial, own in zip(trials, samples, strict=True)
        ]
        by_trial = iter(found)
        return [[next(by_trial) for _ in group.trials] for group in groups]


def _value_samples(trial: Trial) -> list[Sample]:
    turns = agent_turns(trial)
    return to_samples(trial, turns, [0.0] * len(turns), [0.0] * len(turns))


def _turn_values(trial: Trial, token_values: Sequence[tuple[Sample, list[float]]]) -> list[float]:
    """The value before each turn's first trained token; a turn without trained tokens gets the next turn's value."""
    by_turn: dict[int, float] = {}
    for sample, values in token_values:
        for turn, value in zip(sample.turns, values, strict=True):
            by_turn.setdefault(turn, value)
    found: list[float] = []
    for number in reversed(range(len(agent_turns(trial)))):
        found.append(by_turn.get(number, found[-1] if found else 0.0))
    return found[::-1]


def opponent_name(task: Task) -> str:
    """The opponents or the level of a task in keys of statistics: procedural members by their family."""
    return " + ".join(family(spec) for spec in task.opponents) or task.level


def return_spec_of(credit: CreditConfig, turns: int = 0) -> ReturnSpec:
    """The objective, discounts and penalties of a config; `turns` is `WorldInfo.turns`."""
    return ReturnSpec(
        objective=credit.objective,
        turn=credit.turn,
        episode=credit.episode,
        invalid=credit.invalid_penalty,
        overlong=credit.truncated_penalty,
        length=credit.length_penalty,
        free=credit.length_free,
        to_go=credit.to_go,
        turns=turns,
    )


def evaluated_policy(config: Config) -> str:
    """The name of the policy that is evaluated.

    It is served beside those of a league's learners. Only where a league has one learner that is a whole model, and no
    snapshots, is the learner's own policy evaluated, which saves an engine.
    """
    is_alone = config.league.learners == 1 and not config.league.snapshot_every and not config.learner.lora_rank
    return learner_member(0).id if is_alone else LEARNER


def build_parts(
    config: Config,
    model_cache: ModelCache | None = None,
    learning: LearnerSettings | None = None,
    tokenizer: Path | None = None,
) -> Parts:
    """Load the model, or take it from a cache, and build all parts.

    `learning` overrides the learner's settings, for weights that are only played with: the config may then have values
    that cannot train, such as a temperature of 0. `tokenizer` is the directory of the tokenizer of a run that goes on.
    """
    check(config)
    check_splits(config)
    learning = learning or learner_settings(config)
    placement = resolve_placement(config.device, config.dtype)
    configure_torch(placement)
    estimator = make_estimator(config.credit.estimator, config.credit.options)
    teacher = teacher_for(config, estimator)
    splits = evaluated_splits(config)
    loaded, server = (model_cache.get if model_cache is not None else model_and_server)(config, tokenizer)
    for spec in worlds_of(config):
        check_words(loaded, spec)
    threads = max(1, (config.threads or num_cores()) // learning.config.ranks)
    learning = replace(learning, workers=share_threads(loaded.model, threads), device=placement.device)
    needs_values = getattr(estimator, "needs_values", False)
    learner = make_learner(
        config.learner.kind, loaded.model, learning, with_values=needs_values, imitates=teacher is not None
    )
    world = load_world(config.world)
    length = server.limits.length
    if config.agent.context > length:
        raise ConfigError(f"agent.context = {config.agent.context}: {loaded.name} has room for {length} tokens")
    policy = evaluated_policy(config)
    engine = server.policy(policy)
    how = agent_settings(config.agent)
    gc.collect()
    gc.freeze()  # these objects live as long as the run: leave them out of garbage collections
    return Parts(
        config=config,
        world=world,
        loaded=loaded,
        server=server,
        policy=policy,
        learner=learner,
        estimator=estimator,
        make_agent=language_agent_factory(world, engine, loaded.chat_format, how),
        training_agent_factory=training_agents(config, engine, loaded.chat_format, teacher),
        tutor=tutor_of(config),
        has_teacher=teacher is not None,
        splits=splits,
        resources=StepResources(server),
    )


def tutor_of(config: Config) -> Tutor:
    """The tutor of a config, which may have no steps."""
    return Tutor(config.agent.tutor, config.agent.tutor_steps, config.agent.tutor_fade)


def teacher_for(config: Config, estimator: Estimator) -> AgentFactory | None:
    """The teacher that plays in training, where the estimator names one."""
    return teacher_of(config, estimator.teacher, estimator.noise) if isinstance(estimator, Cloning) else None


def training_agents(
    config: Config, engine: Engine, chat_format: ChatFormat, teacher: AgentFactory | None
) -> Callable[[int], AgentFactory]:
    """The agent factory for training at a step; with a teacher or tutor where the config has one."""
    world, how, tutor = load_world(config.world), agent_settings(config.agent), tutor_of(config)
    if teacher is not None:
        return partial(taught_agent_factory, world, chat_format, how, teacher, tutor)
    return lambda step: language_agent_factory(world, engine, chat_format, how, tutor.rewrite(step))
