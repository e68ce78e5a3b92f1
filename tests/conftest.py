"""Shared by all tests: no test writes outside its own folders or takes cores from the others."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator

import pytest

from tests.processes import Mage

os.environ["OMP_NUM_THREADS"] = "1"  # for torch, before it is imported: several processes of tests share the cores
pytest.register_assert_rewrite("tests.engine_made")  # a failed comparison there shows its numbers too
os.environ["MAGE_CACHE"] = tempfile.mkdtemp(prefix="mage-cache-")
atexit.register(shutil.rmtree, os.environ["MAGE_CACHE"], ignore_errors=True)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it puts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def mage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mage]:
    """Runs `mage` in processes of its own."""
    server = Mage(tmp_path_factory.mktemp("mage"))
    yield server
    server.close()


@pytest.fixture
def own_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Only the names that come with mage are known; what a test registers or imports is forgotten after it."""
    from mage.worlds.registry import load_world
    from tests.registered import forget_names

    forget_names(monkeypatch)
    yield
    load_world.cache_clear()
