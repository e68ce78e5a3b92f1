"""One process uses a vLLM server at a time: two would publish over each other's weights without an error."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from pathlib import Path
from typing import IO

from mage.engines.vllm.availability import server_place
from mage.errors import ConfigError


def lock_server(server: str) -> IO[str]:
    """Hold a server until the file that is returned is closed, or this process ends.

    The file stays for the next process that uses the server, and may belong to another user: it is only ever read.
    """
    name = re.sub(r"\W+", "-", server_place(server))
    path = Path(tempfile.gettempdir()) / f"mage-vllm-{name}.lock"
    try:
        _create(path)
        file = path.open()
    except OSError as error:
        raise ConfigError(f"agent.server = {server}: {path} cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigError(f"agent.server = {server}: another run uses it; start a server for each run") from None
    return file


def _create(path: Path) -> None:
    """Create an empty file that every user can read, unless it exists."""
    try:
        number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o644)
    except FileExistsError:
        return
    os.fchmod(number, 0o644)
    os.close(number)
