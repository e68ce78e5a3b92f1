"""Sets of squares or cells as integers whose bit n stands for number n."""

from __future__ import annotations

from collections.abc import Iterator


def cells_in(mask: int) -> Iterator[int]:
    """The numbers in a set, ascending.

    >>> list(cells_in(0b1010))
    [1, 3]
    """
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
