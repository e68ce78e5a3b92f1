"""Runs the model for the scheduler: new ids of several slots in, logits after the last id of each out.

There are three ways, and the first that a model allows is taken:

    flat     our own forward for the common decoders: no padding, CUDA graphs, sampling on the device
    ragged   transformers' own forward with a cache of ours: any decoder with plain attention
    plain    everything is read anew in every pass: any causal model

On a CPU `ragged` comes first: it is the faster one there.
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

KINDS = ("auto", "flat", "ragged", "plain")
_TOLERANCE = {torch.float32: 1e-4}
_LOOSE = 0.25
"""How far logits may be from a plain pass, relative to their size: more than rounding gives (0.08 in bfloat16 through
thirty layers), less than any mistake."""


class Executor(Protocol):
    """The model, its slots, and how they are used."""

    num_slots: int
    length: int
    """Most ids that a slot can hold."""
    reuses: bool
    """False where every pass must read all ids."""
    pass_tokens: int
    """Most tokens in one pass; bounds the memory of masks and activations."""
    pass_cost: int | None
    """As many padded tokens may be processed in vain as cost about the same as another pass; None pads nothing."""
    share_tokens: int
    """A copy, or waiting for another call to read the same tokens, must save at least this many."""
    overlaps: bool
    """Whether a pass is computed while the host does other things."""

    def forward(self, chunks: Sequence[Chunk]) -> Tensor:
        """Logits (R, V) in float32 for what follows the last id of each; the next pass may overwrite them."""

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """Give the first `length` ids that a slot has read to other slots."""

    def wipe(self) -> None:
        """Forget what all slots have read. Needed after a failure: what is not finite spoils what is masked."""

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Copy weights in place."""


class NaiveExecutor:
    """Reads all ids in every pass."""

    reuses = False
    overlaps = False
    pass_tokens = 8192
    pass_cost: int | None = 256
    share_tokens = 32

    def __init__(self, model: Any, num_slots: int, length: int) -> None:
        self._model = model
        self._device = next(model.parameters()).device
        self.num_slots = num_slots
        self.length = length

    @torch.inference_mode()
    def forward(self, chunks: Sequence[Chunk]) -> Tensor:
        width = max(len(work.ids) for work in chunks)
        # Padding stands on the right, where causal models do not look.
        ids_RN = torch.tensor([[*w.ids, *[0] * (width - len(w.ids))] for w in chunks], device=self._device)
        last = sorted({len(work.ids) - 1 for work in chunks})
        keep = torch.tensor(last, device=self._device)
        logits_RKV = self._model(input_ids=ids_RN, use_cache=False, logits_to_keep=keep).logits
        return logits_at(logits_RKV, [(row, last.index(len(work.ids) - 1)) for row, work in enumerate(chunks)])

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        pass  # nothing is kept

    def wipe(self) -> None:
        pass

    def load(self, weights: Mapping[str, Tensor]) -> None:
        copy_weights(self._model, weights)


def make_executor(
    model: Any, num_slots: int, length: int, kind: str = "auto", capacity: AdapterCapacity | None = None
) -> Executor:
    """An executor around a copy of `model`, of the first kind whose logits are those of a plain pass.

    Only the flat kind has room for adapters.
    """
    if kind not in KINDS:
        raise ConfigError(f"unknown executor {kind!r}; known: {listing(KINDS)}")
    if capacity is not None and kind not in ("auto", "flat"):
        raise ConfigError(f"the executor {kind!r} cannot serve adapters; use auto or flat")
    own = copy.deepcopy(model).eval().requires_grad_(False)
    own.set_attn_implementation("sdpa")
    plain = NaiveExecutor(own, num_slots, length)
    if kind == "plain":
        return plain
    is_cuda = next(own.parameters()).device.type == "cuda"
    kinds = (
        ("flat",)
        if capacity is not None
        else (kind,)
        if kind != "auto"
        else ("flat", "ragged")
        if is_cuda
        else ("ragged",)
    )
    reasons: list[str] = []
    for name in kinds:
        why = graph_obstacle(own, length) if name == "flat" else _obstacle(own.config, length)
        if why is None:
            made: GraphExecutor | HFExecutor
            if name == "flat":
                made = GraphExecutor(own, num_slots, length, capacity)
            else:
                made = HFExecutor(own, num_slots, length)
            gap = _gap(made, plain, own.config.vocab_size)
            if gap <= _TOLERANCE.get(next(own.parameters()).dtype, _LOOSE):
                return made
            why = f"its logits change by {gap:.2g} of their size"
        reasons.append(f"{name}: {why}")
    if capacity is not None:
        raise ConfigError(f"{type(own).__name__} cannot be served with adapters ({'; '.join(reasons)})")
    warnings.warn(f"{type(own).__name__} runs without a prefix cache ({'; '.join(reasons)})", stacklevel=2)
    return plain


def graph_obstacle(model: Any, length: int) -> str | None:
    """Why a model cannot be served by the flat executor, as far as its config tells."""
    return _obstacle(model.config, length) or decoder.obstacle(model)


def bytes_per_token(config: Any, bytes_per_number: int) -> int:
    """What keys and values of one token take."""
    all_heads = getattr(config, "num_attention_heads", None) or 1  # models without attention keep nothing here
    heads = getattr(config, "num_key_value_heads", None) or all_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // all_heads
    return int(config.num_hidden_layers * 2 * heads * dim * bytes_per_number)


def _obstacle(config: Any, length: int) -> str | None:
    """Why a model cannot use the ragged cache, as far as its config tells."""
    kinds = set(getattr(config, "layer_types", None) or ())
    window = getattr(config, "sliding_window", None)
    if kinds - {"full_attention", "sliding_attention"} or getattr(config, "num_attention_heads", None) is None:
        return "not all of its layers are plain attention"
    if window is not None and window < length and kinds != {"full_attention"}:
        return f"its attention window of {window} is shorter than the engine's {length} tokens"
    return None


def _gap(executor: Executor, plain: NaiveExecutor, vocab_size: int) -> float:
    """How far logits of rows of different lengths are from those of a plain pass, at worst.

    They are read in three passes, the last of one id each; one row is longer than any tile of a kernel.
    """
    generator = torch.Generator().manual_seed(0)
    lengths = [min(n, executor.length) for n in (9, 14, 150)][: executor.num_slots]
    rows = [tuple(torch.randint(vocab_size, (n,), generator=generator).tolist()) for n in lengths]
    read = [0] * len(rows)
    gaps: list[float] = []
    for until in ([3 + 4 * slot for slot in range(len(rows))], [n - 1 for n in lengths], lengths):
        chunks = [
            Chunk(slot, start, ids[:end]) for slot, (start, ids, end) in enumerate(zip(read, rows, until, strict=True))
        ]
        found, expected = executor.forward(chunks), plain.forward(chunks)
        gaps.append(float((found - expected).norm() / (expected - expected.mean(dim=1, keepdim=True)).norm()))
        read = list(until)
    return max(gaps)
