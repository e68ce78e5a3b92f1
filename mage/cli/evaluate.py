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

from mage.aio import run_sync
from mage.cli.resource_limits import ResourceLimits, at_work, say_where_the_key_goes
from mage.cli.terminal import say_saved
from mage.config.load import validated
from mage.evaluation.eval_agent import EvalAgent
from mage.evaluation.plan import EvaluationPlan, make_plan, read_plan
from mage.evaluation.splits import Split
from mage.evaluation.suite.evaluate import Play, SplitReport, evaluate_split
from mage.evaluation.suite.reflections import ReflectionReport, evaluate_reflections
from mage.evaluation.suite.report import REFLECTIONS, REPORT, EvaluationReport, evaluation_report, to_json
from mage.evaluation.suite.report_tables import evaluation_table, reflections_table, setup_text
from mage.evaluation.trial_log import LoggedPlay, TrialLog
from mage.files import write_atomically
from mage.runs.drawings import shown
from mage.runs.store import TOKENIZER, new_run_path
from mage.types import Memory
from mage.worlds.openspiel.world import OpenSpielWorld

T = TypeVar("T")

_MOST_NAMES = 4
"""Opponents of a split that are named above the tables; of more the number is told."""


def run_evaluation(
    agent: str,
    console: Console,
    *,
    world: str | None = None,
    opponents: Sequence[str] = (),
    trials: int | None = None,
    values: Mapping[str, object] | None = None,
    reflections: bool = False,
    out: Path | None = None,
    means: ResourceLimits | None = None,
) -> int:
    """Judge somebody in a new directory and print the table. Returns the exit code."""
    means = means or ResourceLimits()
    eval_agent = means.eval_agent(agent, values or {})
    plan = make_plan(
        eval_agent, world=world, opponents=opponents, trials=trials, values=values, reflections=reflections
    )
    say_where_the_key_goes(_everyone(plan))
    _evaluate_and_print(eval_agent, plan, begun(eval_agent, plan, out), means, console)
    return 0


def resume_evaluation(
    folder: Path, console: Console, *, retry_failed: bool = False, means: ResourceLimits | None = None
) -> int:
    """Go on with an evaluation and print the table. Returns the exit code."""
    means = means or ResourceLimits()
    plan = read_plan(folder)
    config = validated(plan.config, str(folder))
    eval_agent = replace(means.eval_agent(plan.agent, plan.values), config=config, name=plan.name)
    say_where_the_key_goes(_everyone(plan))
    trial_log = TrialLog.reopen(folder, forget_failures=retry_failed)
    _evaluate_and_print(eval_agent, plan, trial_log, means, console)
    return 0


def begun(eval_agent: EvalAgent, plan: EvaluationPlan, out: Path | None) -> TrialLog:
    """A new evaluation, in `out`, or in the run that the subject comes from, or under runs/."""
    path = out or _fresh(eval_agent)
    trial_log = TrialLog.create(path, msgspec.to_builtins(plan), eval_agent.config.evaluation.seed)
    is_below_run = eval_agent.run is not None and path.resolve().is_relative_to(eval_agent.run.resolve())
    if eval_agent.save_tokenizer is not None and not is_below_run:
        eval_agent.save_tokenizer(path / TOKENIZER)  # a run has it already; elsewhere nobody could read the tokens
    return trial_log


def scores(
    eval_agent: EvalAgent, plan: EvaluationPlan, trial_log: TrialLog, means: ResourceLimits
) -> EvaluationReport[SplitReport]:
    """Judge somebody on all splits, with memory and without."""
    return _evaluated(eval_agent, plan, trial_log, means, partial(_scores, eval_agent, plan))


def _fresh(eval_agent: EvalAgent) -> Path:
    if eval_agent.run is not None:
        return new_run_path("evaluate", f"step-{eval_agent.step:06d}", eval_agent.run / "evaluations")
    return new_run_path("evaluate", eval_agent.file_name)


def _evaluate_and_print(
    eval_agent: EvalAgent, plan: EvaluationPlan, trial_log: TrialLog, means: ResourceLimits, console: Console
) -> None:
    if plan.reflections:
        notes = _evaluated(eval_agent, plan, trial_log, means, partial(_reflections, eval_agent, plan))
        table = reflections_table(notes.reports)
    else:
        found = scores(eval_agent, plan, trial_log, means)
        table = evaluation_table(found.reports, found.seconds)
    console.print(Group(*_headlines(eval_agent, plan), Text(), table))
    say_saved(console, trial_log.path, " [N]")


def _headlines(eval_agent: EvalAgent, plan: EvaluationPlan) -> Iterator[Text]:
    """Who was judged, and on what."""
    how = eval_agent.config.agent
    told = f", {how.method}, memory {how.memory}, {how.reply} replies" if eval_agent.is_model else ""
    yield shown(f"{eval_agent.name}{told}", "bold")
    for split in plan.splits:
        num = len(split.members)
        whom = ", ".join(split.members) if num <= _MOST_NAMES else f"{num} opponents"
        episodes = plan.tasks(eval_agent, split)[0].episodes
        yield shown(f"{split.name}: {whom}; {setup_text(split.world, episodes, plan.seats(eval_agent, split))}", "dim")


def _evaluated(
    eval_agent: EvalAgent,
    plan: EvaluationPlan,
    trial_log: TrialLog,
    means: ResourceLimits,
    evaluate_on: Callable[[Split, Play], Awaitable[T]],
) -> EvaluationReport[T]:
    """Play what is not in the journal, split by split, and write the report."""

    async def all_reports(bar: Progress) -> list[T]:
        concurrency = means.num_trials(_everyone(plan))
        plays = [LoggedPlay(trial_log, split.name, concurrency=concurrency, bar=bar) for split in plan.splits]
        return [await evaluate_on(split, play) for split, play in zip(plan.splits, plays, strict=True)]

    def go_on() -> str:
        return f"mage evaluate --resume {trial_log.path}" + (" --retry-failed" if trial_log.has_failures else "")

    with at_work(trial_log, means, go_on) as bar:
        reports = run_sync(all_reports(bar))
    return _written(eval_agent, plan, trial_log, reports)


async def _scores(eval_agent: EvalAgent, plan: EvaluationPlan, split: Split, play: Play) -> SplitReport:
    await eval_agent.refresh()
    world, who = OpenSpielWorld(), eval_agent.for_split(split)
    agent, control = who.make_agent(world), who.make_agent(world, Memory.NONE)
    return await evaluate_split(world, agent, control, split, plan.tasks(eval_agent, split), play=play)


async def _reflections(eval_agent: EvalAgent, plan: EvaluationPlan, split: Split, play: Play) -> ReflectionReport:
    await eval_agent.refresh()
    world = OpenSpielWorld()
    return await evaluate_reflections(
        world,
        lambda rewrite: eval_agent.make_agent(world, rewrite=rewrite),
        eval_agent.make_agent(world, Memory.HISTORY),
        split,
        plan.tasks(eval_agent, split),
        play=play,
    )


def _written(
    eval_agent: EvalAgent, plan: EvaluationPlan, trial_log: TrialLog, reports: Sequence[T]
) -> EvaluationReport[T]:
    """The report, on file in the evaluation, and in the run where it is judged as usual."""
    made = evaluation_report(
        reports,
        plan.report_config(eval_agent),
        eval_agent.step,
        eval_agent=eval_agent.describe(),
        seconds=trial_log.seconds,
    )
    report = msgspec.structs.replace(made, command=plan.command)
    content = to_json(report)
    write_atomically(trial_log.path / (REFLECTIONS if plan.reflections else REPORT), content)
    if plan.as_usual and eval_agent.run is not None:
        kind = "reflections" if plan.reflections else "step"
        write_atomically(eval_agent.run / "evaluations" / f"{kind}-{eval_agent.step:06d}.json", content)
    return report


def _everyone(plan: EvaluationPlan) -> list[str]:
    """Who is judged, and whom it meets: a split from elsewhere may name a server too."""
    return [plan.agent, *(member for split in plan.splits for member in split.members)]
