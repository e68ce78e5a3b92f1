"""The language-model head: log-probabilities and entropies from hidden states, in bounded memory.

Logits are computed only where tokens are trained. Where a token was chosen from a few ids, only their rows of the head
are used. The rest is computed in chunks, whose logits are recomputed in the backward pass rather than kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from mage.errors import ConfigError
from mage.learners.batch import MicroBatch
from mage.learners.losses import (
    Regulariser,
    TokenStats,
    read_all,
    read_allowed,
    read_logits,
    read_targets,
    scatter_rows,
)

_CHUNK_BYTES = 2**29
"""Most memory of a chunk's logits in float32; the peak is two to four times as much."""
SMALL_VOCABULARY = 4096
"""Up to this size the whole head costs less than picking rows of it."""

TokenReader = Callable[[Tensor, Tensor, Tensor], TokenStats]


class HeadKind(NamedTuple):
    """How a model's logits can be computed."""

    is_plain: bool
    """Whether they are the head's output, without a cap or scale after it."""
    has_rows: bool
    """Whether rows of the head give the logits of single ids."""


class Head:
    """Computes statistics of trained tokens from a model's head, at the temperature they were sampled with."""

    def __init__(
        self,
        model: Any,
        temperature: float,
        *,
        compiled: bool,
        kind: HeadKind | None = None,
        chunk_bytes: int = _CHUNK_BYTES,
    ) -> None:
        """`kind` is needed where the model has no weights yet; else it is found out."""
        self._model = model
        self.temperature = temperature
        self._chunk_bytes = chunk_bytes
        self._is_plain, self._has_rows = kind or head_kind(model)
        self._is_small = model.config.vocab_size <= SMALL_VOCABULARY
        self._read_all: TokenReader = torch.compile(read_all, dynamic=True) if compiled else read_all
        self._read_targets: TokenReader = self._read_all if compiled else read_targets

    def read(self, hidden_ND: Tensor, batch: MicroBatch, regularisers: Sequence[Regulariser] = ()) -> TokenStats:
        """Log-probabilities of the targets, entropies and regularisers, all over the allowed ids."""
        read_some = partial(read_logits, regularisers=regularisers)
        if not self._is_plain:
            # The model changes logits after the head, by a cap or a scale: use its own forward pass.
            logits_BTV = self._model(input_ids=batch.tokens_BT, use_cache=False).logits
            logits_NV = logits_BTV[batch.rows_N, batch.before_N]
            return read_some(self._at_temperature(logits_NV), batch.targets_N, batch.allowed_NK)
        if self._is_small or not self._has_rows:
            return self._in_chunks(read_some, self._all_logits, hidden_ND, batch.targets_N, batch.allowed_NK)
        num = 2 + len(regularisers)
        found_N = [hidden_ND.new_zeros(len(hidden_ND), dtype=torch.float32) for _ in range(num)]
        read_chosen = partial(self._read_chosen, ids_U=batch.ids_U, regularisers=regularisers)
        for rows_M, read in ((batch.chosen_M, read_chosen), (batch.free_M, self._read_free)):
            if len(rows_M):
                read_M = read(hidden_ND[rows_M], batch.targets_N[rows_M], batch.allowed_NK[rows_M])
                scatter_rows(found_N, rows_M, read_M)
        return tuple(found_N)

    def predict(self, hidden_PD: Tensor, targets_P: Tensor) -> Tensor:
        """Log-probabilities of tokens over the whole vocabulary."""
        if not self._is_plain:
            raise ConfigError("learner.prediction_weight: this model changes logits after its head; set it to 0")
        ids_P0 = targets_P.new_zeros(len(targets_P), 0)
        return self._in_chunks(self._read_targets, self._all_logits, hidden_PD, targets_P, ids_P0)[0]

    def _read_chosen(
        self,
        hidden_MD: Tensor,
        targets_M: Tensor,
        allowed_MK: Tensor,
        ids_U: Tensor,
        regularisers: Sequence[Regulariser],
    ) -> TokenStats:
        """Tokens chosen from some ids: logits are computed only for ids that any row of the micro-batch allows."""
        head = self._model.lm_head
        weight_UD = head.weight.index_select(0, ids_U)
        bias_U = None if head.bias is None else head.bias.index_select(0, ids_U)
        columns_MK = torch.searchsorted(ids_U, allowed_MK).masked_fill(allowed_MK < 0, -1)
        columns_M = torch.searchsorted(ids_U, targets_M)
        logits = partial(_product, weight_VD=weight_UD, bias_V=bias_U)
        read = partial(read_allowed, regularisers=regularisers)
        return self._in_chunks(read, logits, hidden_MD, columns_M, columns_MK, len(ids_U))

    def _read_free(self, hidden_MD: Tensor, targets_M: Tensor, allowed_MK: Tensor) -> TokenStats:
        """Tokens chosen from all ids."""
        return self._in_chunks(self._read_all, self._all_logits, hidden_MD, targets_M, allowed_MK)

    def _all_logits(self, hidden_MD: Tensor) -> Tensor:
        head = self._model.lm_head
        logits_MV: Tensor = _product(hidden_MD, head.weight, head.bias) if self._has_rows else head(hidden_MD)
        return logits_MV

    def _in_chunks(
        self,
        read: TokenReader,
        logits: Callable[[Tensor], Tensor],
        hidden_MD: Tensor,
        targets_M: Tensor,
        ids_MK: Tensor,
        width: int | None = None,
    ) -> TokenStats:
        """Apply `read` to chunks of rows whose logits have `width` columns, by default the whole vocabulary."""

        def read_chunk(hidden_CD: Tensor, targets_C: Tensor, ids_CK: Tensor) -> TokenStats:
            return read(self._at_temperature(logits(hidden_CD)), targets_C, ids_CK)

        size = max(1, self._chunk_bytes // (4 * (width or self._model.config.vocab_size)))
        if len(hidden_MD) <= size:
            return read_chunk(hidden_MD, targets_M, ids_MK)
        found = [
            checkpoint(read_chunk, *rows, use_reentrant=False, preserve_rng_state=False)
            for rows in zip(*(torch.split(rows, size) for rows in (hidden_MD, targets_M, ids_MK)), strict=True)
        ]
        return tuple(torch.cat(pieces) for pieces in zip(*found, strict=True))

    def _at_temperature(self, logits_NV: Tensor) -> Tensor:
        return logits_NV.float() / self.temperature


class _FloatProduct(torch.autograd.Function):
    """A matrix product in float32 of bfloat16 factors; the gradients are in the factors' dtype.

    A bfloat16 logit near twenty is a multiple of an eighth: probabilities computed from it would be off by per cents.
    """

    @staticmethod
    def forward(ctx: Any, hidden_MD: Tensor, weight_VD: Tensor) -> Tensor:
        ctx.save_for_backward(hidden_MD, weight_VD)
        if hidden_MD.device.type == "cuda":
            return torch.mm(hidden_MD, weight_VD.T, out_dtype=torch.float32)
        return hidden_MD.float() @ weight_VD.float().T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        hidden_MD, weight_VD = ctx.saved_tensors
        gradient_MV = gradients[0].to(weight_VD.dtype)
        needs_hidden, needs_weight = ctx.needs_input_grad
        return (
            gradient_MV @ weight_VD if needs_hidden else None,
            gradient_MV.T @ hidden_MD if needs_weight else None,
        )


def _product(hidden_MD: Tensor, weight_VD: Tensor, bias_V: Tensor | None) -> Tensor:
    if hidden_MD.dtype is torch.float32:
        return torch.nn.functional.linear(hidden_MD, weight_VD, bias_V)
    logits_MV: Tensor = _FloatProduct.apply(hidden_MD, weight_VD)  # type: ignore[no-untyped-call]
    return logits_MV if bias_V is None else logits_MV + bias_V


def head_kind(model: Any) -> HeadKind:
    """How a model's logits can be computed, tried on a probe."""
    is_plain = _is_plain(model)
    return HeadKind(is_plain, is_plain and _has_rows(model))


@torch.no_grad()
def _is_plain(model: Any) -> bool:
    """Whether logits are the head's output, without a cap or scale after it.

    Tested on a probe; a cap has hardly any effect while logits are small, so the config is checked as well.
    """
    if getattr(model.config, "final_logit_softcapping", None) is not None:
        return False
    ids_BT = _probe(model)
    states_BTD = model.model(input_ids=ids_BT, use_cache=False).last_hidden_state
    logits_BTV = model(input_ids=ids_BT, use_cache=False).logits
    return torch.allclose(model.lm_head(states_BTD), logits_BTV, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def _has_rows(model: Any) -> bool:
    """Whether the head is a linear layer whose rows give the logits of single ids; false with an adapter on it."""
    head = model.lm_head
    if type(head) is not torch.nn.Linear:
        return False
    states_TD = model.model(input_ids=_probe(model), use_cache=False).last_hidden_state[0]
    whole_TV = head(states_TD).float()
    ids_U = torch.arange(0, model.config.vocab_size, max(1, model.config.vocab_size // 7), device=states_TD.device)
    bias_U = None if head.bias is None else head.bias[ids_U]
    rows_TU = _product(states_TD, head.weight[ids_U], bias_U)
    # In bfloat16 the whole head's logits are rounded, and the rows' are not.
    error = 1e-6 if states_TD.dtype is torch.float32 else 2.0**-7
    scale = max(1.0, float(whole_TV.abs().max()))
    return torch.allclose(rows_TU, whole_TV[:, ids_U], rtol=0.0, atol=error * scale)


def _probe(model: Any) -> Tensor:
    return torch.arange(min(8, model.config.vocab_size), device=next(model.parameters()).device)[None]
