"""Trackers: JSON lines always; services beside them, with one line that names the extra where they are missing."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import tomllib
import types
from pathlib import Path

import pytest

from mage.errors import ConfigError
from mage.files import read_lines
from mage.runs.store import RunWriter
from mage.runs.tracker import TRACKERS, Trackers, check_trackers
from tests.tree import ROOT


class Service(types.ModuleType):
    """Stands in for a third-party service: it remembers how it was called."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None)
        self.calls: list[tuple[str, object]] = []

    def init(self, *, project: str, name: str, config: object) -> None:
        self.calls.append(("init", (project, name, config)))

    def log(self, metrics: object, step: int) -> None:
        self.calls.append(("log", (step, metrics)))

    def finish(self) -> None:
        self.calls.append(("finish", None))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "first"
    RunWriter.create(path, kind="train", config={"steps": 2}, seed=0).close()
    return path


def test_json_lines_are_written_in_order_and_survive_reopening(folder: Path) -> None:
    for step in (1, 2):
        trackers = Trackers(folder, ())
        trackers.log(step, {"b": 0.1 + 0.2, "a": -1.0})
        trackers.close()
    assert list(read_lines(folder / "metrics.jsonl")) == [{"step": s, "b": 0.1 + 0.2, "a": -1.0} for s in (1, 2)]


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_a_service_gets_config_and_figures_beside_the_json_lines(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(name)
    monkeypatch.setitem(sys.modules, name, service)
    check_trackers([name])
    trackers = Trackers(folder, (name,))
    trackers.log(3, {"learner/loss": 0.5})
    trackers.close()
    assert service.calls == [
        ("init", ("mage", "first", {"steps": 2})),
        ("log", (3, {"learner/loss": 0.5})),
        ("finish", None),
    ]
    assert list(read_lines(folder / "metrics.jsonl")) == [{"step": 3, "learner/loss": 0.5}]


def test_tensorboard_gets_every_figure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[object, ...]] = []

    class Writer:
        def __init__(self, path: str) -> None:
            written.append(("open", path))

        def add_scalar(self, *scalar: object) -> None:
            written.append(scalar)

        def close(self) -> None:
            written.append(("close",))

    stand_in = types.ModuleType("torch.utils.tensorboard")
    stand_in.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
    trackers = Trackers(folder, ("tensorboard",))
    trackers.log(1, {"a": 1.0, "b": 2.0})
    trackers.close()
    assert written == [("open", str(folder / "tensorboard")), ("a", 1.0, 1), ("b", 2.0, 1), ("close",)]


@pytest.mark.parametrize("name", sorted(TRACKERS))
def test_a_missing_service_names_its_extra(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(ConfigError, match=rf"the tracker '{name}' needs the extra {name}: pip install") as early:
        check_trackers([name])
    with pytest.raises(ConfigError) as late:
        Trackers(folder, (name,))
    assert str(late.value) == str(early.value)
    assert "\n" not in str(early.value)
    assert name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_an_unknown_tracker_lists_the_known_ones(folder: Path) -> None:
    for use in (lambda: check_trackers(["excel"]), lambda: Trackers(folder, ("excel",))):
        with pytest.raises(ConfigError, match="unknown tracker 'excel'; known: tensorboard, trackio, wandb"):
            use()


@pytest.mark.parametrize(("key", "mode"), [("", "offline"), ("a-key", None)])
def test_weights_and_biases_logs_offline_where_it_has_no_key(
    key: str, mode: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", Service("wandb"))
    monkeypatch.setenv("HOME", str(folder))  # no .netrc
    monkeypatch.setenv("WANDB_MODE", "")
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("WANDB_API_KEY", key)
    if not key:
        monkeypatch.delenv("WANDB_API_KEY")
    Trackers(folder, ("wandb",)).close()
    assert os.environ.get("WANDB_MODE") == mode
