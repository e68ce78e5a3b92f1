"""A causal language model as the learner sees it: hidden states of whole sequences, read where tokens are trained."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from mage.errors import ConfigError
from mage.learners.batch import MicroBatch
from mage.learners.head import Head
from mage.learners.losses import Regulariser, TokenStats

_MAX_KINDS = 32


class PolicyModel:
    """A model and its head. Sequences are padded on the right, where causal attention does not look."""

    def __init__(self, model: Any, temperature: float, *, compiled: bool) -> None:
        self.model = model
        self._head = Head(model, temperature, compiled=compiled)
        if compiled:
            compile_layers(model)

    def set_temperature(self, temperature: float) -> None:
        """Read tokens from now on as sampled at another temperature."""
        self._head.temperature = temperature

    def hidden(self, batch: MicroBatch) -> Tensor:
        """Hidden states where trained tokens are predicted, (N, D): logits are computed nowhere else."""
        return self.states(batch)[batch.rows_N, batch.before_N]

    def states(self, batch: MicroBatch) -> Tensor:
        """Hidden states everywhere, (B, T, D).

        No mask is given: only then does attention take the fast kernel, with keys that are not repeated for their
        groups of queries.
        """
        states_BTD: Tensor = self.model.model(input_ids=batch.tokens_BT, use_cache=False).last_hidden_state
        return states_BTD

    def predict(self, states_BTD: Tensor, batch: MicroBatch) -> Tensor:
        """Log-probabilities of the text, out of the whole vocabulary."""
        rows_P, before_P = batch.text_rows_P, batch.text_before_P
        return self._head.predict(states_BTD[rows_P, before_P], batch.tokens_BT[rows_P, before_P + 1])

    def read(self, hidden_ND: Tensor, batch: MicroBatch, regularisers: Sequence[Regulariser] = ()) -> TokenStats:
        """Log-probabilities of the trained tokens, entropies and regularisers, all over the ids that were allowed."""
        return self._head.read(hidden_ND, batch, regularisers)


def is_compiled(setting: str | bool, device: torch.device) -> bool:
    """Whether decoder layers are to be compiled: `auto` is yes on CUDA, where Triton is there to do it."""
    if setting == "auto":
        return device.type == "cuda" and find_spec("triton") is not None
    return bool(setting)


def compile_layers(model: Any, backend: str | Any = "inductor") -> None:
    """Compile the decoder layers: alike as they are, one compilation serves them all, for sequences of any length."""
    layers = getattr(model.model, "layers", None)
    if layers is None:
        raise ConfigError(f"learner.compile = true: {type(model).__name__} has no decoder layers to compile")
    # With and without gradients, adapters and neighbours in the batch: more kinds than are allowed by default.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _MAX_KINDS)
    for layer in layers:
        layer.compile(dynamic=True, backend=backend)


def checkpoint_layers(model: Any) -> None:
    """Keep only what goes into each decoder layer, and compute the rest a second time for the gradient."""
    try:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.disable_input_require_grads()  # only the other way of checkpointing needs them
    except ValueError as error:
        raise ConfigError(f"learner.gradient_checkpointing = true: {str(error).splitlines()[0]}") from None
