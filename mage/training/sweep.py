"""Sweeps: several recipes with several seeds, and with several values of one setting, in one plan.

    runs/…-sweep-rps/
        sweep.json                 the plan: every run with its whole config
        rps-seed0/ rps-seed1/ …    ordinary runs
        ended.jsonl                how each run ended, a line when it did
        summary.json summary.txt   results, rewritten after each run
        dial.json dial.png         where a setting is varied: scores against its value, and what is exact

Runs are made one after another in this process, or side by side in processes of their own. In one process the model,
the engine with its captured graphs and compiled functions are shared by runs with the same model, device and dtype. On
a CPU every run is bit-identical to one of `mage train`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
from rich.console import Console

from mage.config.compose import label_of
from mage.config.schema import Config
from mage.config.vary import Scalar, VariedSetting, value_text, with_value
from mage.errors import ConfigError, RecordError
from mage.files import JsonLines, read_lines, remove_unfinished, try_lock, write_atomically
from mage.models.device import check_processes
from mage.plugins import import_recorded, keep_plugins
from mage.runs.console import as_text, say
from mage.runs.drawings import shown
from mage.runs.new_directory import check_empty, new_run_path
from mage.runs.sweep_plan import SCHEMA, SWEEP, PlannedRun, SweepPlan, read_plan
from mage.training.config_paths import with_absolute_paths
from mage.training.model_cache import ModelCache
from mage.training.start import check_start
from mage.training.sweep_dial_plot import write_dial
from mage.training.sweep_jobs import run_side_by_side
from mage.training.sweep_run import Outcome, log_path, run_or_record_failure
from mage.training.sweep_summary import (
    RunEnd,
    RunState,
    SweepRun,
    SweepSummary,
    minutes_of,
    scores_of,
    summarise_recipes,
)
from mage.training.sweep_tables import full_table

ENDED, SUMMARY, TABLE = "ended.jsonl", "summary.json", "summary.txt"
_UNSAFE = re.compile(r"[^\w.+=-]+")
"""Characters of a value that are replaced in the name of a run."""


def plan_sweep(
    recipes: Sequence[tuple[str, Config]],
    num_seeds: int,
    max_minutes: float | None,
    vary: VariedSetting | None = None,
) -> SweepPlan:
    """A plan of every recipe and value with `num_seeds` consecutive seeds, from its own on; all configs are checked."""
    if not recipes or num_seeds < 1:
        raise ConfigError("a sweep needs at least one recipe and one seed")
    names = [label_of(recipe) for recipe, _ in recipes]
    if len(set(names)) < len(names):
        raise ConfigError(f"recipes of a sweep need different names, not {', '.join(names)}")
    runs: list[PlannedRun] = []
    for name, (_, config) in zip(names, recipes, strict=True):
        for varied, at_value in _values(name, config, vary):
            check_start(at_value)
            for seed in range(config.seed, config.seed + num_seeds):
                own = with_absolute_paths(at_value).model_copy(update={"seed": seed}).model_dump(mode="json")
                runs.append(PlannedRun(_run_name(name, varied, seed), name, own, varied or msgspec.UNSET))
    if len({run.name for run in runs}) < len(runs):
        raise ConfigError(f"the names of runs would be the same: {', '.join(run.name for run in runs)}")
    return SweepPlan(SCHEMA, tuple(runs), max_minutes)


def _values(name: str, config: Config, vary: VariedSetting | None) -> Iterator[tuple[dict[str, Scalar], Config]]:
    """The config at each value, with the value by its key; the config as it is where nothing is varied."""
    if vary is None:
        yield {}, config
        return
    if not config.evaluation.splits:
        raise ConfigError(f"{name}: evaluation.splits = []: scores against {vary.key} need a split to evaluate on")
    for value in vary.values:
        yield {vary.key: value}, with_value(config, vary.key, value, name)


def _run_name(recipe: str, varied: dict[str, Scalar], seed: int) -> str:
    """The directory of a run.

    >>> _run_name("scout+final", {"world.look": -0.4}, 0)
    'scout+final-look=-0.4-seed0'
    """
    values = [f"{key.rpartition('.')[2]}={value_text(value)}" for key, value in varied.items()]
    return "-".join([recipe, *(_UNSAFE.sub("_", value) for value in values), f"seed{seed}"])


def begin_sweep(
    recipes: Sequence[tuple[str, Config]],
    num_seeds: int,
    folder: Path | None,
    max_minutes: float | None,
    vary: VariedSetting | None = None,
) -> Path:
    """Plan a sweep and write the plan to a new directory, under `runs` where no folder is named; return it."""
    plan = plan_sweep(recipes, num_seeds, max_minutes, vary)
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
        raise RecordError(f"cannot create {folder}: {error.strerror or error}") from error


def run_sweep(folder: Path, console: Console, jobs: int = 1) -> SweepSummary:
    """Run what is left of a sweep, `jobs` runs at a time, until it is done or the user interrupts; write the results.

    A run that fails is recorded, and the next one starts. The first interrupt finishes the step and saves, the second
    raises `KeyboardInterrupt`; a resumed sweep continues there.
    """
    if jobs < 1:
        raise ConfigError(f"jobs = {jobs}: allowed are whole numbers from 1")
    check_processes(f"jobs = {jobs}", jobs)
    plan = read_plan(folder)
    import_recorded(folder, plan.plugins or (), say)
    with _locked(folder):
        remove_unfinished(folder)
        known = _run_ends(folder)
        left = [
            (number, planned)
            for number, planned in enumerate(plan.runs, start=1)
            if planned.name not in known or known[planned.name].state is RunState.FAILED
        ]
        is_interrupted = False
        with closing(_outcomes(folder, plan, left, jobs, console)) as outcomes:
            for outcome in outcomes:
                _record(folder, outcome)
                found = msgspec.json.format(msgspec.json.encode(summarise(folder)), indent=1)
                write_atomically(folder / SUMMARY, found)
                is_interrupted |= outcome.is_interrupted
        summary = summarise(folder)
        dial = None if is_interrupted else write_dial(folder, plan, summary)
        write_atomically(folder / TABLE, as_text(full_table(summary, dial)).encode())
        return summary


def _outcomes(
    folder: Path, plan: SweepPlan, left: Sequence[tuple[int, PlannedRun]], jobs: int, console: Console
) -> Generator[Outcome]:
    """Make the runs that are left; no more are begun after an interrupt."""
    titles = {planned.name: f"run {number} of {len(plan.runs)}: {planned.name}" for number, planned in left}
    if jobs > 1:
        yield from run_side_by_side(folder, titles, jobs, console)
        return
    model_cache = ModelCache()
    for _, planned in left:
        console.print(shown(titles[planned.name], "bold"))
        outcome = run_or_record_failure(folder / planned.name, planned, plan.max_minutes, model_cache, console)
        yield outcome
        if outcome.is_interrupted:
            return


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
        varied=planned.varied,
        **scores_of(path, known)._asdict(),
    )


def _run_ends(folder: Path) -> dict[str, RunEnd]:
    """The last recorded end of each run."""
    found = (msgspec.convert(line, RunEnd) for line in read_lines(folder / ENDED))
    return {ended.name: ended for ended in found}


def _record(folder: Path, outcome: Outcome) -> None:
    """Record how a run ended."""
    ended = outcome.ended
    if ended is None:
        return
    if ended.state is not RunState.FAILED:
        log_path(folder, ended.name).unlink(missing_ok=True)
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
