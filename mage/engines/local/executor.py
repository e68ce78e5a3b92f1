"""The executor protocol and its choice: new ids of several cache slots in, logits after the last id of each out.

There are three implementations; the first that supports the model is used:

    graph    GraphExecutor: our forward for the common decoders, no padding, CUDA graphs, sampling on the device
    hf       HFExecutor: transformers' forward with our KV cache, any decoder with standard attention
    naive    NaiveExecutor: no cache, all ids are computed in every pass, any causal model

On a CPU only `hf` is tried before `naive`: it is faster there than `graph`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from mage.engines.local import decoder
from mage.engines.local.adapters import AdapterCapacity
from mage.engines.local.copy_weights import copy_weights
from mage.engines.local.graph_executor import GraphExecutor
from mage.engines.local.hf_executor import HFExecutor, logits_at
from mage.engines.local.layout import Chunk
from mage.errors import ConfigError, listing

KINDS = ("auto", "graph", "hf", "naive")
_TOLERANCE = {torch.float32: 1e-4}
_LOOSE = 0.25
"""Largest relative error of logits against a plain pass: above rounding (0.08 in bfloat16 through thirty layers), below
any bug."""


class Executor(Protocol):
    """A model with KV cache slots."""

    model: Any
    """The copy of the model that is served."""
    num_slots: int
    length: int
    """Most ids in a slot."""
    reuses: bool
    """Whether there is a cache; False if every pass computes all ids."""
    pass_tokens: int
    """Most tokens in one pass; bounds the memory of masks and activations."""
    pass_cost: int | None
    """The cost of a pass in padded tokens: rows share a pass while padding costs less; None if nothing is padded."""
    share_tokens: int
    """Least tokens to save by copying a prefix, or by waiting for another call that computes it."""
    overlaps: bool
    """Whether a pass runs asynchronously to the host."""

    def forward(self, chunks: Sequence[Chunk]) -> Tensor:
        """Logits (R, V) in float32 after the last id of each chunk; the next pass may overwrite them."""

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """Copy the cache of the first `length` ids of a slot to other slots."""

    def wipe(self) -> None:
        """Clear all slots. Needed after a failure: nan and inf in masked entries would spread."""

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Copy weights in place."""


class NaiveExecutor:
    """Computes all ids in every pass, without a cache."""

    reuses = False
    overlaps = False
    pass_tokens = 8192
    pass_cost: int | None = 256
    share_tokens = 32

    def __init__(self, model: Any, num_slots: int, length: int) -> None:
        self.model = model
        self._device = next(model.parameters()).device
        self.num_slots = num_slots
        self.length = length

    @torch.inference_mode()
    def forward(self, chunks: Sequence[Chunk]) -> Tensor:
        width = max(len(chunk.ids) for chunk in chunks)
        # Padding is on the right, where causal attention does not see it.
        ids_RN = torch.tensor([[*c.ids, *[0] * (width - len(c.ids))] for c in chunks], device=self._device)
        last = sorted({len(chunk.ids) - 1 for chunk in chunks})
        keep = torch.tensor(last, device=self._device)
        logits_RKV = self.model(input_ids=ids_RN, use_cache=False, logits_to_keep=keep).logits
        return logits_at(logits_RKV, [(row, last.index(len(chunk.ids) - 1)) for row, chunk in enumerate(chunks)])

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        pass  # there is no cache

    def wipe(self) -> None:
        pass

    def load(self, weights: Mapping[str, Tensor]) -> None:
        copy_weights(self.model, weights)


def make_executor(
    model: Any, num_slots: int, length: int, kind: str = "auto", capacity: AdapterCapacity | None = None
) -> Executor:
    """An executor around a copy of `model`: the first kind whose logits agree with a plain pass.

    Only the graph kind serves adapters.
    """
    if kind not in KINDS:
        raise ConfigError(f"unknown executor {kind!r}; known: {listing(KINDS)}")
    if capacity is not None and kind not in ("auto", "graph"):
        raise ConfigError(f"the executor {kind!r} cannot serve adapters; use auto or graph")
    own = copy.deepcopy(model).eval().requires_grad_(False)
    own.set_attn_implementation("sdpa")
    plain = NaiveExecutor(own, num_slots, length)
    if kind == "naive":
        return plain
    is_cuda = next(own.parameters()).device.type == "cuda"
    kinds = (
        ("graph",) if capacity is not None else (kind,) if kind != "auto" else ("graph", "hf") if is_cuda else ("hf",)
    )
    reasons: list[str] = []
    for name in kinds:
        why = (
            graph_unsupported_reason(own, length) if name == "graph" else _cache_unsupported_reason(own.config, length)
        )
        if why is None:
            made: GraphExecutor | HFExecutor
            if name == "graph":
                made = GraphExecutor(own, num_slots, length, capacity)
            else:
                made = HFExecutor(own, num_slots, length)
            error = _logit_error(made, plain, own.config.vocab_size)
            if error <= _TOLERANCE.get(next(own.parameters()).dtype, _LOOSE):
                return made
            why = f"its logits change by {error:.2g} of their size"
        reasons.append(f"{name}: {why}")
    if capacity is not None:
        raise ConfigError(f"{type(own).__name__} cannot be served with adapters ({'; '.join(reasons)})")
    warnings.warn(f"{type(own).__name__} runs without a prefix cache ({'; '.join(reasons)})", stacklevel=2)
    return plain


def graph_unsupported_reason(model: Any, length: int) -> str | None:
    """Why a model cannot be served by the graph executor, by its config; None if it can."""
    return _cache_unsupported_reason(model.config, length) or decoder.unsupported_reason(model)


def bytes_per_token(config: Any, bytes_per_number: int) -> int:
    """Bytes of the keys and values of one token."""
    all_heads = getattr(config, "num_attention_heads", None) or 1  # models without attention have no KV cache
    heads = getattr(config, "num_key_value_heads", None) or all_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // all_heads
    return int(config.num_hidden_layers * 2 * heads * dim * bytes_per_number)


def _cache_unsupported_reason(config: Any, length: int) -> str | None:
    """Why a model cannot use a slot cache, by its config; None if it can."""
    kinds = set(getattr(config, "layer_types", None) or ())
    window = getattr(config, "sliding_window", None)
    if kinds - {"full_attention", "sliding_attention"} or getattr(config, "num_attention_heads", None) is None:
        return "not all of its layers are plain attention"
    if window is not None and window < length and kinds != {"full_attention"}:
        return f"its attention window of {window} is shorter than the engine's {length} tokens"
    return None


def _logit_error(executor: Executor, plain: NaiveExecutor, vocab_size: int) -> float:
    """The largest relative error of logits of rows of different lengths against a plain pass.

    The rows are computed in three passes, the last with one id each; one row is longer than any kernel tile.
    """
    generator = torch.Generator().manual_seed(0)
    lengths = [min(n, executor.length) for n in (9, 14, 150)][: executor.num_slots]
    rows = [tuple(torch.randint(vocab_size, (n,), generator=generator).tolist()) for n in lengths]
    read = [0] * len(rows)
    errors: list[float] = []
    for until in ([3 + 4 * slot for slot in range(len(rows))], [n - 1 for n in lengths], lengths):
        chunks = [
            Chunk(slot, start, ids[:end]) for slot, (start, ids, end) in enumerate(zip(read, rows, until, strict=True))
        ]
        found, expected = executor.forward(chunks), plain.forward(chunks)
        errors.append(float((found - expected).norm() / (expected - expected.mean(dim=1, keepdim=True)).norm()))
        read = list(until)
    return max(errors)
