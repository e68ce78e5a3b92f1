"""Create, train, resume and interrupt a training run; load its weights."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console

from mage.aio import run_sync
from mage.config.load import replaced
from mage.config.schema import Config
from mage.errors import RecordError
from mage.learners.load_weights import DivergedError, RankError
from mage.learners.settings import learner_settings
from mage.learners.state_files import check_folder
from mage.models.device import SMALL_MODEL, num_cores, resolve_placement
from mage.models.hosts import named_by
from mage.runs.new_directory import new_run_path
from mage.runs.run_plugins import record_plugins
from mage.runs.store import TOKENIZER, Change, RunWriter
from mage.shortage import ShortagesAsErrors
from mage.training.build import check_access_of
from mage.training.checkpoint import load_checkpoint, newest_checkpoint, read_state
from mage.training.combinations import check_divergence, refuse_explored
from mage.training.config_paths import check_model_is_there, with_absolute_paths
from mage.training.display import LiveDisplay, PlainDisplay
from mage.training.loop import train
from mage.training.model_cache import ModelCache
from mage.training.parts import Parts, build_parts
from mage.training.recorder import RunRecorder
from mage.training.resume_changes import changed_config, config_of, keep_splits, record_changes
from mage.training.run_tokenizer import keep_tokenizer, stored_tokenizer
from mage.training.setup import Setup, set_up
from mage.training.start import check_new_run, check_start
from mage.types import Device, Thoughts

_STRIP_WARNING = (
    "agent.thoughts = strip: each answer with a thought begins a new stream, so reading and learning cost the square "
    "of what they cost with keep"
)


_LAG_WARNING = (
    "rollout.lag = {lag} without rollout.workers: older weights play, and nothing is faster, because one process plays "
    "and learns in turn"
)
_CPU_WARNING = (
    "device = auto: PyTorch finds no GPU here, and a model of {millions:,.0f} million parameters learns slowly on a "
    "CPU; mage plan says how long a step takes"
)
_USUAL_LR = 1e-3
"""The highest learning rate that is advised after a divergence."""


def create_run_directory(config: Config, folder: Path) -> None:
    """Create the directory of a new run, without loading a model."""
    check_start(config)
    _make(with_threads(with_absolute_paths(config)), folder)


def with_threads(config: Config) -> Config:
    """The config with the number of threads that is recorded: by default one for each core."""
    return config if config.threads else replaced(config, {"threads": num_cores()}, "threads")


def create_run(
    config: Config, folder: Path | None, label: str, model_cache: ModelCache | None = None
) -> tuple[Path, Parts]:
    """Build the parts of a new run, then create its directory, by default under `runs`; a failure leaves none."""
    config = with_threads(with_absolute_paths(config))
    check_new_run(folder, config)
    parts = build_parts(config, model_cache)
    path = new_run_path("train", label) if folder is None else folder
    _make(config, path)
    keep_tokenizer(path, parts.loaded)  # for the viewer, before the first checkpoint
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

    A finished run is left unchanged. The first interrupt, by SIGINT or SIGTERM, finishes the step and saves; the second
    raises `KeyboardInterrupt`, and a resumed run continues from its last checkpoint. `values` are settings to
    change; `parts` are those that `create_run` built.
    """
    config, changes = changed_config(folder, values or {})
    with named_by(str(folder)):
        check_access_of(config)
    check_divergence(config)  # earlier versions began runs that are refused now
    if changes:
        check_start(config)
        refuse_explored(config, [change.key for change in changes])
    with ShortagesAsErrors(lambda: f"what was saved stays; go on with: mage train --resume {quote(str(folder))}"):
        try:
            if parts is None:
                check_model_is_there(config)
                learning = learner_settings(config, is_continued=newest_checkpoint(folder) is not None)
                parts = build_parts(config, learning=learning, tokenizer=stored_tokenizer(folder))
            return _train(folder, console, max_minutes, replace(parts, config=config), changes)
        except RankError as error:
            goes_on = f"what was saved stays; go on with: mage train --resume {quote(str(folder))}"
            raise RankError(f"{error}; {goes_on}") from None


def _train(
    folder: Path, console: Console, max_minutes: float | None, parts: Parts, changes: Sequence[Change]
) -> RunRecorder:
    config = parts.config
    display = (LiveDisplay if console.is_terminal else PlainDisplay)(console, config.steps)
    try:
        check_folder(folder, parts.learner)
        setup = set_up(parts, folder)
        recorder = RunRecorder(setup, folder, display, max_minutes)
        try:
            keep_splits(folder, config)  # where a kill came before it
            if keep_tokenizer(folder, parts.loaded) and recorder.step > 0:
                display.say(f"{folder / TOKENIZER} was missing or damaged; it was written anew")
            recorder.record_changes(record_changes(folder, changes, recorder.step))
            record_plugins(folder)
            if recorder.step == 0 and config.agent.thoughts is Thoughts.STRIP:
                recorder.warn(_STRIP_WARNING)
            if recorder.step == 0 and config.rollout.lag and not config.rollout.workers:
                recorder.warn(_LAG_WARNING.format(lag=config.rollout.lag))
            if recorder.step == 0 and (num := _num_slow(parts)):
                recorder.warn(_CPU_WARNING.format(millions=num / 1e6))
            with interruptible(recorder.interrupt):
                run_sync(_train_and_close(setup, recorder))
        except DivergedError as error:
            recorder.record_divergence(str(error))
            raise DivergedError(f"{error}; {way_out(folder, config)}") from None
        finally:
            recorder.close()
    finally:
        display.close()
    return recorder


def _num_slow(parts: Parts) -> int:
    """Parameters of a model that is too large for the CPU on which `device = auto` put it; 0 where there is none."""
    config = parts.config
    if config.device is not Device.AUTO or resolve_placement(config.device, config.dtype).device != "cpu":
        return 0
    num = sum(weight.numel() for weight in parts.loaded.model.parameters())
    return num if num >= SMALL_MODEL else 0


async def _train_and_close(setup: Setup, recorder: RunRecorder) -> None:
    """Train, and end the workers in the thread that started them: Ray's processes end with their thread."""
    try:
        await train(setup, recorder)
    finally:
        setup.ahead.close()
        setup.match_play.close()


def way_out(folder: Path, config: Config) -> str:
    """What to do about a run that diverged. All its checkpoints are from before: no update is saved unchecked."""
    lower = f"learner.lr={min(config.learner.lr / 10, _USUAL_LR):g}"
    if config.league.learners and "learner.lr" in config.league.explore:
        return f"begin a new run with {lower}: in this one each learner has its own, which cannot change"
    saved = newest_checkpoint(folder)
    start = f"step {read_state(saved).step}" if saved is not None else "the initial weights"
    return f"go on from {start} with: mage train --resume {quote(str(folder))} {lower}"


def load_run(
    folder: Path, checkpoint: Path | None = None, values: Mapping[str, object] | None = None
) -> tuple[Config, Parts, int]:
    """A run's config, its parts with the weights of a checkpoint, and the checkpoint's step.

    By default the newest checkpoint; `values` override settings of the run. One process is enough: nothing is learned.
    """
    own = config_of(folder)
    config = replaced(own, values or {}, str(folder))
    checkpoint = checkpoint or newest_checkpoint(folder)
    if checkpoint is None:
        raise RecordError(f"{folder} has no checkpoint yet")
    check_model_is_there(config)
    learning = learner_settings(replaced(own, {"learner.ranks": 1}, str(folder)), is_continued=True)
    parts = build_parts(config, learning=learning, tokenizer=stored_tokenizer(folder))
    return config, parts, load_checkpoint(checkpoint, parts.learner).step


@contextmanager
def interruptible(first: Callable[[], None]) -> Iterator[None]:
    """The first SIGINT or SIGTERM calls `first`; the second of a kind does what it did before, by default it ends.

    So a process that gets both, as where its parent passes an interrupt on, is not ended by the other. No effect
    outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_called = False

    def handle(signum: int, frame: object) -> None:
        nonlocal is_called
        signal.signal(signum, before[signum])
        if not is_called:
            is_called = True
            first()

    before: dict[int, Any] = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    for signum in before:
        signal.signal(signum, handle)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
