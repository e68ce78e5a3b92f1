"""The training loop, for one learner or for the learners of a league.

Each step: the task source says what every learner plays; all matches are played together; returns and advantages are
computed with each learner's own settings; every learner is updated on its own groups. A league then takes snapshots,
and learners that are clearly worse copy a better one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mage.config.schema import Config
from mage.credit.dead_groups import split_dead, trained_groups
from mage.credit.estimators.base import Advantages
from mage.credit.estimators.checked import checked_estimate
from mage.credit.running_stats import Stats
from mage.credit.steps import CreditGroup, agent_turns, trained_advantages
from mage.evaluation.splits import Split
from mage.evaluation.suite.evaluate import Play, SplitReport, evaluate_split, evaluation_tasks, play_all
from mage.league.matches import Match, PlayedMatch, TaskOrigin
from mage.learners.load_weights import DivergedError
from mage.learners.samples import refuse_mixed, to_samples
from mage.protocols import AgentFactory, World
from mage.rollout.group import Job, play_trials
from mage.training.event_log import Display
from mage.training.parts import CONCURRENCY, LEARNER, Parts
from mage.training.recorder import RunRecorder
from mage.training.rise import RisingTrials
from mage.training.saved_on_error import SavedOnError
from mage.training.setup import Setup
from mage.training.step_metrics import as_teacher_metrics, lag_metrics, step_metrics, world_metrics
from mage.types import DeadGroups, Failure, Group, Sample, Task, Trial
from mage.worlds.registry import load_world

T = TypeVar("T")
_SHOWN_EVERY = 50
"""Trials of an evaluation that end before the number of those that have is shown again."""


async def train(setup: Setup, recorder: RunRecorder) -> None:
    """Run the remaining steps, with checkpoints and evaluations."""
    learners, evaluation = setup.learners, setup.parts.config.evaluation
    setup.match_play.listen(recorder.warn)
    recorder.display.phase("playing and learning from the first trials")
    await learners.prepare(recorder.step)
    if recorder.step == 0:
        recorder.record_trial(await showcase(setup, 0))
    while not (recorder.is_finished or recorder.is_stopped):
        with SavedOnError(recorder):
            collected = await collect(setup, recorder.step, recorder.stats)
        metrics = await learn_all(setup, recorder, collected)
        setup.source.update(recorder.step, collected.played)
        for name, measured in (await learners.measure(recorder.step)).items():
            metrics[name] |= measured
        recorder.complete_step(collected.stats, metrics, collected.played)
        await recorder.update_members()
        if recorder.is_showcase_due or recorder.is_evaluation_due:
            await setup.ahead.finish()
        if recorder.is_showcase_due:
            recorder.record_trial(await showcase(setup, recorder.step))
        if recorder.is_evaluation_due:
            shown = played_in_sight(recorder.display, "evaluating")
            recorder.record_evaluation(await evaluate_leader(setup, recorder.step, evaluation.trials, shown))
        if recorder.is_save_due:
            await setup.ahead.finish()
            recorder.save_if_due()
    if recorder.is_stopped and recorder.step > 0:  # the interrupt may have come after nothing was due
        await setup.ahead.finish()
        recorder.save_if_due()
    if recorder.is_finished and not recorder.is_evaluated:
        recorder.record_trial(await showcase(setup, recorder.step))
        rising = RisingTrials()
        shown = played_in_sight(recorder.display, "training is done; final evaluation", rising)
        reports = await evaluate_leader(setup, recorder.step, evaluation.final_trials, shown)
        rising.write(recorder.folder)  # before the report, which marks the run as finished
        recorder.record_final_evaluation(reports)


@dataclass(frozen=True)
class Collected:
    """Groups of a step, with what the estimator made of them; all in the same order."""

    played: Sequence[PlayedMatch]
    credited: Sequence[CreditGroup]
    advantages: Advantages
    stats: Stats

    @property
    def groups(self) -> list[Group]:
        return [one.group for one in self.played]

    def of(self, learner: str) -> Collected:
        """The groups of one learner."""
        mine = [number for number, one in enumerate(self.played) if one.learner == learner]
        return Collected(
            [self.played[number] for number in mine],
            [self.credited[number] for number in mine],
            tuple(self.advantages[number] for number in mine),
            self.stats,
        )


async def collect(setup: Setup, step: int, stats: Stats) -> Collected:
    """Publish the current weights, play a step's groups, then resample dead groups where the config says so.

    With `rollout.lag` the groups were played ahead. Those that replace dead ones are played now, with current weights.
    """
    batch, names = setup.parts.config.batch, setup.learners.names
    await setup.ahead.begin(step)
    played = await setup.ahead.take(step)
    setup.parts.raise_if_all_failed([one.group for one in played])
    collected = estimate(setup, played, stats)
    if batch.dead is not DeadGroups.RESAMPLE:
        return collected
    dead = {name: num_dead(collected.of(name)) for name in names}
    if not any(dead.values()):
        return collected
    more = await play(setup, setup.source.draw_replacements(step, dead), step)
    return estimate(setup, [*collected.played, *more], stats)


def num_dead(collected: Collected) -> int:
    """The number of dead groups among those that a learner itself drew."""
    pairs = zip(collected.advantages, collected.played, strict=True)
    return len(split_dead([advantages for advantages, one in pairs if one.is_drawn])[1])


async def play(setup: Setup, matches: Sequence[Match], step: int) -> list[PlayedMatch]:
    """Play all siblings of all matches concurrently."""
    parts = setup.parts
    with parts.resources.playing():
        played = await setup.match_play.play(matches, step)
    parts.raise_if_all_failed([one.group for one in played])
    return played


def estimate(setup: Setup, played: Sequence[PlayedMatch], stats: Stats) -> Collected:
    """The credit of the groups of all learners, estimated together."""
    parts, credited = setup.parts, setup.learners.credit(played)
    return Collected(
        played, credited, *checked_estimate(parts.config.credit.estimator, parts.estimator, credited, stats)
    )


async def learn_all(setup: Setup, recorder: RunRecorder, collected: Collected) -> dict[str, dict[str, float]]:
    """Update every learner on its own groups and return metrics by learner."""

    def learned() -> dict[str, dict[str, float]]:
        return {name: learn(setup, recorder, name, collected) for name in setup.learners.names}

    return await apart(setup, learned)


async def apart(setup: Setup, work: Callable[[], T]) -> T:
    """Do work, in a thread where trials are played meanwhile: this one hands them to workers."""
    return await asyncio.to_thread(work) if setup.ahead.overlaps else work()


def learn(setup: Setup, recorder: RunRecorder, learner: str, collected: Collected) -> dict[str, float]:
    """Update one learner on its own groups and return its metrics."""
    parts, own = setup.parts, collected.of(learner)
    groups = own.groups
    live, dead = split_dead(own.advantages)
    trained = trained_groups(live, dead, parts.config.batch.dead)
    tutored = [number for number in trained if parts.is_tutored(groups[number].task, recorder.step)]
    metrics = {**metrics_of(parts, own.played), "groups/dead_share": len(dead) / len(groups)}
    active = setup.learners.activate(learner)
    if learner == recorder.transcribed_learner:
        recorder.transcribe_if_due(groups[0], own.credited[0], own.advantages[0], 0 in trained, 0 in tutored)
    if trained:
        samples = to_batch(groups, own.credited, own.advantages, trained, tutored)
        if setup.ahead.lag:
            metrics |= lag_metrics(samples, recorder.step)
        else:
            refuse_mixed(samples)
        try:
            metrics |= active.update(samples)
        except DivergedError as error:
            raise DivergedError(str(error) if learner == LEARNER else f"{learner}: {error}") from None
    return metrics


def metrics_of(parts: Parts, played: Sequence[PlayedMatch]) -> dict[str, float]:
    """Metrics of the trials that a learner drew."""
    drawn = [one for one in played if one.is_drawn]
    new = [one.group for one in drawn if one.origin is TaskOrigin.DRAWN]
    num_replayed = sum(one.origin is TaskOrigin.REPLAYED for one in drawn)
    metrics = step_metrics(new, [one.group for one in drawn], num_replayed)
    if parts.config.schedule:
        metrics |= world_metrics(drawn[0].group.task.world, parts.config.schedule)
    return as_teacher_metrics(metrics) if parts.has_teacher else metrics


def to_batch(
    groups: Sequence[Group],
    credited: Sequence[CreditGroup],
    advantages: Advantages,
    trained: Sequence[int],
    tutored: Collection[int] = (),
) -> list[Sample]:
    """Samples of the groups numbered in `trained`. In `tutored` groups reflections have advantage zero."""
    samples: list[Sample] = []
    for number in trained:
        for trial, steps, found in zip(groups[number].trials, credited[number].trials, advantages[number], strict=True):
            own = trained_advantages(steps, found, is_tutored=number in tutored)
            samples += to_samples(trial, agent_turns(trial), own, [step.return_ for step in steps])
    return samples


async def showcase(setup: Setup, step: int) -> Trial | Failure:
    """Play one trial of a task that is the same before, during and after training, with the leader's weights."""
    parts = setup.parts
    setup.learners.activate(setup.learners.leader)
    await parts.publish(step)
    (group,) = await parts.play(parts.tasks(1, "showcase"), 1)
    return group.trials[0] if group.trials else group.failures[0]


async def evaluate_leader(setup: Setup, step: int, trials: int, play: Play) -> list[SplitReport]:
    """Evaluate the leader's current weights on every split."""
    setup.learners.activate(setup.learners.leader)
    return await evaluate(setup.parts, step, trials, play)


def played_in_sight(display: Display, title: str, rising: RisingTrials | None = None) -> Play:
    """A `Play` that shows which trials are under way, and how many have ended; `rising` chooses among the agent's."""

    async def play(arm: str, world: World, jobs: Sequence[Job], make_agent: AgentFactory) -> list[Trial | Failure]:
        how = "without memory" if arm == "control" else "with memory"
        outcomes: list[Trial | Failure] = []
        display.phase(title, f"{len(jobs)} trials in {jobs[0][0].world} {how}")
        async for outcome in play_trials(world, jobs, make_agent, concurrency=CONCURRENCY):
            outcomes.append(outcome)
            if len(outcomes) == len(jobs) or len(outcomes) % _SHOWN_EVERY == 0:
                display.phase(title, f"{len(outcomes)} of {len(jobs)} trials in {jobs[0][0].world} {how}")
        if rising is not None and arm == "agent":
            rising.add(outcomes)
        return outcomes

    return play


async def evaluate(parts: Parts, step: int, trials: int, play: Play = play_all) -> list[SplitReport]:
    """Evaluate the learner's weights on every split, with memory and without, on fixed tasks."""
    reports: list[SplitReport] = []
    if parts.splits:
        await parts.publish(step)
    for split in parts.splits:
        parts.server.reset_cache()  # a report does not depend on the splits before it
        tasks = tasks_of_split(parts.config, split, trials)
        world = load_world(split.world)
        reports.append(await evaluate_split(world, *parts.evaluated_agents(world), split, tasks, play=play))
    return reports


def tasks_of_split(config: Config, split: Split, trials: int) -> list[Task]:
    """The evaluation tasks of a split; a split's own number of episodes overrides the config's."""
    episodes = split.episodes or config.trial.episodes
    return evaluation_tasks(
        split, episodes=episodes, seats=config.trial.seats, trials=trials, seed=config.evaluation.seed
    )
