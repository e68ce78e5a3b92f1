"""Copies weights into a model in place, so that captured CUDA graphs keep their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mage.errors import EngineError


def copy_weights(model: Any, weights: Mapping[str, Tensor]) -> None:
    """Copy `weights` into the model's own tensors. The second name of a tied tensor may be left out."""
    own = model.state_dict()
    unknown = sorted(set(weights) - set(own))
    if unknown:
        raise EngineError(f"the model has no weight called {unknown[0]!r}")
    missing = sorted(set(dict(model.named_parameters())) - set(weights))
    if missing:
        raise EngineError(f"the weight {missing[0]!r} is missing")
    for name, tensor in weights.items():
        if own[name].shape != tensor.shape:
            raise EngineError(f"the weight {name!r} has shape {tuple(own[name].shape)}, not {tuple(tensor.shape)}")
    with torch.no_grad():
        for name, tensor in weights.items():
            own[name].copy_(tensor)
