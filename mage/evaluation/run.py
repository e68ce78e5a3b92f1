"""An evaluation in its directory: play what is missing, log every trial and write one report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec
from rich.progress import Progress

from mage.aio import run_sync
from mage.config.load import recorded
from mage.evaluation.eval_agent import EvalAgent
from mage.evaluation.plan import EvaluationPlan, EvaluationRequest, make_plan, read_plan
from mage.evaluation.resource_limits import ResourceLimits, at_work, say_where_the_key_goes
from mage.evaluation.splits import Split, has_levels
from mage.evaluation.suite.evaluate import Play, SplitReport, evaluate_split
from mage.evaluation.suite.reflections import ReflectionReport, evaluate_reflections
from mage.evaluation.suite.report import REFLECTIONS, REPORT, EvaluationReport, evaluation_report, to_json
from mage.evaluation.trial_log import ResumablePlay, TrialLog
from mage.files import write_atomically, write_folder
from mage.models.hosts import named_by
from mage.opponents.remote import check_access_to
from mage.runs.new_directory import new_run_path
from mage.runs.run_plugins import import_plugins_of
from mage.runs.store import TOKENIZER
from mage.types import Memory
from mage.worlds.registry import load_world

T = TypeVar("T")


@dataclass(frozen=True)
class Evaluation:
    """An agent, the plan of its evaluation and the log of its trials."""

    eval_agent: EvalAgent
    plan: EvaluationPlan
    trial_log: TrialLog
    limits: ResourceLimits

    def scores(self) -> EvaluationReport[SplitReport]:
        """Evaluate the agent on all splits, with memory and without."""
        return self._report(self._scores)

    def reflections(self) -> EvaluationReport[ReflectionReport]:
        """Evaluate what the agent's reflections do, on all splits."""
        return self._report(self._reflections)

    def _report(self, evaluate_on: Callable[[Split, Play], Awaitable[T]]) -> EvaluationReport[T]:
        """Play what is not in the log, split by split, and write the report."""
        log, splits = self.trial_log, self.plan.splits

        async def all_reports(bar: Progress) -> list[T]:
            concurrency = self.limits.num_trials(_everyone(self.plan))
            plays = [ResumablePlay(log, split.name, concurrency=concurrency, bar=bar) for split in splits]
            return [await evaluate_on(split, play) for split, play in zip(splits, plays, strict=True)]

        def go_on() -> str:
            return f"mage evaluate --resume {log.path}" + (" --retry-failed" if log.has_failures else "")

        with at_work(log, self.limits, go_on) as bar:
            reports = run_sync(all_reports(bar))
        return self._written(reports)

    async def _scores(self, split: Split, play: Play) -> SplitReport:
        await self.eval_agent.refresh()
        world, eval_agent = load_world(split.world), self.eval_agent.for_split(split)
        agent, control = eval_agent.make_agent(world), eval_agent.make_agent(world, Memory.NONE)
        return await evaluate_split(world, agent, control, split, self.plan.tasks(self.eval_agent, split), play=play)

    async def _reflections(self, split: Split, play: Play) -> ReflectionReport:
        await self.eval_agent.refresh()
        world = load_world(split.world)
        return await evaluate_reflections(
            world,
            lambda rewrite: self.eval_agent.make_agent(world, rewrite=rewrite),
            self.eval_agent.make_agent(world, Memory.HISTORY),
            self.eval_agent.make_agent(world, Memory.REFLECTIONS),
            split,
            self.plan.tasks(self.eval_agent, split),
            words=self.plan.words,
            play=play,
        )

    def _written(self, reports: Sequence[T]) -> EvaluationReport[T]:
        """The report, written to the evaluation, and to the run where it is evaluated as usual."""
        agent, plan, log = self.eval_agent, self.plan, self.trial_log
        made = evaluation_report(
            reports, plan.report_config(agent), agent.step, eval_agent=agent.describe(), seconds=log.seconds
        )
        report = msgspec.structs.replace(made, command=plan.command)
        content = to_json(report)
        write_atomically(log.path / (REFLECTIONS if plan.reflections else REPORT), content)
        if plan.as_usual and agent.run is not None:
            kind = "reflections" if plan.reflections else "step"
            (agent.run / "evaluations").mkdir(exist_ok=True)
            write_atomically(agent.run / "evaluations" / f"{kind}-{agent.step:06d}.json", content)
        return report


def begin_evaluation(request: EvaluationRequest, out: Path | None, limits: ResourceLimits) -> Evaluation:
    """A new evaluation in `out`, or in the run that the agent comes from, or under runs/."""
    agent = limits.eval_agent(request.agent, request.values, request.worlds)
    plan = make_plan(agent, request)
    say_where_the_key_goes(_everyone(plan))
    return Evaluation(agent, plan, _new_log(agent, plan, out), limits)


def resume_evaluation(folder: Path, limits: ResourceLimits, *, retry_failed: bool = False) -> Evaluation:
    """An evaluation that was begun, by its plan; `retry_failed` plays trials that failed once more."""
    import_plugins_of(folder)
    plan = read_plan(folder)
    config = recorded(plan.config, str(folder))
    stored = folder / TOKENIZER if (folder / TOKENIZER).is_dir() else None
    with named_by(str(folder)):
        loaded = limits.eval_agent(plan.agent, plan.values, [split.world for split in plan.splits], stored)
        for split in plan.splits:
            check_access_to(split.members, f"the split {split.name!r}")
    agent = replace(loaded, config=config, name=plan.name)
    say_where_the_key_goes(_everyone(plan))
    trial_log = TrialLog.reopen(folder, forget_failures=retry_failed)
    _keep_tokenizer(agent, folder)  # where a kill came before it
    return Evaluation(agent, plan, trial_log, limits)


def _new_log(agent: EvalAgent, plan: EvaluationPlan, out: Path | None) -> TrialLog:
    path = out or _fresh(agent)
    trial_log = TrialLog.create(path, msgspec.to_builtins(plan), agent.config.evaluation.seed)
    _keep_tokenizer(agent, path)
    return trial_log


def _keep_tokenizer(agent: EvalAgent, path: Path) -> None:
    """Write the agent's tokenizer into an evaluation without one; below a run, which has it, it is not needed."""
    is_below_run = agent.run is not None and path.resolve().is_relative_to(agent.run.resolve())
    if agent.save_tokenizer is not None and not is_below_run and not (path / TOKENIZER).is_dir():
        write_folder(path / TOKENIZER, agent.save_tokenizer)


def _fresh(agent: EvalAgent) -> Path:
    if agent.run is not None:
        return new_run_path("evaluate", f"step-{agent.step:06d}", agent.run / "evaluations")
    return new_run_path("evaluate", agent.file_name)


def _everyone(plan: EvaluationPlan) -> list[str]:
    """The agent and all its opponents: a split from elsewhere may name a server too."""
    with_opponents = [split for split in plan.splits if not has_levels(split.world)]
    return [plan.agent, *(member for split in with_opponents for member in split.members)]
