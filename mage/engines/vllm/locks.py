"""Locks between processes: one uses a vLLM server at a time, and one starts vLLM on a GPU at a time."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mage.engines.vllm.availability import server_place
from mage.errors import ConfigError


def lock_server(server: str) -> IO[str]:
    """Hold a server until the file that is returned is closed, or this process ends.

    Two processes would publish over each other's weights without an error.
    """
    file = _opened(server_place(server), f"agent.server = {server}")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigError(f"agent.server = {server}: another run uses it; start a server for each run") from None
    return file


@contextmanager
def starting_on(card: str) -> Iterator[None]:
    """Wait until no other process of this machine starts vLLM on a GPU, which `card` identifies.

    vLLM measures what it takes while it starts, and counts what others take meanwhile, as two workers on one GPU.
    """
    with _opened(card, "engine = vllm") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _opened(name: str, setting: str) -> IO[str]:
    """The file of a lock. It stays for the next process, and may belong to another user: it is only ever read."""
    path = Path(tempfile.gettempdir()) / f"mage-vllm-{re.sub('[^a-zA-Z0-9]+', '-', name)}.lock"
    try:
        _create(path)
        return path.open()
    except OSError as error:
        raise ConfigError(f"{setting}: {path} cannot be opened: {error.strerror}") from None


def _create(path: Path) -> None:
    """Create an empty file that every user can read, unless it exists."""
    try:
        number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o644)
    except FileExistsError:
        return
    os.fchmod(number, 0o644)
    os.close(number)
