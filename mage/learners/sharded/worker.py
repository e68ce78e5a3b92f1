"""A rank other than 0: does what rank 0 tells it to do until that ends.

python -m mage.learners.sharded.worker PORT RANK SIZE DEVICE
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import torch

from mage.learners.sharded.commands import (
    Build,
    Command,
    End,
    Fetch,
    Find,
    Load,
    Read,
    Restore,
    Save,
    SetSettings,
    Update,
    decode,
    empty_model,
    from_plain,
)
from mage.learners.sharded.rank_learner import ALIKE, RankLearner, without_threads
from mage.learners.sharded.ranks import Ranks, join
from mage.learners.sharded.torchrun import follow
from mage.models.device import Placement, configure_torch


def serve(ranks: Ranks) -> None:
    """Follow messages until the last one."""
    learners: dict[int, RankLearner] = {}
    with ranks:
        while not isinstance((message := decode(ranks.broadcast())).command, End):
            for number in message.unused:
                del learners[number]
            if isinstance(message.command, Build):
                learners[message.learner] = _built(ranks, message.command)
            else:
                with suppress(*ALIKE):  # rank 0 has it as well, and decides what follows
                    _follow(learners[message.learner], message.command)


def serve_torchrun() -> None:
    """Be a rank that `torchrun` has started; the process ends with it."""
    ranks = follow()
    for signum in (signal.SIGINT, signal.SIGTERM):  # torchrun sends them to all; rank 0 finishes its step and saves
        signal.signal(signum, signal.SIG_IGN)
    serve(ranks)
    os._exit(0)  # threads of gloo may still have tensors, whose release aborts while Python shuts down


def _built(ranks: Ranks, command: Build) -> RankLearner:
    configure_torch(Placement(ranks.device.type, command.dtype))
    torch.set_num_threads(command.threads)
    model = empty_model(command)
    settings = from_plain(command.settings)
    return RankLearner(model, settings, ranks, with_values=command.with_values, imitates=command.imitates)


def _follow(learner: RankLearner, command: Command) -> None:
    match command:
        case Update(samples):
            learner.update(samples)
        case Read("values", samples):
            learner.values(samples)
        case Read(_, samples):
            learner.evaluate_tokens(samples)
        case Fetch(names):
            learner.fetch(names)
        case Restore():
            learner.receive(command, {})
        case Find(path):
            learner.find(Path(path))
        case Save(folder):
            learner.save_shards(Path(folder))
        case Load():
            learner.load(command)
        case SetSettings(settings):
            learner.set_settings(without_threads(from_plain(settings)))


if __name__ == "__main__":
    _, _port, _rank, _size, _device = sys.argv
    serve(join(int(_port), int(_rank), int(_size), _device))
    os._exit(0)  # without waiting for threads
