"""Settings of vLLM that only a CPU needs."""

from __future__ import annotations

CPU_BYTES = 2**30
"""Memory of the key-value cache."""
CPU_BLOCK = 32
"""Tokens of a block of the cache."""
CPU_HEADS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256)
"""Sizes of attention heads that there are kernels for."""
_STEP_TOKENS = 8192


def cpu_step_tokens(length: int) -> int:
    """Most tokens of one step, where no prompt is read in parts: a prompt must fit."""
    return max(length, _STEP_TOKENS)
