"""What one forward pass reads: the new tokens of all rows side by side, and tables that say which row is where.

Axis letters: T new tokens, B blocks of queries, R rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

Ids = tuple[int, ...]

DECODE_BLOCK, READ_BLOCK = 1, 16
"""Tokens per block of queries: one where every row has one new token, more where rows are read."""


class Chunk(NamedTuple):
    """Read `ids[start:]` into a slot that has read `ids[:start]`."""

    slot: int
    start: int
    ids: Ids
    adapter: int = -1
    """Which adapter reads them; -1 for none."""


class Shape(NamedTuple):
    """The heads of a model."""

    query_heads: int
    key_heads: int
    head_dim: int
    scale: float
    """What scores are multiplied by."""


class PassLayout(NamedTuple):
    """The tables of one pass, on the device, all int32."""

    ids_T: Tensor
    positions_T: Tensor
    slots_T: Tensor
    adapters_T: Tensor
    """-1 where there is none."""
    block_first_B: Tensor
    """The first token of a block, as an index into T."""
    block_slot_B: Tensor
    block_position_B: Tensor
    """Where in its row the first token of a block stands."""
    block_count_B: Tensor
    last_R: Tensor
    """The last new token of each row, as an index into T."""
    block_tokens: int
    """Most tokens in a block."""


class Sizes(NamedTuple):
    """How long the tables of a plan are, padding included."""

    tokens: int
    blocks: int
    rows: int
    block_tokens: int

    @property
    def numbers(self) -> int:
        """All tables laid end to end."""
        return 4 * self.tokens + 4 * self.blocks + self.rows


def sizes_of(chunks: Sequence[Chunk]) -> Sizes:
    """The exact sizes of a pass."""
    counts = [len(work.ids) - work.start for work in chunks]
    block_tokens = DECODE_BLOCK if max(counts) == 1 else READ_BLOCK
    return Sizes(sum(counts), sum(-(-count // block_tokens) for count in counts), len(chunks), block_tokens)


def rounded(sizes: Sizes) -> Sizes:
    """Sizes of few kinds, that hold these: what a captured graph is made for."""
    rows = _power(sizes.rows)
    if sizes.block_tokens == DECODE_BLOCK:
        return Sizes(rows, rows, rows, DECODE_BLOCK)
    tokens = _quarter(sizes.tokens)
    return Sizes(tokens, tokens // READ_BLOCK + rows, rows, READ_BLOCK)


def aligned(sizes: Sizes) -> Sizes:
    """Sizes whose tables all begin at multiples of 16 bytes: kernels are compiled for that once, and not otherwise."""
    tokens, blocks, rows = (-(-number // 4) * 4 for number in sizes[:3])
    return Sizes(tokens, blocks, rows, sizes.block_tokens)


def table_of(chunks: Sequence[Chunk], sizes: Sizes, sink: int) -> np.ndarray[Any, Any]:
    """The tables of a pass laid end to end; what is padded is read into the slot `sink` and looked at by nobody."""
    counts = np.array([len(work.ids) - work.start for work in chunks])
    starts = np.array([work.start for work in chunks])
    slots = np.array([work.slot for work in chunks])
    ends = np.cumsum(counts)
    firsts = ends - counts
    num_tokens = int(ends[-1])
    num_blocks_R = -(-counts // sizes.block_tokens)
    within = np.arange(num_blocks_R.sum()) - np.repeat(np.cumsum(num_blocks_R) - num_blocks_R, num_blocks_R)
    skipped = within * sizes.block_tokens
    tables = (
        (sizes.tokens, np.fromiter(chain.from_iterable(w.ids[w.start :] for w in chunks), np.int64, num_tokens), 0),
        (sizes.tokens, np.arange(num_tokens) - np.repeat(firsts - starts, counts), 0),
        (sizes.tokens, np.repeat(slots, counts), sink),
        (sizes.tokens, np.repeat([work.adapter for work in chunks], counts), -1),
        (sizes.blocks, np.repeat(firsts, num_blocks_R) + skipped, 0),
        (sizes.blocks, np.repeat(slots, num_blocks_R), sink),
        (sizes.blocks, np.repeat(starts, num_blocks_R) + skipped, 0),
        (sizes.blocks, np.minimum(np.repeat(counts, num_blocks_R) - skipped, sizes.block_tokens), 0),
        (sizes.rows, ends - 1, 0),
    )
    table = np.empty(sizes.numbers, np.int32)
    at = 0
    for size, values, padding in tables:
        table[at : at + len(values)] = values
        table[at + len(values) : at + size] = padding
        at += size
    return table


def plan_of(table: Tensor, sizes: Sizes) -> PassLayout:
    """The tables as views of the tensor that holds them end to end."""
    tokens, blocks, rows, block_tokens = sizes
    parts = torch.split(table, [tokens] * 4 + [blocks] * 4 + [rows])
    return PassLayout(*parts, block_tokens)  # type: ignore[call-arg,arg-type]


def _quarter(number: int) -> int:
    """The least of 64, 128, …, 512, 640, …, 1024, 1280, … that is not below `number`: a fifth of many is padding.

    >>> [_quarter(number) for number in (1, 65, 500, 513, 1000, 8449)]
    [64, 128, 512, 640, 1024, 10240]
    """
    step = max(512, 1 << (number - 1).bit_length()) // 8
    return -(-number // step) * step


def _power(number: int) -> int:
    """The least power of two that is not below `number`, and not below 4."""
    return max(4, 1 << (number - 1).bit_length())
