"""Clients that send nothing, or one byte at a time, are cut off and hold up no other request."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.view_speed import Server
from mage.view.prompt_protocol import MAX_WAITING

SHORT = "import mage.view.prompt_protocol as own; own.REQUEST_S = {}"
HEAD = "POST /api/play HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\nContent-Type: application/json\r\n"
WHOLE = "GET /static/index.html?token={} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Server]:
    """A server that gives a request a second."""
    with Server(tmp_path, SHORT.format(1)) as started:
        yield started


def connected(server: Server, sent: str) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.sendall(sent.encode())
    return connection


def read_to_its_end(connection: socket.socket) -> bytes:
    """All that the server sends until it closes the connection; a timeout is an error."""
    found = b""
    try:
        while said := connection.recv(100_000):
            found += said
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize("sent", ["", "GET /api/runs HTTP/1.1\r\nHost: 127", HEAD, f"{HEAD}\r\n{{"])
def test_a_request_that_is_never_finished_is_cut_off(impatient: Server, sent: str) -> None:
    with connected(impatient, sent) as slow:
        said = read_to_its_end(slow)
        assert said == b"" or said.startswith(b"HTTP/1.1 403"), "an answer may come before the body"


def test_a_second_request_on_a_connection_must_arrive_in_time_too(impatient: Server) -> None:
    with connected(impatient, WHOLE.format(impatient.token)) as slow:
        slow.sendall(b"GET /api")
        assert read_to_its_end(slow).endswith(b"</html>\n"), "the first was answered, the second cut off"


def test_slow_clients_hold_up_no_other_request(tmp_path: Path) -> None:
    with Server(tmp_path, SHORT.format(600)) as server:
        slow = [connected(server, "GET / HTTP/1.1\r\n") for _ in range(300)]
        assert server.json("/api/runs") == []
        assert {read_to_its_end(connection) for connection in slow[:-MAX_WAITING]} == {b""}, "the oldest make room"
        for connection in slow:
            connection.close()
