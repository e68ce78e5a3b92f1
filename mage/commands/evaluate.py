"""`mage evaluate`: judge anybody, write down every trial and one report, and print a table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from rich.console import Console, Group
from rich.progress import Progress
from rich.text import Text

from mage.commands.means import Means, at_work, say_where_the_key_goes
from mage.commands.terminal import say_saved
from mage.config import validated
from mage.evaluate.journal import Journal, Journaled
from mage.evaluate.plan import Plan, make_plan, read_plan
from mage.evaluate.reflections import ReflectionReport, judge_reflections
from mage.evaluate.report import REFLECTIONS, REPORT, EvaluationReport, evaluation_report, to_json
from mage.evaluate.splits import Split
from mage.evaluate.subject import Subject
from mage.evaluate.suite import Play, SplitReport, judge
from mage.evaluate.table import evaluation_table, reflections_table, setting
from mage.games.world import OpenSpielWorld
from mage.record.draw import shown
from mage.record.files import write_atomically
from mage.record.store import TOKENIZER, fresh_path
from mage.types import Memory
from mage.waiting import finish

T = TypeVar("T")

_MOST_NAMES = 4
"""Opponents of a split that are named above the tables; of more the number is told."""


def run_evaluation(
    agent: str,
    console: Console,
    *,
    game: str | None = None,
    opponents: Sequence[str] = (),
    trials: int | None = None,
    values: Mapping[str, object] | None = None,
    reflections: bool = False,
    out: Path | None = None,
    means: Means | None = None,
) -> int:
    """Judge somebody in a new directory and print the table. Returns the exit code."""
    means = means or Means()
    subject = means.subject(agent, values or {})
    plan = make_plan(subject, game=game, opponents=opponents, trials=trials, values=values, reflections=reflections)
    say_where_the_key_goes(_everyone(plan))
    _judge_and_print(subject, plan, begun(subject, plan, out), means, console)
    return 0


def resume_evaluation(folder: Path, console: Console, *, retry_failed: bool = False, means: Means | None = None) -> int:
    """Go on with an evaluation and print the table. Returns the exit code."""
    means = means or Means()
    plan = read_plan(folder)
    config = validated(plan.config, str(folder))
    subject = replace(means.subject(plan.agent, plan.values), config=config, name=plan.name)
    say_where_the_key_goes(_everyone(plan))
    journal = Journal.reopen(folder, forget_failures=retry_failed)
    _judge_and_print(subject, plan, journal, means, console)
    return 0


def begun(subject: Subject, plan: Plan, out: Path | None) -> Journal:
    """A new evaluation, in `out`, or in the run that the subject comes from, or under runs/."""
    path = out or _fresh(subject)
    journal = Journal.create(path, msgspec.to_builtins(plan), subject.config.evaluation.seed)
    is_below_run = subject.run is not None and path.resolve().is_relative_to(subject.run.resolve())
    if subject.keep_tokenizer is not None and not is_below_run:
        subject.keep_tokenizer(path / TOKENIZER)  # a run has it already; elsewhere nobody could read the tokens
    return journal


def scores(subject: Subject, plan: Plan, journal: Journal, means: Means) -> EvaluationReport[SplitReport]:
    """Judge somebody on all splits, with memory and without."""
    return _judged(subject, plan, journal, means, partial(_scores, subject, plan))


def _fresh(subject: Subject) -> Path:
    if subject.run is not None:
        return fresh_path("evaluate", f"step-{subject.step:06d}", subject.run / "evaluations")
    return fresh_path("evaluate", subject.file_name)


def _judge_and_print(subject: Subject, plan: Plan, journal: Journal, means: Means, console: Console) -> None:
    if plan.reflections:
        notes = _judged(subject, plan, journal, means, partial(_reflections, subject, plan))
        table = reflections_table(notes.reports)
    else:
        found = scores(subject, plan, journal, means)
        table = evaluation_table(found.reports, found.seconds)
    console.print(Group(*_headlines(subject, plan), Text(), table))
    say_saved(console, journal.path, " [N]")


def _headlines(subject: Subject, plan: Plan) -> Iterator[Text]:
    """Who was judged, and on what."""
    how = subject.config.agent
    told = f", {how.method}, memory {how.memory}, {how.reply} replies" if subject.is_model else ""
    yield shown(f"{subject.name}{told}", "bold")
    for split in plan.splits:
        num = len(split.members)
        whom = ", ".join(split.members) if num <= _MOST_NAMES else f"{num} opponents"
        episodes = plan.tasks(subject, split)[0].episodes
        yield shown(f"{split.name}: {whom}; {setting(split.game, episodes, plan.seats(subject, split))}", "dim")


def _judged(
    subject: Subject, plan: Plan, journal: Journal, means: Means, judge_on: Callable[[Split, Play], Awaitable[T]]
) -> EvaluationReport[T]:
    """Play what is not in the journal, split by split, and write the report."""

    async def all_reports(bar: Progress) -> list[T]:
        concurrency = means.num_trials(_everyone(plan))
        plays = [Journaled(journal, split.name, concurrency=concurrency, bar=bar) for split in plan.splits]
        return [await judge_on(split, play) for split, play in zip(plan.splits, plays, strict=True)]

    def go_on() -> str:
        return f"mage evaluate --resume {journal.path}" + (" --retry-failed" if journal.has_failures else "")

    with at_work(journal, means, go_on) as bar:
        reports = finish(all_reports(bar))
    return _written(subject, plan, journal, reports)


async def _scores(subject: Subject, plan: Plan, split: Split, play: Play) -> SplitReport:
    await subject.refresh()
    world, who = OpenSpielWorld(), subject.expecting(split)
    agent, control = who.seating(world), who.seating(world, Memory.NONE)
    return await judge(world, agent, control, split, plan.tasks(subject, split), play=play)


async def _reflections(subject: Subject, plan: Plan, split: Split, play: Play) -> ReflectionReport:
    await subject.refresh()
    world = OpenSpielWorld()
    return await judge_reflections(
        world,
        lambda rewrite: subject.seating(world, rewrite=rewrite),
        subject.seating(world, Memory.HISTORY),
        split,
        plan.tasks(subject, split),
        play=play,
    )


def _written(subject: Subject, plan: Plan, journal: Journal, reports: Sequence[T]) -> EvaluationReport[T]:
    """The report, on file in the evaluation, and in the run where it is judged as usual."""
    made = evaluation_report(
        reports, plan.reported(subject), subject.step, subject=subject.describe(), seconds=journal.seconds
    )
    report = msgspec.structs.replace(made, command=plan.command)
    content = to_json(report)
    write_atomically(journal.path / (REFLECTIONS if plan.reflections else REPORT), content)
    if plan.as_usual and subject.run is not None:
        kind = "reflections" if plan.reflections else "step"
        write_atomically(subject.run / "evaluations" / f"{kind}-{subject.step:06d}.json", content)
    return report


def _everyone(plan: Plan) -> list[str]:
    """Who is judged, and whom it meets: a split from elsewhere may name a server too."""
    return [plan.agent, *(member for split in plan.splits for member in split.members)]
