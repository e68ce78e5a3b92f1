"""The head at trained positions: rows of it, chunks of it, and a plain forward pass all say the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mage.learners.batch import MicroBatch, micro_batches
from mage.learners.forward import PolicyModel
from mage.learners.lm_head import SMALL_VOCABULARY, Head
from mage.learners.losses import TokenStats, evenness, read_logits
from mage.types import Weight
from tests.made import VOCABULARY, made_model, made_samples

TEMPERATURE = 0.7


def one_batch(**changes: Any) -> MicroBatch:
    (batch,) = micro_batches(made_samples(**changes), Weight.TURN, 10_000)
    return batch


def plainly(model: Any, batch: MicroBatch) -> TokenStats:
    """Log-probabilities, entropies and evenness from all logits of a plain forward pass."""
    logits_BTV = model(input_ids=batch.tokens_BT, use_cache=False).logits.float()
    logits_NV = logits_BTV[batch.rows_N, batch.before_N] / TEMPERATURE
    return read_logits(logits_NV, batch.targets_N, batch.allowed_NK, [evenness])


def through_head(model: Any, batch: MicroBatch, chunk_bytes: int) -> TokenStats:
    head = Head(model, TEMPERATURE, compiled=False, chunk_bytes=chunk_bytes)
    return head.read(PolicyModel(model, TEMPERATURE, compiled=False).hidden(batch), batch, [evenness])


def gradients(model: Any, logprobs_N: Tensor, entropy_N: Tensor, evenness_N: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    mixed_N = torch.linspace(-1.0, 2.0, len(logprobs_N))
    summed = (logprobs_N * mixed_N).sum() + ((entropy_N + 0.3 * evenness_N) * mixed_N.flip(0)).sum()
    summed.backward()  # type: ignore[no-untyped-call]
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("chunk_bytes", [2**29, 4 * VOCABULARY * 4, 1])
@pytest.mark.parametrize("tied", [True, False])
def test_rows_and_chunks_of_the_head_equal_a_plain_forward(tied: bool, chunk_bytes: int) -> None:
    assert VOCABULARY > SMALL_VOCABULARY
    model, batch = made_model(tie_word_embeddings=tied), one_batch()
    plain, found = plainly(model, batch), through_head(model, batch, chunk_bytes)
    for name, expected, value in zip(("logprobs", "entropy", "evenness"), plain, found, strict=True):
        torch.testing.assert_close(value, expected, atol=1e-6, rtol=1e-6, msg=name)
    wanted = gradients(model, *plain)
    for name, value in gradients(model, *through_head(model, batch, chunk_bytes)).items():
        torch.testing.assert_close(value, wanted[name], atol=1e-5, rtol=1e-4, msg=name)


class Widest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers the most rows that a tensor with a column for each id had, the head's own matrix aside."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._matrix = matrix.data_ptr()
        self.rows = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        is_wide = isinstance(out, Tensor) and out.dim() == 2 and out.shape[1] == VOCABULARY
        if is_wide and out.data_ptr() != self._matrix:
            self.rows = max(self.rows, out.shape[0])
        return out


@pytest.mark.parametrize(("reply", "widest"), [(5, 4), (0, 0)])
def test_few_logits_exist_at_a_time_and_none_where_tokens_were_chosen_from_some_ids(reply: int, widest: int) -> None:
    model, batch = made_model(tie_word_embeddings=False), one_batch(reply=reply)
    with torch.no_grad():
        hidden_ND = PolicyModel(model, TEMPERATURE, compiled=False).hidden(batch)
        head = Head(model, TEMPERATURE, compiled=False, chunk_bytes=4 * VOCABULARY * 4)
        with Widest(model.lm_head.weight) as seen:
            head.read(hidden_ND, batch)
    assert len(batch.free_M) == 6 * reply
    assert seen.rows == widest


def test_bfloat16_logits_are_not_rounded() -> None:
    model, batch = made_model(torch.bfloat16), one_batch()
    with torch.no_grad():
        model.model.norm.weight.mul_(8.0)  # logits of tens, as trained models have them
        hidden_ND = PolicyModel(model, TEMPERATURE, compiled=False).hidden(batch)
        exact_NV = hidden_ND.double() @ model.lm_head.weight.double().T / TEMPERATURE
        exact, _ = read_logits(exact_NV, batch.targets_N, batch.allowed_NK)
        found, _, _ = through_head(model, batch, 2**29)
        rounded, _, _ = plainly(model, batch)
    assert found.dtype is torch.float32
    assert (found - exact).abs().max() < 1e-4
    assert (rounded - exact).abs().max() > 0.01, "as a plain forward pass has them"


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_a_head_with_a_bias_keeps_it(dtype: torch.dtype, error: float) -> None:
    model, batch = made_model(dtype, tie_word_embeddings=False), one_batch()
    model.lm_head.bias = torch.nn.Parameter(torch.linspace(-3.0, 3.0, VOCABULARY, dtype=dtype))
    with torch.no_grad():
        for expected, value in zip(plainly(model, batch), through_head(model, batch, 2**29), strict=True):
            torch.testing.assert_close(value, expected, atol=error, rtol=error)


class Doubled(torch.nn.Linear):
    """A head that is more than its matrix."""

    def forward(self, input: Tensor) -> Tensor:
        return 2.0 * super().forward(input)


def test_a_head_that_is_more_than_a_matrix_is_asked_as_a_whole() -> None:
    model, batch = made_model(tie_word_embeddings=False), one_batch()
    head = Doubled(32, VOCABULARY, bias=False)
    head.weight = model.lm_head.weight
    model.lm_head = head
    with torch.no_grad():
        for expected, value in zip(plainly(model, batch), through_head(model, batch, 1), strict=True):
            torch.testing.assert_close(value, expected, atol=1e-5, rtol=1e-5)
