"""Checks whether so many ranks can run here, before PyTorch is loaded, and finds out who starts them."""

from __future__ import annotations

import os

from mage.errors import ConfigError
from mage.models.device import check_processes


def is_torchrun() -> bool:
    """Whether `torchrun` has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_torchrun_worker() -> bool:
    """Whether `torchrun` has started this process as a rank other than 0."""
    return is_torchrun() and os.environ["RANK"] != "0"


def check_ranks(ranks: int, device: str) -> None:
    """Raise a ConfigError where `torchrun` has started another number of ranks, or this machine cannot hold them."""
    started = int(os.environ["WORLD_SIZE"]) if is_torchrun() else ranks
    if started != ranks:
        raise ConfigError(f"learner.ranks = {ranks}: torchrun has started {started}; give both the same number")
    if is_torchrun():
        return
    if device != "cuda":
        check_processes(f"learner.ranks = {ranks}", ranks)
        return
    num = num_cards()
    if ranks > num:
        raise ConfigError(f"learner.ranks = {ranks}: each rank needs a GPU of its own, and there are {num} here")


def num_cards() -> int:
    """The GPUs of this machine that PyTorch may use."""
    import torch

    return torch.cuda.device_count()
