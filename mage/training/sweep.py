"""Sweeps: several recipes with several seeds, one run after another in one process.

    runs/…-sweep-rps/
        sweep.json                 the plan: every run with its whole config
        rps-seed0/ rps-seed1/ …    ordinary runs
        ended.jsonl                how each run ended, a line when it did
        summary.json summary.txt   results, rewritten after each run

The model, the engine with its captured graphs and compiled functions are shared by runs with the same model, device
and dtype. On a CPU every run is bit-identical to one in a process of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console

from mage.aio import run_sync
from mage.config.compose import label_of
from mage.config.load import validated
from mage.config.schema import Config
from mage.errors import ConfigError, MageError, RecordError
from mage.evaluation.suite.report import evaluation_report, to_json
from mage.files import JsonLines, read_lines, try_lock, write_atomically
from mage.plugins import import_recorded, keep_plugins
from mage.runs.console import as_text, say
from mage.runs.drawings import shown
from mage.runs.store import RUN, check_empty, new_run_path
from mage.runs.sweep_plan import SCHEMA, SWEEP, PlannedRun, SweepPlan, read_plan
from mage.training.checkpoint import checkpoints, load_checkpoint
from mage.training.loop import evaluate
from mage.training.model_cache import ModelCache
from mage.training.parts import Parts, build_parts
from mage.training.resume_changes import config_of
from mage.training.run import check_start, create_run, stored_tokenizer, train_run
from mage.training.sweep_summary import (
    RunEnd,
    RunState,
    SweepRun,
    SweepSummary,
    minutes_of,
    scores_of,
    summarise_recipes,
    sweep_table,
)

ENDED, SUMMARY, TABLE = "ended.jsonl", "summary.json", "summary.txt"


class _Outcome(NamedTuple):
    ended: RunEnd | None
    """None where a resumed sweep continues the run."""
    is_interrupted: bool


def plan_sweep(recipes: Sequence[tuple[str, Config]], num_seeds: int, max_minutes: float | None) -> SweepPlan:
    """A plan of every recipe with `num_seeds` consecutive seeds, from its own on; all configs are checked."""
    if not recipes or num_seeds < 1:
        raise ConfigError("a sweep needs at least one recipe and one seed")
    names = [label_of(recipe) for recipe, _ in recipes]
    if len(set(names)) < len(names):
        raise ConfigError(f"recipes of a sweep need different names, not {', '.join(names)}")
    runs: list[PlannedRun] = []
    for name, (_, config) in zip(names, recipes, strict=True):
        check_start(config)
        for seed in range(config.seed, config.seed + num_seeds):
            own = config.model_copy(update={"seed": seed})
            runs.append(PlannedRun(f"{name}-seed{seed}", name, own.model_dump(mode="json")))
    return SweepPlan(SCHEMA, tuple(runs), max_minutes)


def begin_sweep(
    recipes: Sequence[tuple[str, Config]], num_seeds: int, folder: Path | None, max_minutes: float | None
) -> Path:
    """Plan a sweep and write the plan to a new directory, under `runs` where no folder is named; return it."""
    plan = plan_sweep(recipes, num_seeds, max_minutes)
    path = folder or new_run_path("sweep", "-".join(label_of(recipe) for recipe, _ in recipes))
    make_sweep(path, plan)
    return path


def make_sweep(folder: Path, plan: SweepPlan) -> None:
    """Write a plan, with the plugins of this process, to a new or empty directory."""
    check_empty(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        plan = msgspec.structs.replace(plan, plugins=keep_plugins(folder) or msgspec.UNSET)
        write_atomically(folder / SWEEP, msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")
    except OSError as error:
        raise RecordError(f"cannot create {folder}: {error.strerror or error}") from None


def run_sweep(folder: Path, console: Console) -> SweepSummary:
    """Run what is left of a sweep, until it is done or the user interrupts, and write the summary.

    A run that fails is recorded, and the next one starts. The first interrupt finishes the step and saves, the second
    raises `KeyboardInterrupt`; a resumed sweep continues there.
    """
    plan = read_plan(folder)
    import_recorded(folder, plan.plugins or (), say)
    with _locked(folder):
        model_cache = ModelCache()
        for number, planned in enumerate(plan.runs, start=1):
            known = _run_ends(folder).get(planned.name)
            if known is not None and known.state is not RunState.FAILED:
                continue
            console.print(shown(f"run {number} of {len(plan.runs)}: {planned.name}", "bold"))
            outcome = _run_or_record_failure(folder / planned.name, planned, plan.max_minutes, model_cache, console)
            if outcome.ended is not None:
                _append_end(folder, outcome.ended)
            write_atomically(folder / SUMMARY, msgspec.json.format(msgspec.json.encode(summarise(folder)), indent=1))
            if outcome.is_interrupted:
                break
        summary = summarise(folder)
        write_atomically(folder / TABLE, as_text(sweep_table(summary)).encode())
        return summary


def summarise(folder: Path) -> SweepSummary:
    """The current summary of a sweep."""
    ended = _run_ends(folder)
    runs = tuple(_run_summary(folder / run.name, run, ended.get(run.name)) for run in read_plan(folder).runs)
    return SweepSummary(runs, summarise_recipes(runs))


def _run_summary(path: Path, planned: PlannedRun, ended: RunEnd | None) -> SweepRun:
    known = ended or RunEnd(planned.name, RunState.OPEN, 0, "")
    return SweepRun(
        name=planned.name,
        recipe=planned.recipe,
        seed=planned.config["seed"],
        state=known.state,
        error=known.error,
        step=known.step,
        steps=planned.config["steps"],
        minutes=minutes_of(path),
        **scores_of(path, known)._asdict(),
    )


def _run_or_record_failure(
    path: Path, planned: PlannedRun, max_minutes: float | None, model_cache: ModelCache, console: Console
) -> _Outcome:
    """Start or resume one run; a MageError other than a ConfigError becomes its outcome, so that the sweep goes on."""
    try:
        return _run(path, planned, max_minutes, model_cache, console)
    except ConfigError:
        raise
    except MageError as error:
        said = " ".join(str(error).split())
        console.print(shown(f"{planned.name} failed: {said}", "red"), soft_wrap=True)
        return _Outcome(RunEnd(planned.name, RunState.FAILED, 0, said), is_interrupted=False)


def _run(
    path: Path, planned: PlannedRun, max_minutes: float | None, model_cache: ModelCache, console: Console
) -> _Outcome:
    config, parts = _parts(path, planned, model_cache)
    left = None if max_minutes is None else max_minutes - minutes_of(path)
    is_interrupted = False
    if left is None or left > 0 or not checkpoints(path / "checkpoints"):
        recorder = train_run(path, console, None if left is None else max(left, 0.0), parts=parts)
        is_interrupted = recorder.is_interrupted
        if recorder.is_finished:
            return _Outcome(RunEnd(planned.name, RunState.FINISHED, recorder.step, ""), is_interrupted)
    if is_interrupted:
        return _Outcome(None, is_interrupted)
    step = _evaluate_stopped(path, config, parts)
    return _Outcome(RunEnd(planned.name, RunState.STOPPED, step, ""), is_interrupted=False)


def _parts(path: Path, planned: PlannedRun, model_cache: ModelCache) -> tuple[Config, Parts]:
    """The config and parts of a run, which is created where it does not exist."""
    if (path / RUN).exists():
        config = config_of(path)
        return config, build_parts(config, model_cache, tokenizer=stored_tokenizer(path))
    if path.exists():  # killed while it was created
        shutil.rmtree(path)
    config = validated(planned.config, planned.name)
    return config, create_run(config, path, planned.name, model_cache)[1]


def _evaluate_stopped(path: Path, config: Config, parts: Parts) -> int:
    """Run the final evaluation on the newest weights of a run that stopped early; return their step."""
    step = load_checkpoint(checkpoints(path / "checkpoints")[-1], parts.learner).step
    reports = run_sync(evaluate(parts, step, config.evaluation.final_trials))
    (path / "evaluations").mkdir(exist_ok=True)
    target = path / "evaluations" / f"step-{step:06d}.json"
    write_atomically(target, to_json(evaluation_report(reports, config, step)))
    return step


def _run_ends(folder: Path) -> dict[str, RunEnd]:
    """The last recorded end of each run."""
    found = (msgspec.convert(line, RunEnd) for line in read_lines(folder / ENDED))
    return {ended.name: ended for ended in found}


def _append_end(folder: Path, ended: RunEnd) -> None:
    log = JsonLines(folder / ENDED)
    log.append(ended)
    log.close()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a sweep for this process."""
    with (folder / SWEEP).open("rb") as file:
        if not try_lock(file):
            raise RecordError(f"{folder} is being written by another process")
        yield
