"""A browser and a server for the tests of the pages: one of each for every module."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from benchmarks.view_speed import Server
from tests.browser.opened import Opened
from tests.browser.scenes import learned, played

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_START_MS = 180_000
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def learned_run(tmp_path_factory: pytest.TempPathFactory, executable: str) -> Path:
    """The scene `learned`, made once for all modules: they show copies of it."""
    return learned(tmp_path_factory.mktemp("learned") / "run")


@pytest.fixture(scope="session")
def played_run(tmp_path_factory: pytest.TempPathFactory, executable: str) -> Path:
    """The scene `played`, made once for all modules: they show copies of it."""
    return played(tmp_path_factory.mktemp("played") / "run")


@pytest.fixture(scope="module")
def server(runs: Path, executable: str) -> Iterator[Server]:
    """`mage view` on the directory that the module's own fixture `runs` has made."""
    with Server(runs) as started:
        yield started


@pytest.fixture(scope="module")
def browser(server: Server, executable: str) -> Iterator[Browser]:
    """Launched after the runs were made: from then on no other event loop may run in this thread."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"], timeout=_START_MS)
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: Browser, server: Server) -> Iterator[Opened]:
    """A fresh page; at the end of the test it must have had no trouble."""
    page = Opened(browser, server.link)
    yield page
    page.close()
    assert page.troubles == []


@pytest.fixture
def copy(exported: Path, browser: Browser) -> Iterator[Opened]:
    """The page that the module's own fixture `exported` has written, from disk; it must have asked for nothing else."""
    page = Opened(browser, exported.as_uri())
    page.go("")
    yield page
    page.close()
    assert page.troubles == []
    assert {url.partition("#")[0] for url in page.requests} <= {exported.as_uri(), "about:blank", "data:,"}


@pytest.fixture(scope="session")
def executable() -> str:
    """The browser of this machine."""
    if find_spec("playwright") is None:
        _without("playwright is not installed: pip install playwright")
    found = next((path for path in map(shutil.which, _NAMES) if path is not None), None)
    return found or _without(f"there is no browser: none of {', '.join(_NAMES)} is on the path")


def _without(reason: str) -> NoReturn:
    if os.environ.get("MAGE_BROWSER_TESTS") == "required":
        pytest.fail(f"MAGE_BROWSER_TESTS=required, but {reason}", pytrace=False)
    pytest.skip(reason)
