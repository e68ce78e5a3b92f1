"""Connections between rank 0 and each rank that `torchrun` has started, perhaps on another machine.

A line carries a greeting each way and, where the rank fails, its reason. It closes when either process ends. Where a
machine or the network between them is gone, the kernel closes it after a minute.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from ipaddress import ip_address
from typing import TypeVar

import msgspec

from mage.files import BAD_JSON
from mage.learners.load_weights import RankError
from mage.learners.sharded.ranks import comes_true
from mage.version import __version__

T = TypeVar("T")
JOIN_S = 300.0
"""Time for all ranks to come."""
_GREET_S, _SAY_S, _END_S = 10.0, 3.0, 10.0
"""Time for a greeting; for the ranks that a failure takes along to end too; for a process to end."""
_KEEP_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
"""Options of Linux, with which a line closes after a minute without an answer."""
_LOST = "rank 0 has ended, or its machine cannot be reached any more"


class Greeting(msgspec.Struct, frozen=True):
    """What a rank says first."""

    rank: int
    host: str
    versions: dict[str, str]


class Welcome(msgspec.Struct, frozen=True):
    """What rank 0 answers."""

    device: str
    address: str
    """The address of its machine at which it was reached."""


class Followers:
    """Rank 0's ends of the lines to the other ranks."""

    def __init__(self, size: int, device: str) -> None:
        self._size, self._device = size, device
        self._listener = _listener()
        self._lines: dict[int, socket.socket] = {}
        self._hosts: dict[int, str] = {}
        self._ended: dict[int, str] = {}

    @property
    def port(self) -> int:
        """Where the ranks must come."""
        return int(self._listener.getsockname()[1])

    def meet(self) -> str:
        """Wait until all have come, and welcome them; the address at which they reached this machine."""
        until = time.monotonic() + JOIN_S
        while missing := sorted(set(range(1, self._size)) - set(self._lines)):
            self._listener.settimeout(max(0.01, until - time.monotonic()))
            try:
                line, _ = self._listener.accept()
            except TimeoutError:
                raise RankError(f"{self._named(missing[0])} did not come within {JOIN_S:.0f} s") from None
            self._greet(line)
        self._listener.close()
        found = [address_of(line) for line in self._lines.values()]
        address = next((each for each in found if not ip_address(each).is_loopback), found[0])
        for line in self._lines.values():
            with suppress(OSError):  # one that has ended is noticed later
                _send(line, Welcome(self._device, address))
            line.setblocking(False)
        return address

    def failure(self, wait_s: float = 0.0) -> str | None:
        """Why a rank has ended, in one line; None where all run."""
        if not comes_true(lambda: bool(self._all_ended()), wait_s):
            return None
        # One that is killed says nothing, and others say that they cannot reach it, perhaps before its line closes.
        comes_true(lambda: not all(self._all_ended().values()) or len(self._ended) == len(self._lines), _SAY_S)
        rank = next((rank for rank, why in self._ended.items() if not why), next(iter(self._ended)))
        return f"{self._named(rank)}: {self._ended[rank] or 'it was killed, or its machine cannot be reached any more'}"

    def _named(self, rank: int) -> str:
        return f"rank {rank} of {self._size}" + (f" on {self._hosts[rank]}" if rank in self._hosts else "")

    def _greet(self, line: socket.socket) -> None:
        """Take a rank's greeting; what is none, as of a port scanner, is dropped."""
        keep_alive(line)
        line.settimeout(_GREET_S)
        try:
            greeting = _receive(line, Greeting)
        except (OSError, *BAD_JSON):
            line.close()
            return
        self._lines[greeting.rank], self._hosts[greeting.rank] = line, greeting.host
        for name, own in versions().items():
            if (other := greeting.versions.get(name)) != own:
                what = f"has {name} {other}, and rank 0 {own}; install the same on all machines"
                raise RankError(f"{self._named(greeting.rank)} {what}")

    def _all_ended(self) -> Mapping[int, str]:
        """The ranks that have ended, the first one first, and what they said."""
        for rank, line in self._lines.items():
            if rank not in self._ended:
                try:
                    said = line.recv(1 << 16)
                except BlockingIOError:
                    continue
                except OSError:
                    said = b""
                self._ended[rank] = said.decode(errors="replace")
        return self._ended


class Follower:
    """A rank's end of its line to rank 0; the process ends when rank 0 does, whatever it is waiting for."""

    def __init__(self, rank: int, size: int, host: str, port: int) -> None:
        self._name = f"rank {rank} of {size}"
        self._line = socket.create_connection((host, port), timeout=_GREET_S)
        keep_alive(self._line)
        _send(self._line, Greeting(rank, socket.gethostname(), versions()))
        self._line.settimeout(JOIN_S)
        self.welcome = _receive(self._line, Welcome)
        self.address = address_of(self._line)
        """The address of this machine from which it reached rank 0."""
        self._line.settimeout(None)
        self._is_lost, self._is_over = threading.Event(), threading.Event()
        threading.Thread(target=self._watch, daemon=True, name="watch rank 0").start()

    def fail(self, why: str) -> None:
        """Say why this rank ends: to rank 0, and on this machine. Where rank 0 has ended, that is the cause."""
        if self._is_lost.wait(1.0):
            why = _LOST
        with suppress(OSError):
            self._line.sendall(why.encode())
        print(f"mage: {self._name}: {why}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """The process ends by itself, as rank 0 has said."""
        self._is_over.set()

    def _watch(self) -> None:
        with suppress(OSError):
            self._line.recv(1)  # rank 0 says nothing any more: it returns when the line closes
        self._is_lost.set()
        if not self._is_over.wait(_END_S):
            self.fail(_LOST)
            os._exit(1)


def versions() -> dict[str, str]:
    """What must be the same on all ranks; builds of PyTorch for a CPU and for GPUs have the same version."""
    return {"mage": __version__, **{name: version(name).partition("+")[0] for name in ("torch", "transformers")}}


def keep_alive(line: socket.socket) -> None:
    """Let the kernel close a connection whose other end does not answer for a minute."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def address_of(line: socket.socket) -> str:
    """The address of this end; one of IPv4 as such."""
    return str(line.getsockname()[0]).removeprefix("::ffff:")


def _listener() -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)
    return socket.create_server(("", 0), backlog=512)


def _send(line: socket.socket, said: msgspec.Struct) -> None:
    line.sendall(msgspec.json.encode(said) + b"\n")


def _receive(line: socket.socket, kind: type[T]) -> T:
    with line.makefile("rb") as lines:
        said = lines.readline(1 << 16)
    if not said:
        raise ConnectionError("the other end has closed the connection")
    return msgspec.json.decode(said, type=kind)
