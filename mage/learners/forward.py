"""The forward pass of the learner: hidden states of whole sequences, log-probabilities of trained tokens."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from mage.errors import ConfigError
from mage.learners.batch import MicroBatch
from mage.learners.lm_head import Head, HeadKind
from mage.learners.losses import Regulariser, TokenStats

_RECOMPILE_LIMIT = 32


class PolicyModel:
    """A causal language model and its head. Sequences are padded on the right, which causal attention ignores."""

    def __init__(self, model: Any, temperature: float, *, compiled: bool, kind: HeadKind | None = None) -> None:
        self.model = model
        self._head = Head(model, temperature, compiled=compiled, kind=kind)
        if compiled:
            compile_layers(model)

    def set_temperature(self, temperature: float) -> None:
        """Set the temperature that tokens were sampled at."""
        self._head.temperature = temperature

    def hidden(self, batch: MicroBatch) -> Tensor:
        """Hidden states at the positions that predict trained tokens, (N, D)."""
        return self.states(batch)[batch.rows_N, batch.before_N]

    def states(self, batch: MicroBatch) -> Tensor:
        """Hidden states at all positions, (B, T, D).

        No mask is passed: only then does attention use the fast kernel, without repeating keys for grouped queries.
        """
        states_BTD: Tensor = self.model.model(input_ids=batch.tokens_BT, use_cache=False).last_hidden_state
        return states_BTD

    def predict(self, states_BTD: Tensor, batch: MicroBatch) -> Tensor:
        """Log-probabilities of the tokens of the prediction loss, over the whole vocabulary."""
        rows_P, before_P = batch.text_rows_P, batch.text_before_P
        return self._head.predict(states_BTD[rows_P, before_P], batch.tokens_BT[rows_P, before_P + 1])

    def read(self, hidden_ND: Tensor, batch: MicroBatch, regularisers: Sequence[Regulariser] = ()) -> TokenStats:
        """Log-probabilities of the trained tokens, entropies and regularisers, all over the allowed ids."""
        return self._head.read(hidden_ND, batch, regularisers)


def is_compiled(setting: str | bool, device: torch.device) -> bool:
    """Whether to compile decoder layers: `auto` is true on CUDA where Triton is installed."""
    if setting == "auto":
        return device.type == "cuda" and find_spec("triton") is not None
    return bool(setting)


def compile_layers(model: Any, backend: str | Any = "inductor") -> None:
    """Compile the decoder layers; one compilation serves all layers and all sequence lengths."""
    layers = getattr(model.model, "layers", None)
    if layers is None:
        raise ConfigError(f"learner.compile = true: {type(model).__name__} has no decoder layers to compile")
    # With and without gradients, with and without adapters, batches of one and more: above the default limit.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _RECOMPILE_LIMIT)
    for layer in layers:
        layer.compile(dynamic=True, backend=backend)


def checkpoint_layers(model: Any) -> None:
    """Enable gradient checkpointing: keep only each layer's input and recompute the rest in the backward pass."""
    try:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.disable_input_require_grads()  # only reentrant checkpointing needs them
    except ValueError as error:
        raise ConfigError(f"learner.gradient_checkpointing = true: {str(error).splitlines()[0]}") from None
