"""Which of several servers answers a request: one whose prefix cache has its beginning, unless it has more to do."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from mage.engines.vllm.requests import Ids

_BLOCK = 16
"""Tokens that are compared at once; vLLM's cache keeps whole blocks of as many, on a CPU of twice as many."""
_MOST_BLOCKS = 2**17
"""Blocks that are remembered of a server, those that were used last: two million tokens."""
_MORE, _TIMES = 4, 1.25
"""A server has clearly more to do than another one with this many times its requests, and these besides."""


class Router:
    """Knows what each server has read, and how many requests each has in flight.

    Siblings have their first prompt in common, so its server would get all of them: one that has clearly more to do
    than the least busy one gets nothing more. Servers with as much of a prompt are taken by their requests, then in
    order. A salt is part of what is remembered, so what was read before a publication is not found after it.
    """

    def __init__(self, num_servers: int) -> None:
        self._in_flight = [0] * num_servers
        self._read: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(num_servers)]
        """The blocks that each server has read, by a hash of all that is before them; those used last are last."""

    def begin(self, prompt: Ids, salt: str) -> int:
        """The number of the server to ask; the request is in flight until `end`.

        >>> router = Router(2)
        >>> [router.begin((1, 2, 3), "salt") for _ in range(4)]
        [0, 1, 0, 1]
        """
        blocks = list(_blocks(prompt, salt))
        most = _MORE + _TIMES * min(self._in_flight)
        free = [number for number, in_flight in enumerate(self._in_flight) if in_flight <= most]
        known = {number: self._num_known(number, blocks) for number in free}
        chosen = min(free, key=lambda number: (-known[number], self._in_flight[number], number))
        self._in_flight[chosen] += 1
        return chosen

    def end(self, server: int) -> None:
        """A request is no longer in flight, whether or not it was answered."""
        self._in_flight[server] -= 1

    def remember(self, server: int, ids: Ids, salt: str) -> None:
        """A server has read these tokens."""
        read = self._read[server]
        for block in reversed(list(_blocks(ids, salt))):  # a block is of no use without those before it
            read[block] = None
            read.move_to_end(block)
        while len(read) > _MOST_BLOCKS:
            read.popitem(last=False)

    def _num_known(self, server: int, blocks: list[int]) -> int:
        """How many blocks from the first one on a server has read."""
        read = self._read[server]
        return next((number for number, block in enumerate(blocks) if block not in read), len(blocks))


def _blocks(ids: Ids, salt: str) -> Iterator[int]:
    """A number for each whole block, which depends on the salt and on all tokens up to its end."""
    block = hash(salt)
    for begin in range(0, len(ids) - _BLOCK + 1, _BLOCK):
        block = hash((block, ids[begin : begin + _BLOCK]))
        yield block
