"""Starts the server: finds a free port, prints the URL and opens the browser."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from urllib.parse import urlencode

import uvicorn

from mage.errors import ConfigError
from mage.view.app import build_app
from mage.view.guard import TOKEN_QUERY, Access, new_access
from mage.view.prompt_protocol import PromptProtocol

PORT = 8765
_TRIES = 20
"""How many ports are tried from the default one on, if none is given."""
_CONCURRENCY = 256
_SHUTDOWN_S = 1
"""How long the shutdown waits for open streams."""


def serve(root: Path, host: str, port: int | None, say: Callable[[str], None], *, opens_browser: bool) -> None:
    """Serve the runs below a directory until interrupted; `say` gets the URL once it is bound."""
    bound = _bound(host, port)
    access = new_access(host)
    url = address(access, bound.getsockname()[1])
    stopping = Event()
    config = uvicorn.Config(
        build_app(root, access, stopping),
        http=PromptProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONCURRENCY,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    say(url)
    if opens_browser and _has_display():
        Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    _Server(config, stopping).run(sockets=[bound])


class _Server(uvicorn.Server):
    """Sets `stopping` at exit, so that event streams end: the shutdown waits for them."""

    def __init__(self, config: uvicorn.Config, stopping: Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stopping.set()
        super().handle_exit(sig, frame)


def address(access: Access, port: int) -> str:
    """The URL to open, with the token.

    >>> address(Access("127.0.0.1", "secret"), 8765), address(Access("::", "secret"), 80)
    ('http://127.0.0.1:8765/?token=secret', 'http://[::1]:80/?token=secret')
    """
    host = {"0.0.0.0": socket.gethostname(), "::": "::1"}.get(access.host, access.host)
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/?{urlencode({TOKEN_QUERY: access.token})}"


def _bound(host: str, port: int | None) -> socket.socket:
    """A listening socket; if no port is given, on the first free one from the default on."""
    ports = range(PORT, PORT + _TRIES) if port is None else (port,)
    problem = ""
    for tried in ports:
        try:
            family, kind, _, _, where = socket.getaddrinfo(host, tried, type=socket.SOCK_STREAM)[0]
            bound = socket.socket(family, kind)
        except OSError as error:
            raise ConfigError(f"--host {host}: {error.strerror or error}") from None
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(where)
            bound.listen()
        except OSError as error:
            bound.close()
            problem = error.strerror or str(error)
        else:
            return bound
    raise ConfigError(
        f"cannot listen on {host}, port {ports[0]}{f' to {ports[-1]}' if len(ports) > 1 else ''}: {problem}"
    )


def _has_display() -> bool:
    """Whether a graphical browser can open; one in the terminal would take the terminal over."""
    return sys.platform == "darwin" or any(name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY"))
