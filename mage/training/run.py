"""Create, train, resume and interrupt a training run; load its weights."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote

from rich.console import Console

from mage.aio import run_sync
from mage.config.load import replaced
from mage.config.schema import Config
from mage.errors import RecordError
from mage.learners.load_weights import DivergedError
from mage.models.device import num_cores
from mage.models.hosts import named_by
from mage.runs.run_plugins import record_plugins
from mage.runs.store import TOKENIZER, RunWriter, new_run_path
from mage.training.build import check_access_of
from mage.training.checkpoint import checkpoints, load_checkpoint, read_state
from mage.training.combinations import check_divergence, refuse_explored
from mage.training.display import LiveDisplay, PlainDisplay
from mage.training.loop import train
from mage.training.model_cache import ModelCache
from mage.training.parts import Parts, build_parts, learner_settings
from mage.training.recorder import RunRecorder
from mage.training.resume_changes import changed_config, config_of, keep_splits, record_changes
from mage.training.setup import set_up
from mage.training.start import check_new_run, check_start
from mage.types import Thoughts

_STRIP_WARNING = (
    "agent.thoughts = strip: each answer with a thought begins a new stream, so reading and learning cost the square "
    "of what they cost with keep"
)


_USUAL_LR = 1e-3
"""The highest learning rate that is advised after a divergence."""


def create_run_directory(config: Config, folder: Path) -> None:
    """Create the directory of a new run, without loading a model."""
    check_start(config)
    _make(with_threads(config), folder)


def with_threads(config: Config) -> Config:
    """The config with the number of threads that is recorded: by default one for each core."""
    return config if config.threads else replaced(config, {"threads": num_cores()}, "threads")


def create_run(
    config: Config, folder: Path | None, label: str, model_cache: ModelCache | None = None
) -> tuple[Path, Parts]:
    """Build the parts of a new run, then create its directory, by default under `runs`; a failure leaves none."""
    config = with_threads(config)
    check_new_run(folder, config)
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
    with named_by(str(folder)):
        check_access_of(config)
    check_divergence(config)  # earlier versions began runs that are refused now
    if changes:
        check_start(config)
        refuse_explored(config, [change.key for change in changes])
    parts = build_parts(config, tokenizer=stored_tokenizer(folder)) if parts is None else replace(parts, config=config)
    if stored_tokenizer(folder) is None:
        parts.loaded.tokenizer.save_pretrained(folder / TOKENIZER)
    display = (LiveDisplay if console.is_terminal else PlainDisplay)(console, config.steps)
    try:
        setup = set_up(parts, folder)
        recorder = RunRecorder(setup, folder, display, max_minutes)
        try:
            recorder.record_changes(record_changes(folder, changes, recorder.step))
            record_plugins(folder)
            if recorder.step == 0 and config.agent.thoughts is Thoughts.STRIP:
                recorder.warn(_STRIP_WARNING)
            with interruptible(recorder.interrupt):
                run_sync(train(setup, recorder))
        except DivergedError as error:
            recorder.record_divergence(str(error))
            raise DivergedError(f"{error}; {way_out(folder, config)}") from None
        finally:
            recorder.close()
    finally:
        display.close()
    return recorder


def way_out(folder: Path, config: Config) -> str:
    """What to do about a run that diverged. All its checkpoints are from before: no update is saved unchecked."""
    lower = f"learner.lr={min(config.learner.lr / 10, _USUAL_LR):g}"
    if config.league.learners and "learner.lr" in config.league.explore:
        return f"begin a new run with {lower}: in this one each learner has its own, which cannot change"
    saved = checkpoints(folder / "checkpoints")
    start = f"step {read_state(saved[-1]).step}" if saved else "the initial weights"
    return f"go on from {start} with: mage train --resume {quote(str(folder))} {lower}"


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
    parts = build_parts(config, learning=learner_settings(own), tokenizer=stored_tokenizer(folder))
    return config, parts, load_checkpoint(checkpoint or saved[-1], parts.learner).step


def stored_tokenizer(folder: Path) -> Path | None:
    """The directory of the tokenizer that a run was made with; None where no model was loaded for it yet.

    A run keeps its tokenizer: one that is made again has other ids where the words of a world have changed.
    """
    found = (folder / TOKENIZER, *reversed(checkpoints(folder / "checkpoints")))
    return next((path for path in found if (path / "tokenizer.json").is_file()), None)


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
