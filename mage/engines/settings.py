"""The settings of a policy server, derived from a config."""

from __future__ import annotations

from dataclasses import dataclass


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
