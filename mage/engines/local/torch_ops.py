"""The decoder's operations in PyTorch, equal to `kernels`, for machines without Triton and for tests."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from mage.engines.local.layout import PassLayout, Shape


def rms_norm(x_TD: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """Root-mean-square normalisation of each row."""
    return functional.rms_norm(x_TD, (x_TD.shape[-1],), weight_D, eps)


def gated(x_TF2: Tensor) -> Tensor:
    """silu(gate) * up, for gate and up concatenated."""
    gate_TF, up_TF = x_TF2.chunk(2, dim=1)
    return functional.silu(gate_TF) * up_TF


def rotate_and_store(
    qkv_TX: Tensor,
    tables: tuple[Tensor, Tensor],
    norms: tuple[Tensor, Tensor] | None,
    eps: float,
    keys_SLX: Tensor,
    values_SLX: Tensor,
    layout: PassLayout,
    shape: Shape,
) -> None:
    """Apply rotary embeddings to queries, in place, and keys; write keys and values to the cache."""
    heads_THD = qkv_TX.view(len(qkv_TX), -1, shape.head_dim)
    query_THD, key_THD, value_THD = torch.split(heads_THD, [shape.query_heads, shape.key_heads, shape.key_heads], dim=1)
    if norms is not None:
        query_THD, key_THD = (rms_norm(x, w, eps) for x, w in zip((query_THD, key_THD), norms, strict=True))
    cosine_T1D, sine_T1D = (table[layout.positions_T][:, None] for table in tables)
    heads_THD[:, : shape.query_heads] = _rotated(query_THD, cosine_T1D, sine_T1D)
    keys_SLX[layout.slots_T, layout.positions_T] = _rotated(key_THD, cosine_T1D, sine_T1D).flatten(1)
    values_SLX[layout.slots_T, layout.positions_T] = value_THD.flatten(1)


def block_sums(logits_RV: Tensor, temperature_R1: Tensor, top_R1: Tensor, block: int) -> Tensor:
    """Sums over blocks of columns of exp((logit - top) / temperature): (R, B) in float64."""
    weights_RV = ((logits_RV - top_R1) / temperature_R1).exp_()
    padded_RV = functional.pad(weights_RV, (0, -weights_RV.shape[1] % block))
    return padded_RV.view(len(padded_RV), -1, block).sum(dim=2, dtype=torch.float64)


def attend(qkv_TX: Tensor, keys_SLX: Tensor, values_SLX: Tensor, layout: PassLayout, shape: Shape) -> Tensor:
    """Causal attention of the new tokens over the cached keys of their rows."""
    query_THD = qkv_TX[:, : shape.query_heads * shape.head_dim].view(len(qkv_TX), -1, shape.head_dim)
    span = int(layout.positions_T.max()) + 1
    key_TLHD, value_TLHD = (
        kept[layout.slots_T, :span].view(len(qkv_TX), span, -1, shape.head_dim) for kept in (keys_SLX, values_SLX)
    )
    mask_TL = torch.arange(span, device=qkv_TX.device) <= layout.positions_T[:, None]
    found_TH1D = functional.scaled_dot_product_attention(
        query_THD[:, :, None],
        key_TLHD.transpose(1, 2),
        value_TLHD.transpose(1, 2),
        attn_mask=mask_TL[:, None, None],
        scale=shape.scale,
        enable_gqa=True,
    )
    return found_TH1D.flatten(1)


def _rotated(x_THD: Tensor, cosine_T1D: Tensor, sine_T1D: Tensor) -> Tensor:
    low, high = x_THD.chunk(2, dim=2)
    return torch.cat((low * cosine_T1D - high * sine_T1D, high * cosine_T1D + low * sine_T1D), dim=2)
