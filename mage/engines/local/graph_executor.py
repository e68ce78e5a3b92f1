"""The executor with our own forward pass: no padding, CUDA graphs, and bursts of tokens sampled on the device.

A pass of few tokens costs more to launch than to compute, so it is captured once per shape and replayed. Free text is
sampled on the device in bursts of several tokens without the host; a row that ends early wastes the rest of its burst.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mage.engines.local.adapters import AdapterCapacity
from mage.engines.local.copy_weights import copy_weights
from mage.engines.local.decoder import FusedModel
from mage.engines.local.layout import (
    DECODE_BLOCK,
    Chunk,
    PassLayout,
    Sizes,
    aligned,
    layout_of,
    rounded,
    sizes_of,
    table_of,
)
from mage.engines.local.sampling import sample_free
from mage.engines.local.transfer import AsyncCopy, upload
from mage.errors import EngineError
from mage.weights import LowRank

GRAPH_TOKENS = 16384
"""Passes of more tokens are not captured: their launch cost does not matter."""
_WARM_UPS = 2


class DecodeBurst(NamedTuple):
    """How to sample `count` tokens for each row: (R, count) uniforms for inverse-CDF sampling, and temperatures."""

    uniforms_RK: np.ndarray[Any, Any]
    temperature_R: np.ndarray[Any, Any]
    """0 is greedy."""


class BurstTokens(NamedTuple):
    """A burst in flight: (R, count) tokens and log-probabilities."""

    tokens_RK: AsyncCopy
    logprobs_RK: AsyncCopy

    def read(self) -> tuple[list[list[int]], list[list[float]]]:
        """Wait for the burst; return tokens and log-probabilities by row."""
        logprobs_RK = self.logprobs_RK.read()
        if not torch.isfinite(logprobs_RK).all():
            raise EngineError("the model's logits are not finite; its weights may have diverged")
        return self.tokens_RK.read().tolist(), logprobs_RK.tolist()


class GraphExecutor:
    """A model served through `FusedModel`."""

    reuses = True
    pass_cost: int | None = None
    """None: nothing is padded, so rows of any lengths share a pass."""
    share_tokens = 128

    def __init__(
        self, model: Any, num_slots: int, length: int, capacity: AdapterCapacity | None = None, *, burst: int = 16
    ) -> None:
        self.model = model
        self.num_slots = num_slots
        self.length = length
        self.burst = burst
        # One slot more for padding, and one position more for tokens past the end of a burst.
        self._decoder = FusedModel(model, num_slots + 1, length + 1, capacity)
        self._is_cuda = self._decoder.device.type == "cuda"
        self.overlaps = self._is_cuda
        self.pass_tokens = 65536 if self._is_cuda else 2048  # plain attention gathers the keys of every token
        self.capture_s = 0.0
        """Seconds spent on capturing graphs."""
        self._passes: dict[Sizes, _CapturedPass] = {}
        shape = (rounded(Sizes(num_slots, num_slots, num_slots, DECODE_BLOCK)).rows, model.config.vocab_size)
        self._logits_RV = torch.empty(shape if self._is_cuda else 0, device=self._decoder.device)
        """The output buffer of all captured passes, so that they can share one memory pool."""
        self._samplers: dict[int, _BurstSampler] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._is_cuda else None

    @torch.inference_mode()
    def forward(self, chunks: Sequence[Chunk]) -> Tensor:
        exact = sizes_of(chunks)
        sizes = rounded(exact)
        if not self._is_cuda or sizes.tokens > GRAPH_TOKENS:
            even = aligned(exact)
            table = upload(table_of(chunks, even, self.num_slots), self._decoder.device)
            return self._decoder.logits(layout_of(table, even))[: len(chunks)]
        if sizes not in self._passes:
            with self._capturing():
                self._passes[sizes] = _CapturedPass(self._decoder, sizes, self.num_slots, self._pool, self._logits_RV)
        return self._passes[sizes].run(table_of(chunks, sizes, self.num_slots))[: len(chunks)]

    @torch.inference_mode()
    def sample(self, chunks: Sequence[Chunk], burst: DecodeBurst) -> BurstTokens:
        """Run the new tokens of each row, then sample a burst of unconstrained tokens, without the host in between."""
        if sizes_of(chunks).tokens == len(chunks):
            table = table_of(chunks, self._decode_sizes(len(chunks)), self.num_slots)
            return self._sampler(len(chunks)).run(table, burst)
        device = self._decoder.device
        uniforms_R, temperature_R = upload(burst.uniforms_RK[:, 0], device), upload(burst.temperature_R, device)
        first = sample_free(self.forward(chunks), temperature_R, uniforms_R)
        rest = DecodeBurst(burst.uniforms_RK[:, 1:], burst.temperature_R)
        # The first token is on the device only: the table has a zero in its place.
        extended = [chunk._replace(start=len(chunk.ids), ids=(*chunk.ids, 0)) for chunk in chunks]
        table = table_of(extended, self._decode_sizes(len(chunks)), self.num_slots)
        return self._sampler(len(chunks)).run(table, rest, first)

    def _sampler(self, num_rows: int) -> _BurstSampler:
        sizes = self._decode_sizes(num_rows)
        if sizes.rows not in self._samplers:
            with self._capturing():
                self._samplers[sizes.rows] = _BurstSampler(self._decoder, sizes, self.num_slots, self.burst, self._pool)
        return self._samplers[sizes.rows]

    @staticmethod
    def _decode_sizes(num_rows: int) -> Sizes:
        """The sizes of a decode pass: one new token per row."""
        return rounded(Sizes(num_rows, num_rows, num_rows, DECODE_BLOCK))

    @contextmanager
    def _capturing(self) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.capture_s += time.perf_counter() - begun

    @torch.inference_mode()
    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        targets_R = torch.tensor(targets, device=self._decoder.device)
        kept = self._decoder.cache
        kept[:, :, targets_R, :length] = kept[:, :, source, :length].unsqueeze(2)

    def wipe(self) -> None:
        self._decoder.cache.zero_()

    def load_adapter(self, number: int, factors: Mapping[str, LowRank]) -> None:
        """Write an adapter into a slot."""
        assert self._decoder.adapters is not None
        self._decoder.adapters.load(number, factors)

    def load(self, weights: Mapping[str, Tensor]) -> None:
        copy_weights(self.model, weights)


class _CapturedPass:
    """A captured CUDA graph of one forward pass with fixed sizes."""

    def __init__(self, decoder: FusedModel, sizes: Sizes, sink: int, pool: Any, out_RV: Tensor) -> None:
        self._table = upload(_idle_table(sizes, sink), decoder.device)
        layout = layout_of(self._table, sizes)
        for _ in range(_WARM_UPS):
            decoder.logits(layout)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        self._logits_RV = out_RV[: sizes.rows]
        with torch.cuda.graph(self._graph, pool=pool):
            self._logits_RV.copy_(decoder.logits(layout))

    def run(self, table: np.ndarray[Any, Any]) -> Tensor:
        """Logits by row; the next pass of any size overwrites them."""
        self._table.copy_(upload(table, self._table.device))
        self._graph.replay()
        return self._logits_RV


class _BurstSampler:
    """A decode loop on the device: sample a token for each row and run it, as a CUDA graph on a GPU."""

    def __init__(self, decoder: FusedModel, sizes: Sizes, sink: int, count: int, pool: Any) -> None:
        device = decoder.device
        self._decoder = decoder
        self._table = upload(_idle_table(sizes, sink), device)
        self._layout: PassLayout = layout_of(self._table, sizes)
        self._last = decoder.cache.shape[3] - 1
        self._uniforms_KR = torch.zeros(count, sizes.rows, dtype=torch.float64, device=device)
        self._temperature_R = torch.ones(sizes.rows, device=device)
        self._at = torch.zeros(1, dtype=torch.long, device=device)
        self._tokens_KR = torch.zeros(count, sizes.rows, dtype=torch.int32, device=device)
        self._logprobs_KR = torch.zeros(count, sizes.rows, device=device)
        self._graph: torch.cuda.CUDAGraph | None = None
        if device.type == "cuda":
            self._capture(pool)

    def run(
        self, table: np.ndarray[Any, Any], burst: DecodeBurst, first: tuple[Tensor, Tensor] | None = None
    ) -> BurstTokens:
        """Run a burst after the tokens of the table, or after `first`, which then becomes its first token."""
        num_rows, count = burst.uniforms_RK.shape
        device = self._temperature_R.device
        self._table.copy_(upload(table, device))
        if first is not None:
            self._layout.ids_T[:num_rows] = first[0]
        self._uniforms_KR[:count, :num_rows] = upload(burst.uniforms_RK, device).t()
        self._temperature_R[:num_rows] = upload(burst.temperature_R, device)
        self._at.zero_()
        for _ in range(count):
            if self._graph is None:
                self._step()
            else:
                self._graph.replay()
        found = [numbers_KR[:count, :num_rows].t() for numbers_KR in (self._tokens_KR, self._logprobs_KR)]
        if first is not None:
            found = [torch.cat((one_R[:, None], rest_RK), dim=1) for one_R, rest_RK in zip(first, found, strict=True)]
        # Cloned because the next burst may begin before these are read; transfers need contiguous tensors.
        tokens_RK, logprobs_RK = (AsyncCopy(t.clone(memory_format=torch.contiguous_format)) for t in found)
        return BurstTokens(tokens_RK, logprobs_RK)

    def _step(self) -> None:
        layout = self._layout
        logits_RV = self._decoder.logits(layout)
        uniforms_R = self._uniforms_KR.index_select(0, self._at)[0]
        tokens_R, logprobs_R = sample_free(logits_RV, self._temperature_R, uniforms_R)
        self._tokens_KR.index_copy_(0, self._at, tokens_R.int()[None])
        self._logprobs_KR.index_copy_(0, self._at, logprobs_R[None])
        layout.ids_T.copy_(tokens_R)
        layout.positions_T.add_(1).clamp_(max=self._last)
        layout.block_position_B.add_(1).clamp_(max=self._last)
        self._at.add_(1).clamp_(max=len(self._uniforms_KR) - 1)

    def _capture(self, pool: Any) -> None:
        for _ in range(_WARM_UPS):
            self._step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            self._step()
        self._graph = graph


def _idle_table(sizes: Sizes, sink: int) -> np.ndarray[Any, Any]:
    """A table for warm-up: one token in the sink slot, nothing else."""
    return table_of([Chunk(sink, 0, (0,))], sizes, sink)
