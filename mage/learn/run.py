"""A training run from outside: start it, resume it, stop it, judge it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from mage.build import check, members_of
from mage.config import validated
from mage.errors import ConfigError, RecordError
from mage.evaluate.reflections import ReflectionReport
from mage.evaluate.splits import load_split, refuse_held_out
from mage.evaluate.suite import SplitReport
from mage.learn.checkpoint import checkpoints, load_checkpoint
from mage.learn.parts import Parts, build_parts
from mage.learn.progress import Progress
from mage.record.display import LiveDisplay, PlainDisplay
from mage.record.store import RunWriter, read_info
from mage.record.tracker import check_trackers
from mage.schema import Config
from mage.train import evaluate, reflections, train
from mage.types import Memory
from mage.waiting import finish


def start(config: Config, folder: Path) -> None:
    """Make the directory of a new run. Fails with one line on anything that would fail later."""
    check(config)
    check_trackers(config.trackers)
    refuse_held_out(config.game, members_of(config))
    for name in config.evaluation.splits:
        load_split(name)
    RunWriter.create(folder, kind="train", config=config.model_dump(mode="json"), seed=config.seed).close()


def config_of(folder: Path) -> Config:
    """The config that a run was started with."""
    info = read_info(folder)
    if info.kind != "train":
        raise RecordError(f"{folder} is a {info.kind} run; only train runs have weights")
    return validated(info.config, str(folder / "run.json"))


def go(folder: Path, console: Console, max_minutes: float | None = None) -> Progress:
    """Train until the steps are done, time is up, an alarm stops the run or somebody interrupts.

    A run that is done stays as it is. The first interrupt lets the step finish and saves, a clean end like any
    other; the second raises `KeyboardInterrupt`, and the run goes on from its last checkpoint when resumed.
    """
    config = config_of(folder)
    parts = build_parts(config)
    display = (LiveDisplay if console.is_terminal else PlainDisplay)(console, config.steps)
    try:
        progress = Progress(config, folder, parts, display, max_minutes)
        try:
            with interruptible(lambda: progress.stop("finishing this step; interrupt again to stop at once")):
                finish(train(config, parts, progress))
        finally:
            progress.close()
    finally:
        display.close()
    return progress


def weights_of(folder: Path) -> tuple[Config, Parts, int]:
    """A run's config, its parts with the newest weights loaded, and the step they are from."""
    config = config_of(folder)
    saved = checkpoints(folder / "checkpoints")
    if not saved:
        raise RecordError(f"{folder} has no checkpoint yet")
    parts = build_parts(config)
    return config, parts, load_checkpoint(saved[-1], parts.learner).step


def judge_run(folder: Path, trials: int | None = None) -> tuple[int, list[SplitReport]]:
    """Judge a run's newest weights on its splits; the step they are from comes first."""
    config, parts, step = weights_of(folder)
    return step, finish(evaluate(config, parts, step, trials or config.evaluation.final_trials))


def judge_reflections_of(folder: Path, trials: int | None = None) -> tuple[int, list[ReflectionReport]]:
    """Judge what reflections do for a run's newest weights; the step they are from comes first."""
    memory = config_of(folder).agent.memory
    if memory not in (Memory.REFLECTIONS, Memory.BOTH):
        raise ConfigError(f"{folder}: agent.memory = {memory}: no reflections are written; use reflections or both")
    config, parts, step = weights_of(folder)
    return step, finish(reflections(config, parts, step, trials or config.evaluation.final_trials))


@contextmanager
def interruptible(first: Callable[[], None]) -> Iterator[None]:
    """The first interrupt calls `first`, the second one interrupts. Only the main thread hears of interrupts."""
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
