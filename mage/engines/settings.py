"""The settings of a policy server, derived from a config."""

from __future__ import annotations

from dataclasses import dataclass

CPU_CACHE_BYTES = 2**30
"""Bytes for keys and values on a CPU, where the number of slots is not given."""
CUDA_CACHE_SHARE = 0.4
"""The same on a GPU, as a share of the memory free when the engine is made; the learner needs the rest."""
LEARNER_BYTES = 16
"""Bytes of a learner per trained parameter, left free for it: master weight, gradient, two moments, in float32."""
MAX_SLOTS = 1024
VLLM_TRAINED_SHARE, VLLM_INFERENCE_SHARE = 0.4, 0.85
"""Shares of a GPU's memory for vLLM in this process, with a learner in it and without one."""
VLLM_CPU_SLOTS, VLLM_CUDA_SLOTS = 256, 1024
"""Requests in one step of vLLM in this process, where the number of slots is not given."""
SERVER_CONCURRENCY = 256
"""Requests to one server that are open at once; the rest wait in the run."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What a policy server is made for."""

    length: int
    """Most tokens of a prompt with its answer."""
    slots: int = 0
    """Calls that run in one batch; 0: as many as fit into memory."""
    policies: int = 1
    """Most policies that will be served at once."""
    adapter_rank: int = 0
    """Policies are adapters (LoRA) of this rank on one base; 0: whole models."""
    is_trained: bool = True
    """A learner trains the model in the same process, so there must be memory left for it."""
    card_share: float = 1.0
    """The share of a GPU that this process has; the rest belongs to others."""
    ranks: int = 1
    """Ranks that share the memory of this learner."""
    servers: tuple[str, ...] = ()
    """The addresses of running servers that serve the model; empty: the engine runs in this process."""


def slots_within(num_bytes: int, bytes_per_slot: int) -> int:
    """The slots of an engine that has so many bytes for keys and values; one more is for padding.

    >>> slots_within(2**30, 2**20), slots_within(0, 2**20), slots_within(2**40, 2**20)
    (1023, 1, 1024)
    """
    return max(1, min(MAX_SLOTS, num_bytes // bytes_per_slot - 1))
