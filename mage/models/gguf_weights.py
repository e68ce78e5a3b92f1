"""Shape and weights of a GGUF file, as transformers has them: Llama and Mistral, Qwen2 and Qwen3."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, Qwen2Config, Qwen3Config

from mage.errors import ConfigError, listing
from mage.models.gguf_fields import sizes, value

_CONFIGS: dict[str, Any] = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}
"""By `general.architecture`; Mistral's files say llama."""
_PARTS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}
_OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_ROPE_FACTORS = "rope_freqs.weight"
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""What all models of Llama 3.1 to 3.3 have; the file has the factors that follow from it."""


def model_config(reader: Any, end: int) -> PreTrainedConfig:
    """The config of the model in transformers; `end` is the token that ends a turn."""
    kind = str(value(reader, "general.architecture"))
    if kind not in _CONFIGS:
        raise ConfigError(f"its architecture is {kind}; known: {listing(_CONFIGS)} (Mistral's files say llama)")
    found = sizes(reader)
    head_dim = found["head_dim"]
    if (turned := int(value(reader, f"{kind}.rope.dimension_count", head_dim))) != head_dim:
        raise ConfigError(f"it turns {turned} of {head_dim} dimensions of a head; all of them can be used, or none")
    made: PreTrainedConfig = _CONFIGS[kind](
        architectures=[f"{_CONFIGS[kind].__name__.removesuffix('Config')}ForCausalLM"],
        dtype="float32",
        **{name: size for name, size in found.items() if name != "model_type"},
        rms_norm_eps=float(f"{value(reader, f'{kind}.attention.layer_norm_rms_epsilon'):.6g}"),
        rope_parameters=_rope(reader, kind, head_dim),
        bos_token_id=int(value(reader, "tokenizer.ggml.bos_token_id", end)),
        eos_token_id=end,
        pad_token_id=None,  # it would be the end token, whose embedding would then not be trained
    )
    return made


def _rope(reader: Any, kind: str, head_dim: int) -> dict[str, Any]:
    theta = float(value(reader, f"{kind}.rope.freq_base", 10000.0))
    scaling = str(value(reader, f"{kind}.rope.scaling.type", "linear" if _is_slowed(reader, kind) else "none"))
    factors = next((tensor for tensor in reader.tensors if tensor.name == _ROPE_FACTORS), None)
    if scaling != "none":
        raise ConfigError(f"its rotary positions are scaled ({scaling}), which is not supported")
    if factors is None:
        return {"rope_type": "default", "rope_theta": theta}
    found = torch.from_numpy(factors.data.copy()).float().flatten()
    params = {"rope_type": "llama3", "rope_theta": theta, "factor": round(float(found.max())), **_LLAMA3}
    if not torch.allclose(found, _llama3_factors(params, head_dim), rtol=1e-4):
        raise ConfigError(f"its rotary positions ({_ROPE_FACTORS}) are not those of Llama 3.1 to 3.3")
    return params


def _is_slowed(reader: Any, kind: str) -> bool:
    """Whether positions have a factor; without a type, and under the name of older files, it is a linear one."""
    return any(float(value(reader, f"{kind}.rope.{key}", 1.0)) != 1.0 for key in ("scaling.factor", "scale_linear"))


def _llama3_factors(params: dict[str, Any], head_dim: int) -> torch.Tensor:
    """By pair of dimensions, how much slower it is turned: 1 for short waves, `factor` for long ones."""
    turns = torch.pow(params["rope_theta"], torch.arange(0, head_dim, 2) / head_dim)
    length = 2 * math.pi * turns
    low, high = params["low_freq_factor"], params["high_freq_factor"]
    share = (params["original_max_position_embeddings"] / length - low) / (high - low)
    smooth = share.clamp(0, 1)
    factors: torch.Tensor = 1 / ((1 - smooth) / params["factor"] + smooth)
    return factors


def model_weights(reader: Any, config: PreTrainedConfig) -> dict[str, torch.Tensor]:
    """The dequantised weights by their names in transformers, float32."""
    from gguf import dequantize

    weights: dict[str, torch.Tensor] = {}
    for tensor in reader.tensors:
        if tensor.name == _ROPE_FACTORS:
            continue
        name = transformers_name(tensor.name)
        numbers = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()).float()
        if config.model_type == "llama":
            numbers = _rope_in_halves(name, numbers, config)
        weights[name] = numbers.contiguous()
    _check_complete(weights, config)
    return weights


def _check_complete(weights: Mapping[str, torch.Tensor], config: PreTrainedConfig) -> None:
    """Raise a ConfigError where the weights are not those of a model of this config.

    transformers would leave out a weight that its model does not have, such as a bias in Llama's attention.
    """
    if config.num_hidden_layers > len(weights):
        raise ConfigError(f"it says that it has {config.num_hidden_layers} layers, and has {len(weights)} weights")
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    if others := sorted(set(weights) - set(shapes)):
        kind = f"a {config.model_type} model of {config.num_hidden_layers} layers"
        raise ConfigError(f"it has weights {others[0]}, which {kind} does not have")
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    for name in sorted(set(shapes) - tied):
        if name not in weights:
            raise ConfigError(f"it has no weights {name}")
        found, expected = list(weights[name].shape), list(shapes[name])
        if found != expected:
            raise ConfigError(f"its weights {name} have the shape {found}, and by its sizes {expected}")


def transformers_name(name: str) -> str:
    """The name of a GGUF tensor in transformers.

    >>> transformers_name("blk.7.ffn_up.weight"), transformers_name("blk.0.attn_q.bias")
    ('model.layers.7.mlp.up_proj.weight', 'model.layers.0.self_attn.q_proj.bias')
    """
    if name in _OUTER:
        return _OUTER[name]
    block, _, rest = name.partition(".")
    layer, _, rest = rest.partition(".")
    part, _, kind = rest.partition(".")
    if block != "blk" or part not in _PARTS or kind not in ("weight", "bias"):
        raise ConfigError(f"it has weights {name}, which Llama, Mistral, Qwen2 and Qwen3 do not have")
    return f"model.layers.{layer}.{_PARTS[part]}.{kind}"


def _rope_in_halves(name: str, numbers: torch.Tensor, config: PreTrainedConfig) -> torch.Tensor:
    """Reorder rotary dimensions: transformers pairs the first half with the second, Llama's files pair neighbours."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
    if heads is None:
        return numbers
    return numbers.reshape(heads, -1, 2, *numbers.shape[1:]).transpose(1, 2).reshape(numbers.shape)
