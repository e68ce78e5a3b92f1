"""Triton kernels of the decoder: attention over cached rows of different lengths, and the operations around it.

Rows are not padded: the new tokens of all rows are end to end (axis T), and every program finds its row in a table.
Key heads are not repeated for grouped queries: the queries of a group share one tile.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,unused-ignore"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from mage.engines.local.layout import PassLayout, Shape

_TOKENS = 8
"""Tokens per program of `_rotate_and_store`: with one each, launching programs would dominate."""


def rms_norm(x_TD: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """Root-mean-square normalisation of each row."""
    out_TD = torch.empty_like(x_TD)
    width = x_TD.shape[1]
    _rms_norm[(x_TD.shape[0],)](x_TD, weight_D, out_TD, width, eps, WIDTH=triton.next_power_of_2(width))
    return out_TD


def gated(x_TF2: Tensor) -> Tensor:
    """silu(gate) * up, for gate and up concatenated."""
    rows, width = x_TF2.shape[0], x_TF2.shape[1] // 2
    out_TF = x_TF2.new_empty(rows, width)
    block = 1024
    _gated[(rows, triton.cdiv(width, block))](x_TF2, out_TF, width, BLOCK=block)
    return out_TF


def rotate_and_store(
    qkv_TX: Tensor,
    tables: tuple[Tensor, Tensor],
    norms: tuple[Tensor, Tensor] | None,
    eps: float,
    keys_SLX: Tensor,
    values_SLX: Tensor,
    plan: PassLayout,
    shape: Shape,
) -> None:
    """Apply rotary embeddings to queries, in place, and keys; write keys and values to the cache."""
    q_norm, k_norm = norms or (qkv_TX, qkv_TX)
    num_tokens = qkv_TX.shape[0]
    _rotate_and_store[(triton.cdiv(num_tokens, _TOKENS), shape.query_heads + 2 * shape.key_heads)](
        qkv_TX,
        tables[0],
        tables[1],
        q_norm,
        k_norm,
        keys_SLX,
        values_SLX,
        plan.slots_T,
        plan.positions_T,
        num_tokens,
        eps,
        keys_SLX.stride(0),
        keys_SLX.stride(1),
        qkv_TX.stride(0),
        QUERY_HEADS=shape.query_heads,
        KEY_HEADS=shape.key_heads,
        HALF=shape.head_dim // 2,
        HAS_NORM=norms is not None,
        TOKENS=_TOKENS,
        num_warps=1,
    )


def block_sums(logits_RV: Tensor, temperature_R1: Tensor, top_R1: Tensor, block: int) -> Tensor:
    """Sums over blocks of columns of exp((logit - top) / temperature): (R, B) in float64."""
    rows, width = logits_RV.shape
    num_blocks, blocks = triton.cdiv(width, block), 8
    sums_RB = torch.empty(rows, num_blocks, dtype=torch.float64, device=logits_RV.device)
    _block_sums[(rows, triton.cdiv(num_blocks, blocks))](
        logits_RV, temperature_R1, top_R1, sums_RB, width, num_blocks, logits_RV.stride(0), BLOCK=block, BLOCKS=blocks
    )
    return sums_RB


def attend(qkv_TX: Tensor, keys_SLX: Tensor, values_SLX: Tensor, plan: PassLayout, shape: Shape) -> Tensor:
    """Causal attention of the new tokens over the cached keys of their rows."""
    out_TX = qkv_TX.new_empty(qkv_TX.shape[0], shape.query_heads * shape.head_dim)
    group = shape.query_heads // shape.key_heads
    padded_group = triton.next_power_of_2(group)
    is_narrow = plan.block_tokens * padded_group <= 16
    _attend[(plan.block_first_B.shape[0], shape.key_heads)](
        qkv_TX,
        keys_SLX,
        values_SLX,
        out_TX,
        plan.block_first_B,
        plan.block_slot_B,
        plan.block_position_B,
        plan.block_count_B,
        shape.scale * 1.4426950408889634,
        qkv_TX.stride(0),
        out_TX.stride(0),
        keys_SLX.stride(0),
        keys_SLX.stride(1),
        GROUP=group,
        PADDED_GROUP=padded_group,
        DIM=shape.head_dim,
        ROWS=max(16, plan.block_tokens * padded_group),
        COLUMNS=64 if is_narrow or shape.head_dim <= 64 else 32,
        PRECISION="ieee" if qkv_TX.dtype is torch.float32 else "tf32",
        num_warps=2 if is_narrow else 4,
    )
    return out_TX


@triton.jit
def _rms_norm(x, weight, out, width, eps, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, WIDTH)
    inside = columns < width
    values = tl.load(x + row * width + columns, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values) / width + eps)
    factors = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * width + columns, values * scale * factors, mask=inside)


@triton.jit
def _gated(x, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    gate = tl.load(x + row * 2 * width + columns, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x + row * 2 * width + width + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * width + columns, gate * tl.sigmoid(gate) * up, mask=inside)


@triton.jit
def _rotate_and_store(
    qkv,
    cosines,
    sines,
    q_norm,
    k_norm,
    keys,
    values,
    slots,
    positions,
    num_tokens,
    eps,
    slot_stride,
    place_stride,
    row_stride,
    QUERY_HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    HAS_NORM: tl.constexpr,
    TOKENS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    head = tl.program_id(1)
    inside = token < num_tokens
    is_real = inside[:, None]
    half = tl.arange(0, HALF)
    source = qkv + token[:, None] * row_stride + head * 2 * HALF + half[None, :]
    low = tl.load(source, mask=is_real, other=0.0).to(tl.float32)
    high = tl.load(source + HALF, mask=is_real, other=0.0).to(tl.float32)
    slot = tl.load(slots + token, mask=inside, other=0).to(tl.int64)
    position = tl.load(positions + token, mask=inside, other=0).to(tl.int64)
    place = (slot * slot_stride + position * place_stride)[:, None] + half[None, :]
    if head >= QUERY_HEADS + KEY_HEADS:
        target = values + place + (head - QUERY_HEADS - KEY_HEADS) * 2 * HALF
        tl.store(target, low, mask=is_real)
        tl.store(target + HALF, high, mask=is_real)
    else:
        if HAS_NORM:
            squares = tl.sum(low * low, 1) + tl.sum(high * high, 1)
            scale = tl.rsqrt(squares / (2 * HALF) + eps)[:, None]
            factors = q_norm if head < QUERY_HEADS else k_norm
            low = low * scale * tl.load(factors + half).to(tl.float32)[None, :]
            high = high * scale * tl.load(factors + HALF + half).to(tl.float32)[None, :]
        turn = position[:, None] * HALF + half[None, :]
        cosine = tl.load(cosines + turn, mask=is_real, other=0.0).to(tl.float32)
        sine = tl.load(sines + turn, mask=is_real, other=0.0).to(tl.float32)
        target = source
        if head >= QUERY_HEADS:
            target = keys + place + (head - QUERY_HEADS) * 2 * HALF
        tl.store(target, low * cosine - high * sine, mask=is_real)
        tl.store(target + HALF, high * cosine + low * sine, mask=is_real)


@triton.jit
def _block_sums(
    logits, temperatures, tops, sums, width, num_blocks, row_stride, BLOCK: tl.constexpr, BLOCKS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    columns = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    values = tl.load(logits + row * row_stride + columns, mask=columns < width, other=float("-inf"))
    weights = tl.exp((values - tl.load(tops + row)) / tl.load(temperatures + row))
    tl.store(sums + row * num_blocks + block, tl.sum(weights.to(tl.float64), 1), mask=block < num_blocks)


@triton.jit
def _attend(
    qkv,
    keys,
    values,
    out,
    block_first,
    block_slot,
    block_position,
    block_count,
    scale,
    query_stride,
    out_stride,
    slot_stride,
    place_stride,
    GROUP: tl.constexpr,
    PADDED_GROUP: tl.constexpr,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block = tl.program_id(0)
    head = tl.program_id(1)
    first = tl.load(block_first + block).to(tl.int64)
    slot = tl.load(block_slot + block).to(tl.int64)
    position = tl.load(block_position + block)
    count = tl.load(block_count + block)
    rows = tl.arange(0, ROWS)
    token = rows // PADDED_GROUP
    member = rows % PADDED_GROUP
    is_real = (token < count) & (member < GROUP)
    dims = tl.arange(0, DIM)
    heads = head * GROUP + member
    offsets = (first + token)[:, None] * query_stride + heads[:, None] * DIM + dims[None, :]
    query = tl.load(qkv + offsets, mask=is_real[:, None], other=0.0)
    top = tl.full([ROWS], -1.0e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    found = tl.zeros([ROWS, DIM], tl.float32)
    base = slot * slot_stride + head * DIM
    end = position + count
    for start in range(0, end, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        inside = columns < end
        places = base + columns.to(tl.int64) * place_stride
        key = tl.load(keys + places[None, :] + dims[:, None], mask=inside[None, :], other=0.0)
        score = tl.dot(query, key, input_precision=PRECISION) * scale
        score = tl.where(columns[None, :] <= (position + token)[:, None], score, -1.0e30)
        higher = tl.maximum(top, tl.max(score, 1))
        shrink = tl.exp2(top - higher)
        weight = tl.exp2(score - higher[:, None])
        value = tl.load(values + places[:, None] + dims[None, :], mask=inside[:, None], other=0.0)
        total = total * shrink + tl.sum(weight, 1)
        found = found * shrink[:, None] + tl.dot(weight.to(value.dtype), value, input_precision=PRECISION)
        top = higher
    target = out + (first + token)[:, None] * out_stride + heads[:, None] * DIM + dims[None, :]
    tl.store(target, found / total[:, None], mask=is_real[:, None])
