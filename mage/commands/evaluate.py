"""`mage evaluate`: judge anybody, write down every trial and one report, and print a table."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from rich.console import Console
from rich.progress import Progress

from mage.commands.terminal import say_saved
from mage.config import validated
from mage.engines.address import PREFIX, key_name, read_address
from mage.engines.budget import Budget, spending
from mage.engines.remote import CONCURRENCY as REMOTE_CONCURRENCY
from mage.engines.remote import Patience
from mage.errors import MageError
from mage.evaluate.journal import Journal, Journaled, progress_bar
from mage.evaluate.plan import Plan, make_plan, read_plan
from mage.evaluate.reflections import ReflectionReport, judge_reflections
from mage.evaluate.report import EvaluationReport, evaluation_report, to_json
from mage.evaluate.splits import Split
from mage.evaluate.subject import Subject, subject_of
from mage.evaluate.suite import CONCURRENCY, Play, SplitReport, judge
from mage.evaluate.table import evaluation_table, reflections_table
from mage.games.world import OpenSpielWorld
from mage.players.table import TALKERS
from mage.record.draw import shown
from mage.record.files import JsonLines, write_atomically
from mage.record.store import fresh_path
from mage.spec import parse_spec
from mage.types import Memory
from mage.waiting import finish

T = TypeVar("T")

REPORT, REFLECTIONS, USAGE = "report.json", "reflections.json", "usage.jsonl"
_NAME_LENGTH = 60


@dataclass(frozen=True)
class Means:
    """What an evaluation may take. Nothing that comes out depends on it."""

    concurrency: int | None = None
    """Trials under way at once; by default few with a remote model and many with any other."""
    max_calls: int | None = None
    max_tokens: int | None = None
    """Of remote models, read and written."""
    timeout_s: float | None = None
    """Of one remote call."""

    def subject(self, agent: str, values: Mapping[str, object]) -> Subject:
        """Who is judged; a remote model is asked as often at once as trials are under way."""
        patience = Patience() if self.timeout_s is None else Patience(timeout_s=self.timeout_s)
        return subject_of(agent, values, patience=patience, concurrency=self.concurrency or REMOTE_CONCURRENCY)

    def spending(self) -> AbstractContextManager[None]:
        """While it lasts, remote models are asked no more than this."""
        return spending(Budget(self.max_calls, self.max_tokens))

    def num_trials(self, subject: Subject) -> int:
        """Trials under way at once."""
        return self.concurrency or (REMOTE_CONCURRENCY if subject.kind == "remote" else CONCURRENCY)


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
    _say_where_the_key_goes(plan)
    _judge_and_print(subject, plan, begun(subject, plan, out), means, console)
    return 0


def resume_evaluation(folder: Path, console: Console, *, retry_failed: bool = False, means: Means | None = None) -> int:
    """Go on with an evaluation and print the table. Returns the exit code."""
    means = means or Means()
    plan = read_plan(folder)
    config = validated(plan.config, str(folder))
    subject = replace(means.subject(plan.agent, plan.values), config=config)
    _say_where_the_key_goes(plan)
    journal = Journal.reopen(folder, forget_failures=retry_failed)
    _judge_and_print(subject, plan, journal, means, console)
    return 0


def begun(subject: Subject, plan: Plan, out: Path | None) -> Journal:
    """A new evaluation, in `out`, or in the run that the subject comes from, or under runs/."""
    path = out or _fresh(subject)
    return Journal.create(path, msgspec.to_builtins(plan), subject.config.evaluation.seed)


def scores(subject: Subject, plan: Plan, journal: Journal, means: Means) -> EvaluationReport[SplitReport]:
    """Judge somebody on all splits, with memory and without."""
    return _judged(subject, plan, journal, means, partial(_scores, subject, plan))


def _fresh(subject: Subject) -> Path:
    if subject.run is not None:
        return fresh_path("evaluate", f"step-{subject.step:06d}", subject.run / "evaluations")
    name = Path(subject.name).name if subject.kind == "model" else subject.name
    return fresh_path("evaluate", name[:_NAME_LENGTH])


def _judge_and_print(subject: Subject, plan: Plan, journal: Journal, means: Means, console: Console) -> None:
    if plan.reflections:
        notes = _judged(subject, plan, journal, means, partial(_reflections, subject, plan))
        console.print(reflections_table(notes.reports))
    else:
        found = scores(subject, plan, journal, means)
        console.print(evaluation_table(found.reports, found.seconds))
    say_saved(console, journal.path, " [N]")


def _judged(
    subject: Subject, plan: Plan, journal: Journal, means: Means, judge_on: Callable[[Split, Play], Awaitable[T]]
) -> EvaluationReport[T]:
    """Play what is not in the journal, split by split, and write the report."""
    budget = Budget(means.max_calls, means.max_tokens)

    async def all_reports(bar: Progress) -> list[T]:
        concurrency = means.num_trials(subject)
        plays = [Journaled(journal, split.name, concurrency=concurrency, bar=bar) for split in plan.splits]
        return [await judge_on(split, play) for split, play in zip(plan.splits, plays, strict=True)]

    try:
        with journal, progress_bar() as bar, spending(budget):
            reports = finish(all_reports(bar))
    except (MageError, KeyboardInterrupt):
        if not journal.discard_if_empty():
            _say(f"what was played is saved; go on with  mage evaluate --resume {journal.path}")
        raise
    finally:
        _write_usage(journal.path, budget)
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


def _write_usage(path: Path, budget: Budget) -> None:
    """What remote models were asked by this process, on a line of its own."""
    if budget.calls and path.is_dir():
        log = JsonLines(path / USAGE)
        log.append({"calls": budget.calls, "tokens": budget.tokens})
        log.close()


def _say_where_the_key_goes(plan: Plan) -> None:
    """A split from elsewhere may name a server too."""
    say_where_the_key_goes([plan.agent, *(member for split in plan.splits for member in split.members)])


def say_where_the_key_goes(agents: Sequence[str]) -> None:
    """A secret leaves this machine only with a word about it."""
    urls = {read_address(agent).url for agent in agents if agent.startswith(PREFIX)}
    urls |= {str(parse_spec(a).named["url"]) for a in agents if a.startswith(tuple(f"{name}(" for name in TALKERS))}
    key = key_name(os.environ)
    if urls and key is not None:
        _say(f"the key in {key} is sent to {', '.join(sorted(urls))}")


def _say(sentence: str) -> None:
    Console(stderr=True).print(shown(sentence, "dim"), soft_wrap=True)
