"""A small OpenAI-compatible server on this machine, which does what a test tells it to: real HTTP, real trouble."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, NamedTuple, Self

from mage.agents.messages import ACTIONS, asks_for_reflection
from mage.engines.remote import RemoteEngine, RetryPolicy
from mage.models.address import read_address

HASTY = RetryPolicy(timeout_s=0.5, tries=4, wait_s=0.001, longest_wait_s=0.2)


class Said(NamedTuple):
    """What the server answers to one request."""

    text: str | None = ""
    status: int = 200
    finish: str = "stop"
    headers: Mapping[str, str] = {}
    raw: bytes | None = None
    """The body as it is, in place of a completion."""
    delay_s: float = 0.0
    hangs_up: bool = False
    """Break the connection in the middle of the body."""
    usage: object = None


class Asked(NamedTuple):
    """One request."""

    number: int
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def newest(self) -> str:
        """The last message."""
        return str(self.body["messages"][-1]["content"])

    @property
    def actions(self) -> list[str]:
        """The actions that were listed last."""
        listed = [m["content"] for m in self.body["messages"] if m["role"] == "user" and ACTIONS in m["content"]]
        return str(listed[-1]).rpartition(ACTIONS)[2].partition("\n")[0].split(", ") if listed else []


Answer = Callable[[Asked], Said]


def first_action(asked: Asked) -> Said:
    """A model that takes the first action and writes a note when it is asked for one."""
    if asks_for_reflection(asked.newest):
        return Said("They are still there.")
    if not asked.actions:
        return Said("There is nothing to do.")
    return Said(f"I take what comes first. <action>{asked.actions[0]}</action>")


def always(said: Said) -> Answer:
    """The same to everyone."""

    def answer(asked: Asked) -> Said:
        return said

    return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked may have been killed meanwhile, which is no news."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class ChatServer:
    """Answers on a free port while the context lasts, and keeps what it was asked."""

    def __init__(self, answer: Answer = first_action) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.at_once = 0
        """Most requests that were under way together."""
        self._open = 0
        self._lock = Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                server._serve(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Tests are quiet."""

        self._http = _Server(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        """What the paths of the API start with."""
        return f"http://{self.host}/v1"

    @property
    def host(self) -> str:
        """Host and port, as `--allow-host` takes them."""
        return f"127.0.0.1:{self._http.server_address[1]}"

    @property
    def agent(self) -> str:
        """The model behind this server, as `mage evaluate` takes it."""
        return f"remote:{self.url}#toy"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        content = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self._lock:
            asked = Asked(len(self.asked), json.loads(content), dict(handler.headers))
            self.asked.append(asked)
            self._open += 1
            self.at_once = max(self.at_once, self._open)
        try:
            said = self.answer(asked) if handler.path == "/v1/chat/completions" else Said(status=404, raw=b"no")
            time.sleep(said.delay_s)
        finally:
            with self._lock:
                self._open -= 1
        try:
            _send(handler, said)
        except OSError:
            handler.close_connection = True  # whoever asked has gone


def _send(handler: BaseHTTPRequestHandler, said: Said) -> None:
    body = said.raw if said.raw is not None else _completion(said)
    handler.send_response(said.status)
    for name, value in said.headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2] if said.hangs_up else body)
    handler.close_connection = handler.close_connection or said.hangs_up


def _completion(said: Said) -> bytes:
    message = {"role": "assistant", "content": said.text}
    found = {"choices": [{"index": 0, "message": message, "finish_reason": said.finish}], "usage": said.usage}
    return json.dumps(found).encode()


TROUBLE = {
    "429": Said(status=429, raw=b"slow down", headers={"Retry-After": "0"}),
    "500": Said(status=500, raw=b"oh no"),
    "503": Said(status=503, raw=b""),
    "timeout": Said("late", delay_s=0.7),
    "truncated JSON": Said(raw=b'{"choices": [{"message": {"content": "roc'),
    "hang-up": Said("x" * 5000, hangs_up=True),
    "no completion": Said(raw=b'{"choices": []}'),
    "not JSON": Said(raw=b"<html>\x1b[2J\x00 busy</html>"),
    "deep JSON": Said(raw=b"[" * 200_000),
    "wrong shape": Said(raw=b'{"choices": [{"message": {"content": 5}}]}'),
    "too long": Said(raw=b" " * (2**23 + 1)),
}
"""What a server can do wrong, by name."""


def engine_of(server: ChatServer, **how: object) -> RemoteEngine:
    """The engine that asks a server, in haste."""
    return RemoteEngine(read_address(server.agent), **{"retry_policy": HASTY, **how})  # type: ignore[arg-type]
