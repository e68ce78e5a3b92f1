"""Ranks that `torchrun` has started, on one machine or several: how they meet, and notice that another has ended."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from datetime import timedelta
from types import TracebackType

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from mage.learners.load_weights import RankError
from mage.learners.sharded.cards import check_ranks
from mage.learners.sharded.lines import JOIN_S, Follower, Followers, Welcome
from mage.learners.sharded.ranks import INTERFACE, ROOT, Ranks, first_line

_LOAD = timedelta(hours=1)
"""Time for rank 0 to load its model."""
_FIND = timedelta(seconds=20)
"""Time to find torchrun's store, which was there before the ranks."""
_PORT = "port"
"""Key of the store: where rank 0 waits for the others."""
_SIOCGIFADDR = 0x8915
"""The call of Linux that tells the address of a network interface."""


class LeadingRanks(Ranks):
    """Rank 0, which has a line to each other rank."""

    def __init__(self, store: Store, size: int, device: str) -> None:
        self._followers = Followers(size, device)
        store.set(_PORT, str(self._followers.port))
        _use_interface(self._followers.meet())
        super().__init__(store, ROOT, size, device)

    def failure(self, wait_s: float = 0.0) -> str | None:
        """Why a rank has ended, in one line; None where all run."""
        return self._followers.failure(wait_s)


class FollowingRanks(Ranks):
    """Another rank, which ends when its line to rank 0 closes."""

    def __init__(self, store: Store, rank: int, size: int, line: Follower) -> None:
        self._line = line
        super().__init__(store, rank, size, line.welcome.device)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._line.end()

    def _fail(self, why: str) -> None:
        self._line.fail(why)


def lead(size: int, device: str) -> Ranks:
    """Meet the other ranks as rank 0."""
    check_ranks(size, device)
    return LeadingRanks(_store(timedelta(seconds=JOIN_S)), size, device)


def follow() -> Ranks:
    """Meet the other ranks as one of them, once rank 0 has loaded its model."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    try:
        store = _store(_LOAD)
        line = Follower(rank, size, os.environ["MASTER_ADDR"], int(store.get(_PORT)))
    except (RuntimeError, OSError, ValueError) as error:
        why = "rank 0 has ended, or cannot be reached"
        raise RankError(f"rank {rank} of {size} did not begin: {why} ({first_line(error)})") from None
    _use_interface(_own_address(line.welcome, line.address))
    return FollowingRanks(store, rank, size, line)


def _store(wait: timedelta) -> Store:
    """The store of torchrun, which its process on the first machine had before it started any rank."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(host, port, is_master=False, timeout=_FIND)
    store.set_timeout(wait)
    return PrefixStore("mage", store)


def _own_address(welcome: Welcome, address: str) -> str:
    """The address of this machine: on that of rank 0 its name may mean loopback, where others cannot reach it."""
    return welcome.address if os.environ["GROUP_RANK"] == "0" else address


def _use_interface(address: str) -> None:
    """Let gloo use the interface over which the ranks have met; the name of a machine often means loopback there."""
    if os.environ["LOCAL_WORLD_SIZE"] != os.environ["WORLD_SIZE"] and (name := _interface(address)):
        os.environ.setdefault(INTERFACE, name)


def _interface(address: str) -> str | None:
    """The name of the network interface with an address of IPv4; None where there is none, or not on Linux."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:  # without an address
                continue
            if socket.inet_ntoa(found[20:24]) == address:
                return name
    return None
