"""What reflections do: the same tasks with an agent's own reflections, with none, with others', with history instead.

Tasks, deals, opponents' draws and the seeds of sampling are the same throughout; only what the agent remembers
differs. An agent that is as good without its reflections, or with someone else's, does not use them; one that is as
good with a plain record of what happened gains nothing by writing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from mage.agents.language import Rewrite, as_written
from mage.errors import ConfigError
from mage.evaluation.exact import References
from mage.evaluation.splits import Split, SplitKind
from mage.evaluation.suite.evaluate import Play, paired_trials, play_all, split_references
from mage.evaluation.suite.metrics import mean_scores
from mage.evaluation.suite.naming import Naming, measure_naming
from mage.protocols import AgentFactory, World
from mage.seeds import uniform
from mage.stats import Estimate, mean
from mage.types import Failure, Observation, Reply, Task, Trial, Turn

FactoryWithRewrite = Callable[[Rewrite], AgentFactory]
"""Seats the agent that is judged, with its reflections rewritten."""


class ReflectionReport(msgspec.Struct, frozen=True):
    """An agent judged on a split with its own reflections, without any, with another trial's, with history instead."""

    split: str
    kind: SplitKind
    sha256: str
    world: str
    episodes: int
    seats: tuple[int, ...]
    num_trials: int
    failures: int
    """Tasks that could not be played in one of the four ways; they are left out of all."""
    kept: tuple[Estimate, ...]
    """score@k with what the agent wrote."""
    removed: tuple[Estimate, ...]
    """score@k when it remembers no reflection."""
    swapped: tuple[Estimate, ...]
    """score@k when it remembers what was written in a trial against other opponents."""
    history: tuple[Estimate, ...]
    """score@k when it writes nothing and remembers what happened instead."""
    over_removed: tuple[Estimate, ...]
    """Kept minus removed in each episode, paired by trial. The first episode has nothing to remember."""
    over_swapped: tuple[Estimate, ...]
    """Kept minus swapped in each episode, paired by trial."""
    over_history: tuple[Estimate, ...]
    """Kept minus history in each episode, paired by trial."""
    next_over_removed: Estimate
    """What a reflection is worth in the episode that follows it: kept minus removed, over all episodes but the first,
    paired by trial. What was remembered before that differs too, except in the second episode."""
    next_over_swapped: Estimate
    """The same for kept minus swapped."""
    next_over_history: Estimate
    """The same for kept minus history."""
    naming: Naming | None
    """How often reflections name the family of the opponent; None where it has no name."""
    references: tuple[tuple[int, References], ...]
    """Exact values by seat."""


async def evaluate_reflections(
    world: World,
    seated: FactoryWithRewrite,
    history: AgentFactory,
    split: Split,
    tasks: Sequence[Task],
    *,
    play: Play = play_all,
) -> ReflectionReport:
    """Play the tasks four times and report what the reflections were worth.

    `history` seats the same model with memory `history`. The arms are `kept`, `removed`, `swapped` and `history`.
    """

    async def played(arm: str, some: Sequence[Task], make_agent: AgentFactory) -> list[Trial | Failure]:
        return await play(arm, world, [(task, 0) for task in some], make_agent)

    check_swaps(tasks)
    (own,) = paired_trials(await played("kept", tasks, seated(as_written)))
    if any(len(t.reflections) < t.task.episodes - 1 for t in own):
        raise ConfigError("there are no reflections to judge; they need agent.memory=reflections or both")
    again = [trial.task for trial in own]
    lent = {task: own[place].reflections for task, place in zip(again, swap_partners(again), strict=True)}
    kept, removed, swapped, told = paired_trials(
        own,
        await played("removed", again, seated(drop_reflection)),
        await played("swapped", again, seated(swap_reflections(lent))),
        await played("history", again, history),
    )
    seats = tuple(sorted({task.seat for task in tasks}))
    return ReflectionReport(
        split=split.name,
        kind=split.kind,
        sha256=split.sha256,
        world=split.world,
        episodes=tasks[0].episodes,
        seats=seats,
        num_trials=len(kept),
        failures=len(tasks) - len(kept),
        kept=mean_scores(kept),
        removed=mean_scores(removed),
        swapped=mean_scores(swapped),
        history=mean_scores(told),
        over_removed=_differences(kept, removed),
        over_swapped=_differences(kept, swapped),
        over_history=_differences(kept, told),
        next_over_removed=_next_episode_difference(kept, removed),
        next_over_swapped=_next_episode_difference(kept, swapped),
        next_over_history=_next_episode_difference(kept, told),
        naming=measure_naming(kept),
        references=split_references(split, seats, tasks[0].episodes),
    )


def check_swaps(tasks: Sequence[Task]) -> None:
    """Fail now, with one line, on tasks in which there is nothing to reflect on, or nobody to swap with."""
    if tasks[0].episodes < 2:
        raise ConfigError("there are no reflections to judge in 1 episode; they need at least 2")
    swap_partners(tasks)


def drop_reflection(task: Task, outcome: Observation, reflection: Reply) -> Reply | None:
    """Remember no reflection."""
    return None


def swap_reflections(lent: Mapping[Task, Sequence[Turn]]) -> Rewrite:
    """Remember, in each task, the reflections that are lent to it."""

    def instead(task: Task, outcome: Observation, reflection: Reply) -> Reply | None:
        turn = lent[task][outcome.episode]
        return Reply(turn.action, turn.text, turn.calls)

    return instead


def swap_partners(tasks: Sequence[Task]) -> list[int]:
    """For each task the place of one with the same seat and other opponents, the same whenever the tasks are.

    Where every opponent is met equally often each task is lent to exactly one other. How far apart the two
    opponents stand in the list is drawn anew for every repetition: neighbours in a list are often alike.
    """
    places: dict[int, dict[tuple[str, ...], list[int]]] = {}
    for place, task in enumerate(tasks):
        places.setdefault(task.seat, {}).setdefault(task.opponents, []).append(place)
    found = [0] * len(tasks)
    for seat, by_opponents in places.items():
        lists = list(by_opponents.values())
        if len(lists) < 2:
            raise ConfigError(f"reflections are swapped between opponents, and seat {seat} meets only one")
        for number, own in enumerate(lists):
            for repetition, place in enumerate(own):
                apart = 1 + int(uniform(seat, "swap", repetition) * (len(lists) - 1))
                others = lists[(number + apart) % len(lists)]
                found[place] = others[repetition % len(others)]
    return found


def _differences(some: Sequence[Trial], others: Sequence[Trial]) -> tuple[Estimate, ...]:
    """Per episode the mean difference of scores, paired by trial."""
    return tuple(mean(differences) for differences in zip(*_by_trial(some, others), strict=True))


def _next_episode_difference(some: Sequence[Trial], others: Sequence[Trial]) -> Estimate:
    """The mean difference of scores over the episodes that follow a reflection, paired by trial."""
    return mean([sum(differences[1:]) / len(differences[1:]) for differences in _by_trial(some, others)])


def _by_trial(some: Sequence[Trial], others: Sequence[Trial]) -> list[list[float]]:
    return [
        [a - b for a, b in zip(one.scores, other.scores, strict=True)] for one, other in zip(some, others, strict=True)
    ]
