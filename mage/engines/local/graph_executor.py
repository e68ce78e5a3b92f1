"""Runs the decoder for the scheduler: rows side by side without padding, CUDA graphs, bursts of sampled tokens.

A pass of few tokens costs more to launch than to compute, so it is captured once per shape and replayed. Free text
is sampled on the device, several tokens between two looks at the host: a row that ends early waits for the rest of
its burst at most.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mage.engines.local.adapters import AdapterCapacity, LowRank
from mage.engines.local.copy_weights import copy_weights
from mage.engines.local.decoder import Decoder
from mage.engines.local.layout import (
    DECODE_BLOCK,
    Chunk,
    PassLayout,
    Sizes,
    aligned,
    plan_of,
    rounded,
    sizes_of,
    table_of,
)
from mage.engines.local.sampling import pick_free
from mage.engines.local.transfer import Fetched, upload
from mage.errors import EngineError

GRAPH_TOKENS = 16384
"""Passes of more tokens keep the card busy by themselves."""
_WARM_UPS = 2


class DecodeBurst(NamedTuple):
    """What is sampled freely for each row: (R, count) points of the distribution function, and temperatures."""

    points_RK: np.ndarray[Any, Any]
    temperature_R: np.ndarray[Any, Any]
    """0 takes the likeliest token."""


class BurstTokens(NamedTuple):
    """A burst under way: (R, count) tokens and log-probabilities."""

    tokens_RK: Fetched
    logprobs_RK: Fetched

    def read(self) -> tuple[list[list[int]], list[list[float]]]:
        """Wait for it."""
        logprobs_RK = self.logprobs_RK.read()
        if not torch.isfinite(logprobs_RK).all():
            raise EngineError("the model's logits are not finite; its weights may have diverged")
        return self.tokens_RK.read().tolist(), logprobs_RK.tolist()


class GraphExecutor:
    """A model served through `Decoder`."""

    reuses = True
    pass_cost: int | None = None
    """Nothing is padded, so rows of any lengths share a pass."""
    share_tokens = 128

    def __init__(
        self, model: Any, num_slots: int, length: int, capacity: AdapterCapacity | None = None, *, burst: int = 16
    ) -> None:
        self._model = model
        self.num_slots = num_slots
        self.length = length
        self.burst = burst
        # One slot more to read padding into, and one place more for tokens past the end of a burst.
        self._decoder = Decoder(model, num_slots + 1, length + 1, capacity)
        self._is_cuda = self._decoder.device.type == "cuda"
        self.overlaps = self._is_cuda
        self.pass_tokens = 65536 if self._is_cuda else 2048  # plain attention gathers the keys of every token
        self.capture_s = 0.0
        """Seconds spent on capturing graphs."""
        self._passes: dict[Sizes, _Pass] = {}
        shape = (rounded(Sizes(num_slots, num_slots, num_slots, DECODE_BLOCK)).rows, model.config.vocab_size)
        self._logits_RV = torch.empty(shape if self._is_cuda else 0, device=self._decoder.device)
        """Where all captured passes leave their logits, so that they can share the rest of their memory."""
        self._bursts: dict[int, _Sampler] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._is_cuda else None

    @torch.inference_mode()
    def forward(self, chunks: Sequence[Chunk]) -> Tensor:
        exact = sizes_of(chunks)
        sizes = rounded(exact)
        if not self._is_cuda or sizes.tokens > GRAPH_TOKENS:
            even = aligned(exact)
            table = upload(table_of(chunks, even, self.num_slots), self._decoder.device)
            return self._decoder.logits(plan_of(table, even))[: len(chunks)]
        if sizes not in self._passes:
            with self._capturing():
                self._passes[sizes] = _Pass(self._decoder, sizes, self.num_slots, self._pool, self._logits_RV)
        return self._passes[sizes].run(table_of(chunks, sizes, self.num_slots))[: len(chunks)]

    @torch.inference_mode()
    def sample(self, chunks: Sequence[Chunk], burst: DecodeBurst) -> BurstTokens:
        """Read what is new of each row and go on freely, without the host in between."""
        if sizes_of(chunks).tokens == len(chunks):
            return self._sampler(len(chunks)).run(table_of(chunks, self._singles(len(chunks)), self.num_slots), burst)
        device = self._decoder.device
        uniforms_R, temperature_R = upload(burst.points_RK[:, 0], device), upload(burst.temperature_R, device)
        first = pick_free(self.forward(chunks), temperature_R, uniforms_R)
        rest = DecodeBurst(burst.points_RK[:, 1:], burst.temperature_R)
        # The token that was drawn is on the device alone: the table has a zero in its place.
        drawn = [work._replace(start=len(work.ids), ids=(*work.ids, 0)) for work in chunks]
        return self._sampler(len(chunks)).run(table_of(drawn, self._singles(len(chunks)), self.num_slots), rest, first)

    def _sampler(self, num_rows: int) -> _Sampler:
        sizes = self._singles(num_rows)
        if sizes.rows not in self._bursts:
            with self._capturing():
                self._bursts[sizes.rows] = _Sampler(self._decoder, sizes, self.num_slots, self.burst, self._pool)
        return self._bursts[sizes.rows]

    @staticmethod
    def _singles(num_rows: int) -> Sizes:
        """The sizes of a pass over rows with one new token each."""
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
        """Put an adapter into one of its places."""
        assert self._decoder.adapters is not None
        self._decoder.adapters.load(number, factors)

    def load(self, weights: Mapping[str, Tensor]) -> None:
        copy_weights(self._model, weights)


class _Pass:
    """A captured pass of fixed sizes."""

    def __init__(self, decoder: Decoder, sizes: Sizes, sink: int, pool: Any, out_RV: Tensor) -> None:
        self._table = upload(_idle(sizes, sink), decoder.device)
        plan = plan_of(self._table, sizes)
        for _ in range(_WARM_UPS):
            decoder.logits(plan)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        self._logits_RV = out_RV[: sizes.rows]
        with torch.cuda.graph(self._graph, pool=pool):
            self._logits_RV.copy_(decoder.logits(plan))

    def run(self, table: np.ndarray[Any, Any]) -> Tensor:
        """Logits by row. They are overwritten by the next pass of any size."""
        self._table.copy_(upload(table, self._table.device))
        self._graph.replay()
        return self._logits_RV


class _Sampler:
    """Samples a token for each row and reads it, again and again, without the host; a graph where there are any."""

    def __init__(self, decoder: Decoder, sizes: Sizes, sink: int, count: int, pool: Any) -> None:
        device = decoder.device
        self._decoder = decoder
        self._table = upload(_idle(sizes, sink), device)
        self._plan: PassLayout = plan_of(self._table, sizes)
        self._last = decoder.cache.shape[3] - 1
        self._points_KR = torch.zeros(count, sizes.rows, dtype=torch.float64, device=device)
        self._heat_R = torch.ones(sizes.rows, device=device)
        self._at = torch.zeros(1, dtype=torch.long, device=device)
        self._tokens_KR = torch.zeros(count, sizes.rows, dtype=torch.int32, device=device)
        self._logprobs_KR = torch.zeros(count, sizes.rows, device=device)
        self._graph: torch.cuda.CUDAGraph | None = None
        if device.type == "cuda":
            self._capture(pool)

    def run(
        self, table: np.ndarray[Any, Any], burst: DecodeBurst, first: tuple[Tensor, Tensor] | None = None
    ) -> BurstTokens:
        """A burst that goes on from the tokens of the table, or from those drawn first, which then begin it."""
        num_rows, count = burst.points_RK.shape
        device = self._heat_R.device
        self._table.copy_(upload(table, device))
        if first is not None:
            self._plan.ids_T[:num_rows] = first[0]
        self._points_KR[:count, :num_rows] = upload(burst.points_RK, device).t()
        self._heat_R[:num_rows] = upload(burst.temperature_R, device)
        self._at.zero_()
        for _ in range(count):
            if self._graph is None:
                self._step()
            else:
                self._graph.replay()
        found = [numbers_KR[:count, :num_rows].t() for numbers_KR in (self._tokens_KR, self._logprobs_KR)]
        if first is not None:
            found = [torch.cat((one_R[:, None], rest_RK), dim=1) for one_R, rest_RK in zip(first, found, strict=True)]
        # A copy of their own, contiguous as transfers need it: the next burst may begin before they are read.
        tokens_RK, logprobs_RK = (Fetched(t.clone(memory_format=torch.contiguous_format)) for t in found)
        return BurstTokens(tokens_RK, logprobs_RK)

    def _step(self) -> None:
        plan = self._plan
        logits_RV = self._decoder.logits(plan)
        uniforms_R = self._points_KR.index_select(0, self._at)[0]
        tokens_R, logprobs_R = pick_free(logits_RV, self._heat_R, uniforms_R)
        self._tokens_KR.index_copy_(0, self._at, tokens_R.int()[None])
        self._logprobs_KR.index_copy_(0, self._at, logprobs_R[None])
        plan.ids_T.copy_(tokens_R)
        plan.positions_T.add_(1).clamp_(max=self._last)
        plan.block_position_B.add_(1).clamp_(max=self._last)
        self._at.add_(1).clamp_(max=len(self._points_KR) - 1)

    def _capture(self, pool: Any) -> None:
        for _ in range(_WARM_UPS):
            self._step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            self._step()
        self._graph = graph


def _idle(sizes: Sizes, sink: int) -> np.ndarray[Any, Any]:
    """Tables under which a pass reads one token into the sink and changes nothing else."""
    return table_of([Chunk(sink, 0, (0,))], sizes, sink)
