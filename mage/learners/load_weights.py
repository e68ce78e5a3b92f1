"""Copy weights into a model, after checking that they fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from mage.errors import MageError


class LearnError(MageError):
    """Training cannot continue."""


class DivergedError(LearnError):
    """Training has diverged: the loss, its gradient or the weights are of no use any more."""


class RankError(LearnError):
    """A rank of a sharded learner has ended, so that the others cannot go on."""


def with_tied(model: Any, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights under every name that the model has for them; checkpoints store tied weights under one name."""
    own: Mapping[str, Tensor] = model.state_dict()
    by_place = {own[name].data_ptr(): tensor for name, tensor in weights.items() if name in own}
    missing = [name for name, tensor in own.items() if name not in weights and tensor.data_ptr() not in by_place]
    if missing:
        raise LearnError(f"the weights do not fit the model: missing {missing[:3]}")
    return {name: weights[name] if name in weights else by_place[tensor.data_ptr()] for name, tensor in own.items()}


def load_weights(model: Any, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model in place. Tied weights may be given once, as checkpoints store them."""
    own: Mapping[str, Tensor] = model.state_dict()
    given = {own[name].data_ptr() for name in weights if name in own}
    unknown = [name for name in weights if name not in own]
    missing = [name for name, tensor in own.items() if name not in weights and tensor.data_ptr() not in given]
    if unknown or missing:
        raise LearnError(f"the weights do not fit the model: unknown {unknown[:3]}, missing {missing[:3]}")
    for name, tensor in weights.items():
        if tensor.shape != own[name].shape:
            found, needed = tuple(tensor.shape), tuple(own[name].shape)
            raise LearnError(f"the weights do not fit the model: {name} has shape {found}, not {needed}")
    model.load_state_dict(weights, strict=False)
