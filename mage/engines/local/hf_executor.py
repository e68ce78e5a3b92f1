"""The executor for any decoder with standard attention: transformers' forward with our own KV cache.

Keys and values are in static buffers with a write position for every row, and the attention mask is explicit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from mage.engines.local.copy_weights import copy_weights
from mage.engines.local.layout import Chunk

_GATHER_COST, _IDLE_COST = 9, 12
"""Measured with `nano`, in units of one new id: gathering the keys of one row, and computing one idle row."""


class _SlotCache(Cache):
    """Static buffers (slots, length, heads, dim) per layer; the last position of a slot receives padding."""

    def __init__(self, num_slots: int, length: int) -> None:
        super().__init__(layers=[])
        self._shape = (num_slots, length + 1)
        self.buffers: list[tuple[Tensor, Tensor]] = []
        self.places_N = torch.empty(0, dtype=torch.long)
        """Where the new keys and values go, in the flattened buffers."""
        self.slots: slice | Tensor = slice(0, 0)
        self.span = 0
        """How many positions of the slots are attended to."""

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if layer_idx == len(self.buffers):
            # Zeros, not empty: masked entries are multiplied by zero and must be finite.
            made = [x.new_zeros(*self._shape, x.shape[1], x.shape[3]) for x in (key_states, value_states)]
            self.buffers.append((made[0], made[1]))
        keys, values = self.buffers[layer_idx]
        return self._extended(keys, key_states), self._extended(values, value_states)

    def _extended(self, buffer: Tensor, new_RHND: Tensor) -> Tensor:
        flat = buffer.view(-1, buffer.shape[2] * buffer.shape[3])
        flat.index_copy_(0, self.places_N, new_RHND.transpose(1, 2).reshape(-1, flat.shape[1]))
        seen = buffer[:, : self.span]
        rows = seen[self.slots] if isinstance(self.slots, slice) else seen.index_select(0, self.slots)
        return rows.transpose(1, 2)


class HFExecutor:
    """transformers' forward over rows of different lengths, with our KV cache and an explicit mask."""

    reuses = True
    overlaps = False
    pass_tokens = 8192
    pass_cost: int | None = 256
    share_tokens = 32

    def __init__(self, model: Any, num_slots: int, length: int) -> None:
        self.model = model
        self._device = next(model.parameters()).device
        self._dtype = next(model.parameters()).dtype
        self._cache = _SlotCache(num_slots, length)
        self.num_slots = num_slots
        self.length = length

    @torch.inference_mode()
    def forward(self, chunks: Sequence[Chunk]) -> Tensor:
        rows = _with_idle_slots(chunks)
        sizes = [len(row.ids) - row.start for row in rows]
        width = max(sizes)
        padded = [[*row.ids[row.start :], *[0] * (width - size)] for row, size in zip(rows, sizes, strict=True)]
        start_R1 = torch.tensor([[row.start] for row in rows], device=self._device)
        steps_N = torch.arange(width, device=self._device)
        places_RN = (start_R1 + steps_N).clamp_(max=self.length - 1)
        self._set_write_positions(rows, sizes, places_RN)
        last = sorted({len(chunk.ids) - chunk.start - 1 for chunk in chunks})
        logits_RKV = self.model(
            input_ids=torch.tensor(padded, device=self._device),
            attention_mask=self._mask(places_RN),
            position_ids=places_RN,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=torch.tensor(last, device=self._device),
        ).logits
        row_by_slot = {row.slot: number for number, row in enumerate(rows)}
        at = [(row_by_slot[chunk.slot], last.index(len(chunk.ids) - chunk.start - 1)) for chunk in chunks]
        return logits_at(logits_RKV, at)

    def _mask(self, places_RN: Tensor) -> Tensor:
        """The causal mask of the new ids, added to attention scores: (R, 1, N, span)."""
        seen_L = torch.arange(self._cache.span, device=self._device)
        hidden = torch.tensor(-torch.inf, dtype=self._dtype, device=self._device)
        return torch.where(seen_L <= places_RN[:, None, :, None], torch.zeros_like(hidden), hidden)

    def _set_write_positions(self, rows: Sequence[Chunk], sizes: Sequence[int], places_RN: Tensor) -> None:
        """Set the slots and write positions of this pass; padding is written to the last position of a slot."""
        slots = [row.slot for row in rows]
        slots_R1 = torch.tensor(slots, device=self._device)[:, None]
        sizes_R1 = torch.tensor(sizes, device=self._device)[:, None]
        is_padding_RN = torch.arange(places_RN.shape[1], device=self._device) >= sizes_R1
        places_RN = places_RN.masked_fill(is_padding_RN, self.length)
        self._cache.places_N = (slots_R1 * (self.length + 1) + places_RN).flatten()
        self._cache.span = max(len(row.ids) for row in rows)
        is_run = slots == list(range(slots[0], slots[0] + len(slots)))
        self._cache.slots = slice(slots[0], slots[0] + len(slots)) if is_run else slots_R1.flatten()

    @torch.inference_mode()
    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        targets_R = torch.tensor(targets, device=self._device)
        for buffer in (buffer for pair in self._cache.buffers for buffer in pair):
            buffer[targets_R, :length] = buffer[source, :length]

    def wipe(self) -> None:
        self._cache.buffers.clear()

    def load(self, weights: Mapping[str, Tensor]) -> None:
        copy_weights(self.model, weights)


def _with_idle_slots(chunks: Sequence[Chunk]) -> Sequence[Chunk]:
    """The chunks with idle slots between them as empty rows, if that is cheaper than gathering the chunks' keys."""
    by_slot = {chunk.slot: chunk for chunk in chunks}
    first, last = min(by_slot), max(by_slot)
    width = max(len(chunk.ids) - chunk.start for chunk in chunks)
    num_idle = last + 1 - first - len(chunks)
    if num_idle * (width + _IDLE_COST) > _GATHER_COST * len(chunks):
        return chunks
    return [by_slot.get(slot) or Chunk(slot, 0, ()) for slot in range(first, last + 1)]


def logits_at(logits_RKV: Tensor, at: Sequence[tuple[int, int]]) -> Tensor:
    """Logits at the given (row, kept position) pairs, in float32."""
    rows_R, kept_R = torch.tensor(at, device=logits_RKV.device).unbind(1)
    return logits_RKV[rows_R, kept_R].float()
