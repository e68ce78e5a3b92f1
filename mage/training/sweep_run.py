"""One run of a sweep: create or resume it, train it, evaluate it where it stopped early, record its failure."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from mage.aio import run_sync
from mage.config.load import recorded
from mage.config.schema import Config
from mage.errors import ConfigError, MageError
from mage.evaluation.suite.report import evaluation_report, to_json
from mage.files import write_atomically
from mage.learners.settings import learner_settings
from mage.runs.drawings import shown
from mage.runs.store import RUN
from mage.runs.sweep_plan import PlannedRun
from mage.training.checkpoint import load_checkpoint, newest_checkpoint
from mage.training.loop import evaluate
from mage.training.model_cache import ModelCache
from mage.training.parts import Parts, build_parts
from mage.training.resume_changes import config_of
from mage.training.run import create_run, train_run
from mage.training.run_tokenizer import stored_tokenizer
from mage.training.sweep_summary import RunEnd, RunState, minutes_of


class Outcome(NamedTuple):
    """What came of a run."""

    ended: RunEnd | None
    """None where a resumed sweep continues the run."""
    is_interrupted: bool


def log_path(folder: Path, name: str) -> Path:
    """What the process of a run said, where it has one of its own; deleted once the run has not failed."""
    return folder / f"{name}.log"


def run_or_record_failure(
    path: Path, planned: PlannedRun, max_minutes: float | None, model_cache: ModelCache, console: Console
) -> Outcome:
    """Start or resume one run; a MageError other than a ConfigError becomes its outcome, so that the sweep goes on."""
    try:
        return _run(path, planned, max_minutes, model_cache, console)
    except ConfigError:
        raise
    except MageError as error:
        said = " ".join(str(error).split())
        console.print(shown(f"{planned.name} failed: {said}", "red"), soft_wrap=True)
        return Outcome(RunEnd(planned.name, RunState.FAILED, 0, said), is_interrupted=False)


def _run(
    path: Path, planned: PlannedRun, max_minutes: float | None, model_cache: ModelCache, console: Console
) -> Outcome:
    config, parts = _parts(path, planned, model_cache)
    left = None if max_minutes is None else max_minutes - minutes_of(path)
    is_interrupted = False
    if left is None or left > 0 or newest_checkpoint(path) is None:
        recorder = train_run(path, console, None if left is None else max(left, 0.0), parts=parts)
        is_interrupted = recorder.is_interrupted
        if recorder.is_finished:
            return Outcome(RunEnd(planned.name, RunState.FINISHED, recorder.step, ""), is_interrupted)
    if is_interrupted:
        return Outcome(None, is_interrupted)
    step = _evaluate_stopped(path, config, parts)
    return Outcome(RunEnd(planned.name, RunState.STOPPED, step, ""), is_interrupted=False)


def _parts(path: Path, planned: PlannedRun, model_cache: ModelCache) -> tuple[Config, Parts]:
    """The config and parts of a run, which is created where it does not exist."""
    if (path / RUN).exists():
        config = config_of(path)
        learning = learner_settings(config, is_continued=newest_checkpoint(path) is not None)
        return config, build_parts(config, model_cache, learning, stored_tokenizer(path))
    if path.exists():  # killed while it was created
        shutil.rmtree(path)
    config = recorded(planned.config, planned.name)
    return config, create_run(config, path, planned.name, model_cache)[1]


def _evaluate_stopped(path: Path, config: Config, parts: Parts) -> int:
    """Run the final evaluation on the newest weights of a run that stopped early; return their step."""
    saved = newest_checkpoint(path)
    assert saved is not None  # training ends with one
    step = load_checkpoint(saved, parts.learner).step
    reports = run_sync(evaluate(parts, step, config.evaluation.final_trials))
    (path / "evaluations").mkdir(exist_ok=True)
    target = path / "evaluations" / f"step-{step:06d}.json"
    write_atomically(target, to_json(evaluation_report(reports, config, step)))
    return step
