"""The forward pass of Llama, Qwen2, Qwen3 and Mistral models, for rows of different lengths and few kernel launches.

The weights are shared with the transformers model: its projections become views of fused matrices, so weights that
are copied into the model by name need no second copy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from mage.engines.local.adapters import AdapterCapacity, Adapters, StackedLowRank
from mage.engines.local.layout import PassLayout, Shape
from mage.engines.local.ops import ops_for

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
_HEAD_DIMS = (16, 32, 64, 128, 256)
_STATIC_ROPE = ("default", "linear", "llama3", "yarn")


class Linear(NamedTuple):
    """A weight, an optional bias, and optional low-rank matrices of several adapters."""

    weight: Tensor
    bias: Tensor | None
    low: StackedLowRank | None


class Layer(NamedTuple):
    """The weights of one layer."""

    norm_before: Tensor
    qkv: Linear
    head_norms: tuple[Tensor, Tensor] | None
    out: Linear
    norm_between: Tensor
    gate_up: Linear
    down: Linear


class FusedModel:
    """Runs new tokens of many rows, extends their KV cache and returns the logits after the last token of each."""

    def __init__(self, model: Any, num_slots: int, length: int, capacity: AdapterCapacity | None = None) -> None:
        config = model.config
        weight = model.get_input_embeddings().weight
        attention = model.model.layers[0].self_attn
        self.shape = Shape(
            config.num_attention_heads, config.num_key_value_heads, attention.head_dim, float(attention.scaling)
        )
        self.device: torch.device = weight.device
        self.dtype: torch.dtype = weight.dtype
        self._ops = ops_for(weight.device)
        self._embedding = weight
        self.adapters = Adapters(capacity, weight) if capacity is not None else None
        named = enumerate(model.model.layers)
        self._layers = [_fused_layer(layer, f"model.layers.{number}", self.adapters) for number, layer in named]
        self._norm = model.model.norm.weight
        self._head = Linear(model.lm_head.weight, model.lm_head.bias, None)
        self._eps = float(config.rms_norm_eps)
        self._tables = _rope_tables(model, length)
        shape_SLX = (num_slots, length, self.shape.key_heads * self.shape.head_dim)
        # Zeros, not empty: masked entries are multiplied by zero and must be finite.
        self.cache = torch.zeros(len(self._layers), 2, *shape_SLX, dtype=self.dtype, device=self.device)

    def logits(self, layout: PassLayout) -> Tensor:
        """Logits (R, V) after the last new token of each row, in float32."""
        ops, eps = self._ops, self._eps
        x_TD = functional.embedding(layout.ids_T, self._embedding)
        mask_TK = None if self.adapters is None else self.adapters.owner_mask(layout.adapters_T)
        for layer, (keys, values) in zip(self._layers, self.cache, strict=True):
            qkv = _projected(ops.rms_norm(x_TD, layer.norm_before, eps), layer.qkv, mask_TK)
            ops.rotate_and_store(qkv, self._tables, layer.head_norms, eps, keys, values, layout, self.shape)
            x_TD = _add_projection(x_TD, ops.attend(qkv, keys, values, layout, self.shape), layer.out, mask_TK)
            wide = _projected(ops.rms_norm(x_TD, layer.norm_between, eps), layer.gate_up, mask_TK)
            x_TD = _add_projection(x_TD, ops.gated(wide), layer.down, mask_TK)
        last_RD = ops.rms_norm(x_TD.index_select(0, layout.last_R), self._norm, eps)
        return _logits(last_RD, self._head)


def unsupported_reason(model: Any) -> str | None:
    """Why a model cannot use this forward pass, by its config; None if it can."""
    config = model.config
    if config.model_type not in MODEL_TYPES:
        return f"its type is {config.model_type}, not one of {', '.join(MODEL_TYPES)}"
    if getattr(config, "hidden_act", "silu") != "silu":
        return f"its activation is {config.hidden_act}, not silu"
    head_dim = model.model.layers[0].self_attn.head_dim
    if model.get_input_embeddings().weight.device.type == "cuda" and head_dim not in _HEAD_DIMS:
        return f"its heads have {head_dim} dimensions, not one of {', '.join(map(str, _HEAD_DIMS))}"
    kind = getattr(model.model.rotary_emb, "rope_type", "default")
    if kind not in _STATIC_ROPE:
        return f"its rotation of positions is {kind}"
    return None


def _fused_layer(layer: Any, name: str, adapters: Adapters | None) -> Layer:
    attention = layer.self_attn

    def fused(part: str, *projections: str) -> Linear:
        modules = [getattr(getattr(layer, part), projection) for projection in projections]
        weight, bias = _concatenated(*modules)
        names = [f"{name}.{part}.{projection}" for projection in projections]
        outs = [module.weight.shape[0] for module in modules]
        return Linear(weight, bias, None if adapters is None else adapters.add(names, weight.shape[1], outs))

    norms = (attention.q_norm.weight, attention.k_norm.weight) if hasattr(attention, "q_norm") else None
    return Layer(
        norm_before=layer.input_layernorm.weight,
        qkv=fused("self_attn", "q_proj", "k_proj", "v_proj"),
        head_norms=norms,
        out=fused("self_attn", "o_proj"),
        norm_between=layer.post_attention_layernorm.weight,
        gate_up=fused("mlp", "gate_proj", "up_proj"),
        down=fused("mlp", "down_proj"),
    )


def _concatenated(*modules: Any) -> tuple[Tensor, Tensor | None]:
    """One matrix for several projections of the same input; the modules' weights become views of it."""
    if len(modules) == 1:
        return modules[0].weight, modules[0].bias
    weight = torch.cat([module.weight.data for module in modules])
    sizes = [module.weight.shape[0] for module in modules]
    for module, part in zip(modules, torch.split(weight, sizes), strict=True):
        module.weight.data = part
    if modules[0].bias is None:
        return weight, None
    bias = torch.cat([module.bias.data for module in modules])
    for module, part in zip(modules, torch.split(bias, sizes), strict=True):
        module.bias.data = part
    return weight, bias


def _projected(x_TD: Tensor, linear: Linear, mask_TK: Tensor | None) -> Tensor:
    weight, bias, low = linear
    y_TF = functional.linear(x_TD, weight, bias)
    return y_TF if low is None or mask_TK is None else low.add_to(y_TF, x_TD, mask_TK)


def _logits(x_RD: Tensor, head: Linear) -> Tensor:
    """Logits in float32, not rounded to bfloat16: near 20, bfloat16 has steps of 1/8."""
    weight, bias, _ = head
    if x_RD.dtype is torch.float32:
        return functional.linear(x_RD, weight, bias)
    if x_RD.device.type == "cuda":
        logits_RV = torch.mm(x_RD, weight.t(), out_dtype=torch.float32)
    else:
        logits_RV = x_RD.float() @ weight.float().t()
    return logits_RV if bias is None else logits_RV + bias


def _add_projection(x_TD: Tensor, y_TF: Tensor, linear: Linear, mask_TK: Tensor | None) -> Tensor:
    """Add a projection to the residual stream, in place."""
    weight, bias, low = linear
    x_TD = (x_TD if bias is None else x_TD.add_(bias)).addmm_(y_TF, weight.t())
    return x_TD if low is None or mask_TK is None else low.add_to(x_TD, y_TF, mask_TK)


@torch.no_grad()
def _rope_tables(model: Any, length: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of all positions for one half of a head, computed by the model's rotary module."""
    weight = model.get_input_embeddings().weight
    positions = torch.arange(length, device=weight.device)[None]
    cosine, sine = model.model.rotary_emb(weight[:1, None], positions)
    half = cosine.shape[-1] // 2
    return cosine[0, :, :half].contiguous(), sine[0, :, :half].contiguous()
