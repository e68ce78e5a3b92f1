"""The effect of reflections: the same tasks with the agent's own, without, and with others in their place.

Tasks, deals, opponents' draws and sampling seeds are the same in all arms; only the agent's memory differs. An agent
that scores the same without its reflections, or with those of another trial, does not use them; one that scores the
same with their first words does not use the rest; one that scores the same with a plain record of the episodes gains
nothing by writing them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mage.agents.language import Rewrite, as_written
from mage.errors import ConfigError
from mage.evaluation.exact import References
from mage.evaluation.splits import Split, SplitKind
from mage.evaluation.suite.averaging import Averaging
from mage.evaluation.suite.evaluate import Play, paired_trials, play_all, split_averaging, split_references
from mage.evaluation.suite.metrics import mean_scores
from mage.evaluation.suite.notes_alone import NotesAlone, measure_notes, readers
from mage.evaluation.suite.opponent_naming import Naming, measure_naming
from mage.grouped import Units
from mage.protocols import AgentFactory, World
from mage.seeds import uniform
from mage.stats import Estimate
from mage.types import Failure, Observation, Reply, Task, Trial, Turn

WORDS = 5
"""Words of a shortened reflection, by default."""

FactoryWithRewrite = Callable[[Rewrite], AgentFactory]
"""Makes a factory of the evaluated agent whose reflections are rewritten."""


class ReflectionReport(msgspec.Struct, frozen=True):
    """An agent's scores on a split with its own reflections, without, and with others in their place."""

    split: str
    kind: SplitKind
    sha256: str
    world: str
    episodes: int
    seats: tuple[int, ...]
    num_trials: int
    failures: int
    """Tasks that failed in one of the arms; they are left out of all."""
    kept: tuple[Estimate, ...]
    """score@k with the agent's own reflections."""
    removed: tuple[Estimate, ...]
    """score@k without reflections in memory."""
    swapped: tuple[Estimate, ...]
    """score@k with the reflections of a trial against other opponents."""
    history: tuple[Estimate, ...]
    """score@k with memory `history` and no reflections."""
    over_removed: tuple[Estimate, ...]
    """Kept minus removed in each episode, paired by trial."""
    over_swapped: tuple[Estimate, ...]
    """Kept minus swapped in each episode, paired by trial."""
    over_history: tuple[Estimate, ...]
    """Kept minus history in each episode, paired by trial."""
    next_over_removed: Estimate
    """Kept minus removed, averaged over all episodes but the first, paired by trial: the effect of a reflection on the
    next episode. Earlier reflections differ too, except in the second episode."""
    next_over_swapped: Estimate
    """The same for kept minus swapped."""
    next_over_history: Estimate
    """The same for kept minus history."""
    naming: Naming | None
    """How often reflections name the opponent's family; None where that is not defined."""
    references: tuple[tuple[int, References], ...]
    """Exact values by seat."""
    units: Units = Units.TRIALS
    """What the intervals are over. Files written before have the default, here and below."""
    words: int = 0
    """Words that shortened reflections have at most."""
    shortened: tuple[Estimate, ...] = ()
    """score@k with only the first words of each of the agent's own reflections."""
    over_shortened: tuple[Estimate, ...] = ()
    """Kept minus shortened in each episode, paired by trial."""
    next_over_shortened: Estimate | None = None
    """The same over all episodes but the first."""
    alone: NotesAlone | None = None
    """The last episode with the reflections as the only memory."""


async def evaluate_reflections(
    world: World,
    factory_with: FactoryWithRewrite,
    history: AgentFactory,
    alone: AgentFactory,
    split: Split,
    tasks: Sequence[Task],
    *,
    words: int = WORDS,
    play: Play = play_all,
) -> ReflectionReport:
    """Play the tasks in seven arms and compare their scores.

    `history` and `alone` make the same model with memory `history` and `reflections`. The arms are `kept`, `removed`,
    `swapped`, `shortened`, `history`, and the last episode alone as `reader` and `blank`.
    """

    async def play_arm(arm: str, some: Sequence[Task], make_agent: AgentFactory) -> list[Trial | Failure]:
        return await play(arm, world, [(task, 0) for task in some], make_agent)

    check_swaps(tasks)
    (own,) = paired_trials(await play_arm("kept", tasks, factory_with(as_written)))
    if any(len(t.reflections) < t.task.episodes - 1 for t in own):
        raise ConfigError("there are no reflections to evaluate; they need agent.memory=reflections or both")
    again = [trial.task for trial in own]
    lent = {task: own[place].reflections for task, place in zip(again, swap_partners(again), strict=True)}
    others = {
        "removed": factory_with(drop_reflection),
        "swapped": factory_with(swap_reflections(lent)),
        "shortened": factory_with(shorten_reflection(words)),
        "history": history,
        "reader": readers(alone, own, is_blank=False),
        "blank": readers(alone, own, is_blank=True),
    }
    arms = paired_trials(own, *[await play_arm(arm, again, make_agent) for arm, make_agent in others.items()])
    return _report(world, split, tasks, words, dict(zip(("kept", *others), arms, strict=True)))


def _report(
    world: World, split: Split, tasks: Sequence[Task], words: int, arms: Mapping[str, Sequence[Trial]]
) -> ReflectionReport:
    """The report of trials by arm, which are aligned by task."""
    kept, averaging = arms["kept"], split_averaging(world, split)
    seats = tuple(sorted({task.seat for task in tasks}))

    def over(arm: str) -> tuple[Estimate, ...]:
        return _differences(kept, arms[arm], averaging)

    def next_over(arm: str) -> Estimate:
        return _next_episode_difference(kept, arms[arm], averaging)

    return ReflectionReport(
        split=split.name,
        kind=split.kind,
        sha256=split.sha256,
        world=split.world,
        episodes=tasks[0].episodes,
        seats=seats,
        num_trials=len(kept),
        failures=len(tasks) - len(kept),
        kept=mean_scores(kept, averaging),
        removed=mean_scores(arms["removed"], averaging),
        swapped=mean_scores(arms["swapped"], averaging),
        history=mean_scores(arms["history"], averaging),
        over_removed=over("removed"),
        over_swapped=over("swapped"),
        over_history=over("history"),
        next_over_removed=next_over("removed"),
        next_over_swapped=next_over("swapped"),
        next_over_history=next_over("history"),
        naming=measure_naming(kept, averaging),
        references=split_references(split, seats, tasks[0].episodes),
        units=averaging.units,
        words=words,
        shortened=mean_scores(arms["shortened"], averaging),
        over_shortened=over("shortened"),
        next_over_shortened=next_over("shortened"),
        alone=measure_notes(kept, arms["reader"], arms["blank"], averaging),
    )


def check_swaps(tasks: Sequence[Task]) -> None:
    """Raise `ConfigError` on tasks with a single episode, or with no other members to swap reflections with."""
    if tasks[0].episodes < 2:
        raise ConfigError("there are no reflections to evaluate in 1 episode; they need at least 2")
    swap_partners(tasks)


def drop_reflection(task: Task, outcome: Observation, reflection: Reply) -> Reply | None:
    """A `Rewrite` that keeps no reflection in memory."""
    return None


def shorten_reflection(words: int) -> Rewrite:
    """A `Rewrite` that keeps the first words of each reflection; one with no more words is kept as it was sampled."""

    def shortened(task: Task, outcome: Observation, reflection: Reply) -> Reply | None:
        first = re.match(rf"(?:\s*\S+){{0,{words}}}", reflection.action or "")
        note = first[0] if first else ""
        return reflection if note == reflection.action else Reply(note, note, ())

    return shortened


def swap_reflections(lent: Mapping[Task, Sequence[Turn]]) -> Rewrite:
    """A `Rewrite` that replaces the reflections of each task by those in `lent`."""

    def instead(task: Task, outcome: Observation, reflection: Reply) -> Reply | None:
        turn = lent[task][outcome.episode]
        return Reply(turn.action, turn.text, turn.calls)

    return instead


def swap_partners(tasks: Sequence[Task]) -> list[int]:
    """For each task the index of one with the same seat and other members; a function of the tasks alone.

    Where every member has as many tasks, each task is lent to exactly one other. The distance of the two members in
    the list is drawn for every repetition, because neighbours are often alike. Tasks without members, whose seeds draw
    what is hidden, are swapped with any other.
    """
    places: dict[int, dict[tuple[str, ...], list[int]]] = {}
    for place, task in enumerate(tasks):
        places.setdefault(task.seat, {}).setdefault(task.members or (str(task.seed),), []).append(place)
    found = [0] * len(tasks)
    for seat, by_opponents in places.items():
        lists = list(by_opponents.values())
        if len(lists) < 2:
            raise ConfigError(f"reflections are swapped between opponents or levels, and seat {seat} has only one")
        for number, own in enumerate(lists):
            for repetition, place in enumerate(own):
                apart = 1 + int(uniform(seat, "swap", repetition) * (len(lists) - 1))
                others = lists[(number + apart) % len(lists)]
                found[place] = others[repetition % len(others)]
    return found


def _differences(some: Sequence[Trial], others: Sequence[Trial], averaging: Averaging) -> tuple[Estimate, ...]:
    """Mean difference of scores by episode, paired by trial."""
    return tuple(averaging.gap(some, differences) for differences in zip(*_by_trial(some, others), strict=True))


def _next_episode_difference(some: Sequence[Trial], others: Sequence[Trial], averaging: Averaging) -> Estimate:
    """Mean difference of scores over the episodes that follow a reflection, paired by trial."""
    gaps = [sum(differences[1:]) / len(differences[1:]) for differences in _by_trial(some, others)]
    return averaging.gap(some, gaps)


def _by_trial(some: Sequence[Trial], others: Sequence[Trial]) -> list[list[float]]:
    return [
        [a - b for a, b in zip(one.scores, other.scores, strict=True)] for one, other in zip(some, others, strict=True)
    ]
