"""Models of known shapes with random weights: speed does not depend on what the weights are."""

from __future__ import annotations

from typing import Any

import msgspec
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from mage.planning.shapes import Shape, shape_of

_TINY = {"vocab_size": 8192, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
_TINY_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}


def random_shape(name: str, *, tiny: bool = False) -> Shape:
    """A shape that `mage plan` knows; with `tiny`, a model of its kind to try a script with."""
    found = shape_of(name)
    return msgspec.structs.replace(found, **_TINY, **_TINY_HEADS) if tiny else found


def random_model(shape: Shape, device: torch.device | str, dtype: torch.dtype = torch.bfloat16) -> Any:
    """A model of this shape, made where it will be used."""
    sizes = msgspec.structs.asdict(shape)
    kind = sizes.pop("model_type")
    for name in ("name", "source", "mlp_bias", "attention_bias"):
        del sizes[name]
    with torch.device(device):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes), dtype=dtype)  # type: ignore[no-untyped-call]
