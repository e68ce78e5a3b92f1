"""The index tables of one forward pass: the new tokens of all rows end to end, without padding.

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
"""Tokens per block of queries: 1 for a decode pass (one new token per row), 16 for prefill."""


class Chunk(NamedTuple):
    """Run `ids[start:]` on a cache slot that already holds `ids[:start]`."""

    slot: int
    start: int
    ids: Ids
    adapter: int = -1
    """The adapter to use; -1 for none."""


class Shape(NamedTuple):
    """The attention heads of a model."""

    query_heads: int
    key_heads: int
    head_dim: int
    scale: float
    """The factor on attention scores."""


class PassLayout(NamedTuple):
    """The tables of one pass, on the device, all int32."""

    ids_T: Tensor
    positions_T: Tensor
    slots_T: Tensor
    adapters_T: Tensor
    """-1 for none."""
    block_first_B: Tensor
    """The first token of a block, as an index into T."""
    block_slot_B: Tensor
    block_position_B: Tensor
    """The position in its row of the first token of a block."""
    block_count_B: Tensor
    last_R: Tensor
    """The last new token of each row, as an index into T."""
    block_tokens: int
    """Most tokens in a block."""


class Sizes(NamedTuple):
    """The lengths of the tables of a pass, padding included."""

    tokens: int
    blocks: int
    rows: int
    block_tokens: int

    @property
    def numbers(self) -> int:
        """The length of all tables end to end."""
        return 4 * self.tokens + 4 * self.blocks + self.rows


def sizes_of(chunks: Sequence[Chunk]) -> Sizes:
    """The exact sizes of a pass."""
    counts = [len(chunk.ids) - chunk.start for chunk in chunks]
    block_tokens = DECODE_BLOCK if max(counts) == 1 else READ_BLOCK
    return Sizes(sum(counts), sum(-(-count // block_tokens) for count in counts), len(chunks), block_tokens)


def rounded(sizes: Sizes) -> Sizes:
    """The sizes of the smallest captured graph that fits these: rounding keeps the number of graphs small."""
    rows = _power(sizes.rows)
    if sizes.block_tokens == DECODE_BLOCK:
        return Sizes(rows, rows, rows, DECODE_BLOCK)
    tokens = _quarter(sizes.tokens)
    return Sizes(tokens, tokens // READ_BLOCK + rows, rows, READ_BLOCK)


def aligned(sizes: Sizes) -> Sizes:
    """Sizes with all tables aligned to 16 bytes: Triton would compile kernels again for other alignments."""
    tokens, blocks, rows = (-(-number // 4) * 4 for number in sizes[:3])
    return Sizes(tokens, blocks, rows, sizes.block_tokens)


def table_of(chunks: Sequence[Chunk], sizes: Sizes, sink: int) -> np.ndarray[Any, Any]:
    """The tables of a pass end to end; padding is written to the slot `sink`, which is never read."""
    counts = np.array([len(chunk.ids) - chunk.start for chunk in chunks])
    starts = np.array([chunk.start for chunk in chunks])
    slots = np.array([chunk.slot for chunk in chunks])
    ends = np.cumsum(counts)
    firsts = ends - counts
    num_tokens = int(ends[-1])
    num_blocks_R = -(-counts // sizes.block_tokens)
    within = np.arange(num_blocks_R.sum()) - np.repeat(np.cumsum(num_blocks_R) - num_blocks_R, num_blocks_R)
    skipped = within * sizes.block_tokens
    tables = (
        (sizes.tokens, np.fromiter(chain.from_iterable(c.ids[c.start :] for c in chunks), np.int64, num_tokens), 0),
        (sizes.tokens, np.arange(num_tokens) - np.repeat(firsts - starts, counts), 0),
        (sizes.tokens, np.repeat(slots, counts), sink),
        (sizes.tokens, np.repeat([chunk.adapter for chunk in chunks], counts), -1),
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


def layout_of(table: Tensor, sizes: Sizes) -> PassLayout:
    """The tables as views of the tensor that holds them end to end."""
    tokens, blocks, rows, block_tokens = sizes
    parts = torch.split(table, [tokens] * 4 + [blocks] * 4 + [rows])
    return PassLayout(*parts, block_tokens)  # type: ignore[call-arg,arg-type]


def _quarter(number: int) -> int:
    """The least of 64, 128, …, 512, 640, …, 1024, 1280, … that is not below `number`: at most a fifth is padding.

    >>> [_quarter(number) for number in (1, 65, 500, 513, 1000, 8449)]
    [64, 128, 512, 640, 1024, 10240]
    """
    step = max(512, 1 << (number - 1).bit_length()) // 8
    return -(-number // step) * step


def _power(number: int) -> int:
    """The least power of two that is not below `number`, and not below 4."""
    return max(4, 1 << (number - 1).bit_length())
