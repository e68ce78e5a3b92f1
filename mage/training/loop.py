"""The training loop.

Each step: draw tasks from the population; play sibling trials of each; compute returns and advantages; turn streams
into samples; update the weights and publish them to the engine.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mage.config.schema import Config
from mage.credit.dead_groups import split_dead, trained_groups
from mage.credit.estimators.base import Advantages
from mage.credit.running_stats import Stats
from mage.credit.steps import CreditGroup, agent_turns, trained_advantages
from mage.evaluation.splits import Split
from mage.evaluation.suite.evaluate import SplitReport, evaluate_split, evaluation_tasks
from mage.learners.samples import to_samples
from mage.seeds import derive
from mage.training.parts import Parts
from mage.training.recorder import RunRecorder
from mage.training.step_metrics import as_teacher_metrics, step_metrics
from mage.training.task_replay import PlayedTask, draw_replayed
from mage.types import DeadGroups, Failure, Group, Sample, Task, Trial


async def train(config: Config, parts: Parts, recorder: RunRecorder) -> None:
    """Run the remaining steps, with checkpoints and evaluations."""
    if recorder.step == 0:
        recorder.record_trial(await showcase(parts, 0))
    while not (recorder.is_finished or recorder.is_stopped):
        groups, metrics = await collect(config, parts, recorder.step, recorder.stats, recorder.played_tasks)
        credited = parts.credit(groups)
        advantages, stats = parts.estimator.estimate(credited, recorder.stats)
        live, dead = split_dead(advantages)
        metrics["groups/dead_share"] = len(dead) / len(groups)
        trained = trained_groups(live, dead, config.batch.dead)
        tutored = [number for number in trained if parts.tutor.is_active(groups[number].task, recorder.step)]
        recorder.transcribe_if_due(groups[0], credited[0], advantages[0], 0 in trained, 0 in tutored)
        if trained:
            metrics |= parts.learner.update(to_batch(groups, credited, advantages, trained, tutored))
        recorder.complete_step(stats, metrics, groups)
        if recorder.is_showcase_due:
            recorder.record_trial(await showcase(parts, recorder.step))
        if recorder.is_evaluation_due:
            recorder.record_evaluation(await evaluate(config, parts, recorder.step, config.evaluation.trials))
        recorder.save_if_due()
    if recorder.is_finished and not recorder.is_evaluated:
        recorder.record_trial(await showcase(parts, recorder.step))
        recorder.record_final_evaluation(await evaluate(config, parts, recorder.step, config.evaluation.final_trials))


async def collect(
    config: Config, parts: Parts, step: int, stats: Stats, played_tasks: Sequence[PlayedTask] = ()
) -> tuple[list[Group], dict[str, float]]:
    """Play a step's groups, of new and replayed tasks, then resample dead groups where the config says so."""
    batch = config.batch
    await parts.publish(step)
    replayed = draw_replayed(played_tasks, int(batch.replay * batch.groups), derive(config.seed, "revisits", step))
    drawn = parts.tasks(batch.groups - len(replayed), "tasks", step)
    first_siblings = [*(0 for _ in drawn), *(entry.siblings for entry in replayed)]
    groups = await parts.play([*drawn, *(entry.task for entry in replayed)], batch.size, step, first_siblings)
    if batch.dead is DeadGroups.RESAMPLE:
        dead = split_dead(parts.estimator.estimate(parts.credit(groups), stats)[0])[1]
        if dead:
            groups += await parts.play(parts.tasks(len(dead), "replacements", step, 0), batch.size, step)
    metrics = step_metrics(groups[: len(drawn)], groups, len(replayed))
    return groups, as_teacher_metrics(metrics) if parts.has_teacher else metrics


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


async def showcase(parts: Parts, step: int) -> Trial | Failure:
    """Play one trial of a task that is the same before, during and after training."""
    await parts.publish(step)
    (group,) = await parts.play(parts.tasks(1, "showcase"), 1)
    return group.trials[0] if group.trials else group.failures[0]


async def evaluate(config: Config, parts: Parts, step: int, trials: int) -> list[SplitReport]:
    """Evaluate the current weights on every split, with memory and without, on fixed tasks."""
    reports: list[SplitReport] = []
    for split in parts.splits:
        await parts.publish(step)
        tasks = tasks_of_split(config, split, trials)
        reports.append(await evaluate_split(parts.world, parts.make_agent, parts.make_control_agent, split, tasks))
    return reports


def tasks_of_split(config: Config, split: Split, trials: int) -> list[Task]:
    """The evaluation tasks of a split; a split's own number of episodes overrides the config's."""
    episodes = split.episodes or config.trial.episodes
    return evaluation_tasks(
        split, episodes=episodes, seats=config.trial.seats, trials=trials, seed=config.evaluation.seed
    )
