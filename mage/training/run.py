"""Create, train, resume and interrupt a training run; load its weights."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from mage.aio import run_sync
from mage.config.load import replaced
from mage.config.schema import Config
from mage.errors import RecordError
from mage.models.device import resolve_placement
from mage.runs.run_plugins import record_plugins
from mage.runs.store import TOKENIZER, RunWriter, check_empty, new_run_path
from mage.runs.tracker import check_trackers
from mage.training.build import check, check_splits
from mage.training.checkpoint import checkpoints, load_checkpoint
from mage.training.display import LiveDisplay, PlainDisplay
from mage.training.league_loop import check_league, refuse_explored, sampler_of, train_league
from mage.training.league_policies import LeaguePolicies
from mage.training.league_recorder import LeagueRecorder
from mage.training.loop import train
from mage.training.model_cache import ModelCache
from mage.training.parts import Parts, build_parts, league_learners, learner_settings
from mage.training.recorder import Display, RunRecorder
from mage.training.resume_changes import changed_config, config_of, keep_splits, record_changes
from mage.types import Thoughts

_STRIP_WARNING = (
    "agent.thoughts = strip: each answer with a thought begins a new stream, so reading and learning cost the square "
    "of what they cost with keep"
)


def check_start(config: Config) -> None:
    """Raise a ConfigError for anything that would fail later, except for loading the model."""
    check(config)
    check_league(config)
    check_trackers(config.trackers)
    check_splits(config)
    resolve_placement(config.device, config.dtype)


def create_run_directory(config: Config, folder: Path) -> None:
    """Create the directory of a new run, without loading a model."""
    check_start(config)
    _make(config, folder)


def create_run(
    config: Config, folder: Path | None, label: str, model_cache: ModelCache | None = None
) -> tuple[Path, Parts]:
    """Build the parts of a new run, then create its directory, by default under `runs`; a failure leaves none."""
    check_start(config)
    if folder is not None:
        check_empty(folder)
    parts = build_parts(config, model_cache)
    path = new_run_path("train", label) if folder is None else folder
    _make(config, path)
    parts.loaded.tokenizer.save_pretrained(path / TOKENIZER)  # for the viewer, before the first checkpoint
    return path, parts


def _make(config: Config, folder: Path) -> None:
    RunWriter.create(folder, kind="train", config=config.model_dump(mode="json"), seed=config.seed).close()
    keep_splits(folder, config)


def train_run(
    folder: Path,
    console: Console,
    max_minutes: float | None = None,
    *,
    values: Mapping[str, object] | None = None,
    parts: Parts | None = None,
) -> RunRecorder:
    """Train until the steps are done, time is up, an alarm stops the run, or the user interrupts.

    A finished run is left unchanged. The first interrupt finishes the step and saves; the second raises
    `KeyboardInterrupt`, and a resumed run continues from its last checkpoint. `values` are settings to
    change; `parts` are those that `create_run` built.
    """
    config, changes = changed_config(folder, values or {})
    if changes:
        check_start(config)
        refuse_explored(config, [change.key for change in changes])
    parts = build_parts(config) if parts is None else replace(parts, config=config)
    display = (LiveDisplay if console.is_terminal else PlainDisplay)(console, config.steps)
    try:
        recorder, job = _prepared(config, folder, parts, display, max_minutes)
        try:
            recorder.record_changes(record_changes(folder, changes, recorder.step))
            record_plugins(folder)
            if recorder.step == 0 and config.agent.thoughts is Thoughts.STRIP:
                recorder.warn(_STRIP_WARNING)
            with interruptible(recorder.interrupt):
                run_sync(job())
        finally:
            recorder.close()
    finally:
        display.close()
    return recorder


def _prepared(
    config: Config, folder: Path, parts: Parts, display: Display, max_minutes: float | None
) -> tuple[RunRecorder, Callable[[], Coroutine[Any, Any, None]]]:
    """The recorder of a run and the coroutine function that trains it, with one learner or with a league."""
    if not config.league.learners:
        single = RunRecorder(config, folder, parts, display, max_minutes)
        return single, partial(train, config, parts, single)
    policies = LeaguePolicies(config, parts, league_learners(config))
    recorder = LeagueRecorder(config, folder, parts, policies, display, max_minutes)
    return recorder, partial(train_league, config, parts, policies, sampler_of(config), recorder)


def load_run(
    folder: Path, checkpoint: Path | None = None, values: Mapping[str, object] | None = None
) -> tuple[Config, Parts, int]:
    """A run's config, its parts with the weights of a checkpoint, and the checkpoint's step.

    By default the newest checkpoint; `values` override settings of the run.
    """
    own = config_of(folder)
    config = replaced(own, values or {}, str(folder))
    saved = checkpoints(folder / "checkpoints")
    if not saved:
        raise RecordError(f"{folder} has no checkpoint yet")
    parts = build_parts(config, learning=learner_settings(own))
    return config, parts, load_checkpoint(checkpoint or saved[-1], parts.learner).step


@contextmanager
def interruptible(first: Callable[[], None]) -> Iterator[None]:
    """The first interrupt calls `first`, the second raises KeyboardInterrupt. No effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(signum: int, frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        first()

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
