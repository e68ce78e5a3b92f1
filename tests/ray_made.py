"""Runs with workers, step by step, and comparisons of their trials."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from torch import Tensor

from mage.credit.dead_groups import split_dead
from mage.credit.running_stats import EMPTY
from mage.league.matches import PlayedMatch
from mage.training import loop
from mage.training.run_tokenizer import keep_tokenizer
from mage.training.setup import Setup, set_up
from mage.training.workers.pool import WorkerPlay
from mage.types import Group
from tests.tiny import tiny_parts

TOLERANCE = 1e-6
"""Of log-probabilities and weights: their last bits depend on which trials share a pass of the model."""
_STEPS = 2


def need_ray() -> None:
    """Skip the test where Ray is not installed; fail where it must be."""
    if find_spec("ray") is None:
        reason = "Ray is not installed: pip install -c constraints.txt ray"
        if os.environ.get("MAGE_RAY_TESTS") == "required":
            pytest.fail(f"MAGE_RAY_TESTS=required, but {reason}", pytrace=False)
        pytest.skip(reason)


class Trained(NamedTuple):
    """What two steps have made."""

    setup: Setup
    folder: Path
    groups: list[Group]
    weights: dict[str, Tensor]


def set_up_workers(folder: Path, *overrides: str) -> Setup:
    """The setup of a tiny run, with its tokenizer in the folder."""
    parts = tiny_parts(*overrides)
    folder.mkdir(exist_ok=True)
    keep_tokenizer(folder, parts.loaded)
    return set_up(parts, folder)


def trained(folder: Path, *overrides: str) -> Trained:
    """Two steps of a tiny run."""
    setup = set_up_workers(folder, *overrides)
    learner = setup.parts.learner
    groups: list[Group] = []
    for step in range(_STEPS):
        found = asyncio.run(loop.collect(setup, step, EMPTY))
        groups += found.groups
        live, _ = split_dead(found.advantages)
        assert live
        learner.update(loop.to_batch(found.groups, found.credited, found.advantages, live))
    return Trained(setup, folder, groups, {name: tensor.clone() for name, tensor in learner.weights().merged().items()})


def workers_of(setup: Setup) -> WorkerPlay:
    assert isinstance(setup.match_play, WorkerPlay)
    return setup.match_play


def played(setup: Setup) -> list[PlayedMatch]:
    """The matches of a step: 96 trials."""

    async def play() -> list[PlayedMatch]:
        await setup.match_play.publish(7)
        return await setup.match_play.play(setup.source.draw(7, {"main": 24}), 7)

    return asyncio.run(play())


def assert_same_trials(found: Sequence[Group], wanted: Sequence[Group], tolerance: float = TOLERANCE) -> None:
    """Compare trials: all but the last bits of log-probabilities must be equal."""
    ours, theirs = (msgspec.to_builtins(list(groups)) for groups in (found, wanted))
    own, others = list(_take_logprobs(ours)), list(_take_logprobs(theirs))
    assert ours == theirs
    assert own == pytest.approx(others, abs=tolerance)


def assert_same_weights(found: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float = TOLERANCE) -> None:
    """Compare weights within the tolerance."""
    assert found.keys() == wanted.keys()
    assert max(float((found[name] - wanted[name]).abs().max()) for name in wanted) <= tolerance


def _take_logprobs(value: Any) -> list[float]:
    """Remove all log-probabilities below a value, and return them in order."""
    if isinstance(value, dict):
        own = list(value.pop("logprobs", ()))
        return own + [number for inner in value.values() for number in _take_logprobs(inner)]
    return [number for inner in value for number in _take_logprobs(inner)] if isinstance(value, list | tuple) else []
