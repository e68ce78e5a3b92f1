"""A cache of the model and engine that runs in one process share."""

from __future__ import annotations

import copy
import gc
from dataclasses import dataclass, replace

import torch

from mage.config.schema import Config
from mage.engines.local.adapters import AdapterCapacity
from mage.engines.local.engine import LocalEngine
from mage.engines.local.executor import graph_unsupported_reason
from mage.errors import ConfigError
from mage.models.device import Placement, configure_torch, resolve_placement
from mage.models.load import LoadedModel, is_random, load_model

_LEARNER_BYTES = 16
"""Bytes of a learner per trained parameter: master weight, gradient and two moments, in float32."""


@dataclass(frozen=True)
class _CacheEntry:
    """An untrained model as loaded, and an engine that any run with this model can publish to."""

    key: tuple[object, ...]
    """The settings that a config must have in common with it."""
    seed: int
    loaded: LoadedModel
    engine: LocalEngine


class ModelCache:
    """Keeps the last model and its engine, with captured graphs, for the next run with the same settings.

    A run gets a copy of the model as loaded, so its results are those of a run in a process of its own. The engine is
    shared: every run publishes its weights before it plays. Only one model is kept, because two may not fit in memory,
    and memory of a run that has ended is freed first.
    """

    def __init__(self) -> None:
        self._entry: _CacheEntry | None = None

    def get(self, config: Config) -> tuple[LoadedModel, LocalEngine]:
        """A copy of the config's model to train, and an engine for it."""
        gc.unfreeze()  # building the parts of a run froze them
        gc.collect()
        placement = resolve_placement(config.device, config.dtype)
        entry, self._entry = self._entry, None
        agent = config.agent
        key = (agent.model, placement, agent.context, agent.slots, _adapters(config))
        if entry is None or entry.key != key:
            del entry  # free its memory before the next is loaded
            entry = _CacheEntry(key, config.seed, *model_and_engine(config))
        elif entry.seed != config.seed and is_random(config.agent.model):
            entry = replace(entry, seed=config.seed, loaded=_load(config, placement))
        entry.engine.reset_cache()
        entry.engine.reset_counters()
        entry.loaded.model.to("cpu")  # GPU memory is for the learner's copy
        self._entry = entry
        return replace(entry.loaded, model=copy.deepcopy(entry.loaded.model).to(placement.device)), entry.engine


def model_and_engine(config: Config) -> tuple[LoadedModel, LocalEngine]:
    """A config's model and an engine for it. They depend on the settings in a `ModelCache`'s key alone."""
    loaded = _load(config, resolve_placement(config.device, config.dtype))
    num_trained = 0 if config.learner.lora_rank else sum(p.numel() for p in loaded.model.parameters())
    capacity, reserve = _adapter_capacity(config, loaded), _LEARNER_BYTES * num_trained
    slots, length = config.agent.slots or None, config.agent.context
    return loaded, LocalEngine(loaded, slots=slots, length=length, adapters=capacity, reserve=reserve)


def model_and_inference_engine(config: Config) -> tuple[LoadedModel, LocalEngine]:
    """A config's model and an engine for inference only, which need not leave memory for a learner."""
    placement = resolve_placement(config.device, config.dtype)
    configure_torch(placement, config.threads)
    loaded = _load(config, placement)
    return loaded, LocalEngine(loaded, slots=config.agent.slots or None, length=config.agent.context)


def _adapters(config: Config) -> tuple[int, int, int]:
    """The settings that the engine's capacity for adapters depends on."""
    return config.learner.lora_rank, config.league.learners, config.league.snapshots


def _adapter_capacity(config: Config, loaded: LoadedModel) -> AdapterCapacity | None:
    """The engine's capacity for adapters, or None where an adapter is merged into the weights.

    A single adapter is merged where the weights are float32, or where the engine cannot serve adapters. A league needs
    one for evaluation, one for each learner and one for each snapshot. There can be one more snapshot per learner for a
    moment, because new ones are added before old ones are evicted, and the last one of a learner is never evicted.
    """
    rank, league = config.learner.lora_rank, config.league
    if not rank:
        return None
    obstacle = graph_unsupported_reason(loaded.model, config.agent.context)
    if league.learners:
        if obstacle is not None:
            raise ConfigError(
                f"league.learners = {league.learners}: {loaded.name} cannot play with adapters; {obstacle}"
            )
        return AdapterCapacity(1 + 2 * league.learners + max(league.snapshots, league.learners), rank)
    is_rounded = loaded.model.dtype is not torch.float32
    return AdapterCapacity(1, rank) if is_rounded and obstacle is None else None


def _load(config: Config, placement: Placement) -> LoadedModel:
    return load_model(config.agent.model, seed=config.seed, dtype=placement.dtype, device=placement.device)
