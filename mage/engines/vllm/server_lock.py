"""One process uses a vLLM server at a time: two would publish over each other's weights without an error."""

from __future__ import annotations

import fcntl
import re
import tempfile
from pathlib import Path
from typing import IO

from mage.engines.vllm.availability import server_place
from mage.errors import ConfigError


def lock_server(server: str) -> IO[str]:
    """Hold a server until the file that is returned is closed, or this process ends."""
    name = re.sub(r"\W+", "-", server_place(server))
    file = (Path(tempfile.gettempdir()) / f"mage-vllm-{name}.lock").open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigError(f"agent.server = {server}: another run uses it; start a server for each run") from None
    return file
