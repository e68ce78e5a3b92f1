"""A tiny model at the table: real parts, small enough that a step takes a fraction of a second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import torch

from mage.config.load import load_config
from mage.config.schema import Config
from mage.credit.running_stats import EMPTY, Stats
from mage.learners.batch import micro_batches
from mage.learners.local import LocalLearner
from mage.protocols import Learner
from mage.training import loop
from mage.training.loop import metrics_of, to_batch
from mage.training.match_play import LocalPlay
from mage.training.parts import LEARNER, Parts, build_parts
from mage.training.play_ahead import PlayAhead
from mage.training.run_learners import OneLearner
from mage.training.setup import Setup
from mage.training.task_replay import PlayedTask
from mage.training.task_sources import PopulationTasks, ReplayedTasks, SourceState, TaskSource
from mage.types import Group, Sample, Weight

MODEL = "nano(hidden=16,layers=1,heads=2,context=512)"
SMALL = (
    f"agent.model={MODEL}",
    "agent.context=512",
    "world=rps(rounds=2)",
    "population.split=",
    'population.members=["always:rock", "cycle(step=1)"]',
    "batch.groups=2",
    "batch.size=4",
    "batch.dead=drop",
    "evaluation.splits=[]",
    "trial.episodes=2",
    "learner.entropy_start=0.0",
    "learner.entropy_end=0.0",
    "learner.prediction_weight=0.0",
    "learner.token_budget=100000",
    "threads=1",
)


def tiny_config(*overrides: str) -> Config:
    """The recipe `rps`, made small."""
    return load_config("rps", (*SMALL, *overrides))


def tiny_parts(*overrides: str) -> Parts:
    """The parts of a small run."""
    return build_parts(tiny_config(*overrides))


def local(parts: Parts) -> LocalLearner:
    """The learner of the parts, which is the one that comes with mage."""
    assert isinstance(parts.learner, LocalLearner)
    return parts.learner


def model_of(parts: Parts) -> Any:
    """The model that is trained."""
    return local(parts).model


def sharpen(parts: Parts) -> Parts:
    """Make the first policy, which is close to uniform, prefer some tokens to others."""
    with torch.no_grad():
        model_of(parts).model.embed_tokens.weight.mul_(10.0)
    return parts


def play(parts: Parts, step: int = 0) -> list[Group]:
    """A step's groups, played with the learner's weights."""

    async def played() -> list[Group]:
        await parts.publish(step)
        return await parts.play(parts.tasks(parts.config.batch.groups, "tasks", step), parts.config.batch.size)

    return asyncio.run(played())


def collect(
    parts: Parts, step: int = 0, stats: Stats = EMPTY, known: Sequence[PlayedTask] = ()
) -> tuple[list[Group], dict[str, float]]:
    """A step's groups as the loop plays them, with `known` tasks to replay, and the metrics of their trials.

    Of a league's parts too: one learner plays the population.
    """
    source: TaskSource = PopulationTasks(parts.config)
    if parts.config.batch.replay:
        source = ReplayedTasks(parts.config, source)
    source.restore(SourceState({LEARNER: tuple(known)}))
    learners = OneLearner(parts)
    match_play = LocalPlay(parts, learners)
    ahead = PlayAhead(parts, learners.names, source, match_play)
    collected = asyncio.run(loop.collect(Setup(parts, learners, source, None, match_play, ahead), step, stats))
    return collected.groups, metrics_of(parts, collected.played)


def evaluated(parts: Parts, groups: Sequence[Group]) -> list[Sample]:
    """The samples of all groups, dead ones too, with the advantages of a first step."""
    credited = parts.credit(groups)
    advantages, _ = parts.estimator.estimate(credited, EMPTY)
    return to_batch(groups, credited, advantages, range(len(groups)))


def samples_of(parts: Parts, step: int = 0) -> list[Sample]:
    """The samples of a step."""
    return evaluated(parts, play(parts, step))


def with_advantage(sample: Sample, *advantages: float) -> Sample:
    """The same sample with other advantages, one for each trained token, or one for all."""
    num = len(sample.positions)
    return msgspec.structs.replace(sample, advantages=advantages if len(advantages) == num else advantages * num)


def read(learner: Learner, samples: Sequence[Sample]) -> tuple[list[list[float]], list[float]]:
    """The learner's log-probabilities by sample, and all entropies; samples must be given longest first."""
    lengths = [len(sample.tokens) for sample in samples]
    assert lengths == sorted(lengths, reverse=True)
    assert isinstance(learner, LocalLearner)
    (batch,) = micro_batches(samples, Weight.TOKEN, len(samples) * max(lengths))
    with torch.no_grad():
        logprobs_N, entropy_N = learner._policy.read(learner._policy.hidden(batch), batch)
    sizes = [len(sample.positions) for sample in samples]
    return [row.tolist() for row in torch.split(logprobs_N, sizes)], entropy_N.tolist()


def logprobs(learner: Learner, *samples: Sample) -> list[list[float]]:
    """The learner's log-probabilities of the trained tokens of each sample."""
    return [read(learner, [sample])[0][0] for sample in samples]
