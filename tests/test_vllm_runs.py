"""Runs that play with vLLM servers: a server that dies ends them in a line, and a server is free after them."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mage.engines.vllm import http_server
from mage.engines.vllm.http_server import Connection
from mage.engines.vllm.locks import lock_server
from mage.errors import ConfigError, EngineError, EngineGoneError
from mage.files import read_lines
from mage.models.device import resolve_placement
from mage.models.load import LoadedModel
from mage.training.model_cache import _load
from mage.training.run import create_run, train_run
from tests.tiny import tiny_config
from tests.vllm_stub import Stub, stubs

PLAY = ("agent.context=256", "batch.groups=8", "evaluation.final_trials=4", "checkpoint.every=1", "checkpoint.keep=9")


@cache
def model(*overrides: str) -> LoadedModel:
    config = tiny_config(*overrides)
    return _load(config, resolve_placement(config.device, config.dtype), None)


class Mortal:
    """Lets a server die at one of the requests that all of them get; it hangs up, and is not there any more."""

    def __init__(self, servers: list[Stub], last: int) -> None:
        self._servers, self._left = servers, last

    def handle(self, server: Stub, *asked: Any) -> dict[str, Any]:
        self._left -= 1
        if self._left <= 0 and server is self._servers[1]:
            server.socket.close()
            raise ConnectionAbortedError
        return Stub.generate(server, *asked)


@contextmanager
def two_servers(folder: Path, last: int, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> Iterator[str]:
    """Two servers, of which the second dies after so many requests; the setting that names them."""
    with stubs(model(*overrides), folder / "model", 2) as servers:
        mortal = Mortal(servers, last)
        for server in servers:
            monkeypatch.setattr(server, "generate", lambda *asked, of=server: mortal.handle(of, *asked))
            monkeypatch.setattr(server, "handle_error", lambda *_: None)
        yield f'agent.server=["{servers[0].address}","{servers[1].address}"]'


def run_until_it_is_gone(folder: Path, *overrides: str) -> Path:
    path, parts = create_run(tiny_config(*PLAY, "engine=vllm", *overrides), folder / "run", "tiny")
    with pytest.raises(EngineGoneError, match=r"^the vLLM server at http://127.0.0.1:\d+ is gone: "):
        train_run(path, Console(file=StringIO()), parts=parts)
    return path


def test_a_step_in_which_a_server_dies_is_not_learned_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with two_servers(tmp_path, 200, monkeypatch) as servers:
        path = run_until_it_is_gone(tmp_path, "steps=3", servers)
    steps = [line["step"] for line in read_lines(path / "metrics.jsonl")]
    assert steps == list(range(1, len(steps) + 1))
    assert 0 < len(steps) < 3
    assert [found.name for found in sorted((path / "checkpoints").iterdir())][-1] == f"step-{len(steps):06d}"


def test_an_evaluation_in_which_a_server_dies_is_not_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = 'evaluation.splits=["rps-harder"]'
    with two_servers(tmp_path, 170, monkeypatch, split) as servers:
        path = run_until_it_is_gone(tmp_path, "steps=1", split, servers)
    assert [line["step"] for line in read_lines(path / "metrics.jsonl")] == [1]
    assert not list(path.glob("evaluations/final*"))


def test_a_server_is_free_when_a_run_has_ended(tmp_path: Path) -> None:
    with stubs(model(), tmp_path / "model", 1) as (server,):
        for name in ("first", "second"):
            config = tiny_config(*PLAY, "steps=1", "engine=vllm", f'agent.server=["{server.address}"]')
            path, parts = create_run(config, tmp_path / name, "tiny")
            train_run(path, Console(file=StringIO()), parts=parts)
            del parts
            gc.collect()  # which leaves out what was frozen when the parts were built


def test_a_server_that_is_slow_fails_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        post = Connection(f"http://127.0.0.1:{silent.getsockname()[1]}").post("/inference/v1/generate", {})
        with pytest.raises(EngineError, match=r"has not answered /inference/v1/generate in 0.05 seconds") as raised:
            asyncio.run(post)
    assert not isinstance(raised.value, EngineGoneError)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_lock_can_be_read_by_all_users(temporary: Path) -> None:
    before = os.umask(0o077)
    try:
        lock_server("http://127.0.0.1:8000").close()
    finally:
        os.umask(before)
    (file,) = temporary.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    file.chmod(0o444)  # as another user's, which this one may not write
    lock_server("http://127.0.0.1:8000").close()


def test_a_lock_that_cannot_be_opened_is_named(temporary: Path) -> None:
    (temporary / "mage-vllm-127-0-0-1-8000.lock").mkdir()
    with pytest.raises(ConfigError, match=r"8000: .*/mage-vllm-127-0-0-1-8000.lock cannot be opened: Is a directory"):
        lock_server("http://127.0.0.1:8000")
