"""The lines between rank 0 and the ranks of torchrun: who has come, with which versions, and who has ended first."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from mage.learners.load_weights import RankError
from mage.learners.sharded import lines
from mage.learners.sharded.lines import Followers, versions


def call(followers: Followers, rank: int, **others: str) -> socket.socket:
    """Come as a rank, with the versions of rank 0 or others."""
    line = socket.create_connection(("127.0.0.1", followers.port))
    greeting = {"rank": rank, "host": f"host{rank}", "versions": {**versions(), **others}}
    line.sendall(json.dumps(greeting).encode() + b"\n")
    return line


def met(size: int) -> tuple[Followers, Mapping[int, socket.socket], str]:
    """Rank 0's ends, the others' ends after their welcome, and the address."""
    followers = Followers(size, "cpu")
    with ThreadPoolExecutor() as pool:
        meeting = pool.submit(followers.meet)
        found = {rank: call(followers, rank) for rank in range(1, size)}
        address = meeting.result()
    for line in found.values():
        assert json.loads(line.recv(1000)) == {"device": "cpu", "address": "127.0.0.1"}
    return followers, found, address


def test_one_that_ends_without_a_word_is_the_cause() -> None:
    followers, found, address = met(4)
    assert address == "127.0.0.1"
    assert followers.failure() is None
    found[1].sendall(b"cannot reach rank 3")
    found[1].close()
    found[3].close()
    said = "rank 3 of 4 on host3: it was killed, or its machine cannot be reached any more"
    assert followers.failure(1.0) == said
    assert followers.failure() == said
    found[2].close()


def test_else_the_first_to_say_why_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_SAY_S", 0.1)
    followers, found, _ = met(3)
    found[2].sendall(b"out of memory")
    found[2].close()
    assert followers.failure(1.0) == "rank 2 of 3 on host2: out of memory"
    found[1].close()


def test_other_versions_are_refused() -> None:
    followers = Followers(2, "cpu")
    with call(followers, 1, torch="1.0"), pytest.raises(RankError) as refused:
        followers.meet()
    own = versions()["torch"]
    expected = f"rank 1 of 2 on host1 has torch 1.0, and rank 0 {own}; install the same on all machines"
    assert str(refused.value) == expected


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1", b'{"host": "\xff"}'])
def test_one_that_does_not_come_is_named(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "JOIN_S", 0.2)
    followers = Followers(3, "cpu")
    with socket.create_connection(("127.0.0.1", followers.port)) as scanner:
        scanner.sendall(said + b"\n")
        with call(followers, 1), pytest.raises(RankError, match=r"^rank 2 of 3 did not come within 0 s$"):
            followers.meet()
