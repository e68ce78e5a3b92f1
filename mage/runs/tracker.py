"""Metric trackers: JSON lines in the run directory, TensorBoard, Weights & Biases and trackio."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any, Protocol

from mage.errors import ConfigError, pick
from mage.extras import install_command
from mage.files import JsonLines
from mage.runs.console import say
from mage.runs.store import read_info

_WANDB_HOST = "api.wandb.ai"


class Tracker(Protocol):
    """Takes metrics by step."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class JsonTracker:
    """Writes `metrics.jsonl`. It is bit-identical for equal runs, so it holds no times."""

    def __init__(self, folder: Path) -> None:
        self._lines = JsonLines(folder / "metrics.jsonl")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._lines.append({"step": step, **metrics})

    def close(self) -> None:
        self._lines.close()


class TensorBoardTracker:
    """Writes event files to `tensorboard/`."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise _missing("tensorboard") from None
        self._writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class ServiceTracker:
    """Weights & Biases, or trackio, which has the same interface. Without a key, Weights & Biases logs to files."""

    def __init__(self, folder: Path, name: str) -> None:
        try:
            self._service: Any = __import__(name)
        except ImportError:
            raise _missing(name) from None
        if name == "wandb" and "WANDB_MODE" not in os.environ and not _has_wandb_key():
            os.environ["WANDB_MODE"] = "offline"
            say("wandb: no API key is known, so it logs offline, to ./wandb; `wandb sync` uploads that later")
        self._service.init(project="mage", name=folder.resolve().name, config=dict(read_info(folder).config))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._service.log(dict(metrics), step=step)

    def close(self) -> None:
        self._service.finish()


TRACKERS: Mapping[str, Callable[[Path], Tracker]] = {
    "tensorboard": TensorBoardTracker,
    "trackio": lambda folder: ServiceTracker(folder, "trackio"),
    "wandb": lambda folder: ServiceTracker(folder, "wandb"),
}


class Trackers:
    """Logs to the JSON lines and to the named trackers."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        makers = [pick("tracker", TRACKERS, name) for name in names]
        self._trackers: list[Tracker] = [JsonTracker(folder), *(make(folder) for make in makers)]

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for tracker in self._trackers:
            tracker.log(step, metrics)

    def close(self) -> None:
        for tracker in self._trackers:
            tracker.close()


def check_trackers(names: Sequence[str]) -> None:
    """Raise `ConfigError` on a tracker that is unknown or not installed."""
    for name in names:
        pick("tracker", TRACKERS, name)
        if find_spec(name) is None:
            raise _missing(name)


def _has_wandb_key() -> bool:
    """Whether Weights & Biases finds a key, in the environment or where `wandb login` writes it."""
    try:
        return "WANDB_API_KEY" in os.environ or netrc().authenticators(_WANDB_HOST) is not None
    except (OSError, NetrcParseError):
        return False


def _missing(name: str) -> ConfigError:
    return ConfigError(f"the tracker {name!r} needs the extra {name}: {install_command(name)}")
