"""What runs in one process share: a model that was read once, and an engine with its captured graphs."""

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
"""What a learner keeps for each trained number: its master, its gradient, and two moments, in float32."""


@dataclass(frozen=True)
class _Kept:
    """A model as it was read, which nobody trains, and an engine that any run with this model can publish to."""

    wanted: tuple[object, ...]
    """What a config must ask for to be lent it."""
    seed: int
    loaded: LoadedModel
    engine: LocalEngine


class ModelCache:
    """Lends a model to learn with and an engine to play with; what comes next to something like it is quicker.

    A run gets a copy of the model as it was read, so it is the run it would be alone. The engine needs no copy: it
    forgets what it knew when new weights are published, which every run does before it plays. Only the last model
    is kept, because two may not fit side by side, and what a run that has ended left behind is let go of first.
    """

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def get(self, config: Config) -> tuple[LoadedModel, LocalEngine]:
        """The config's model, ready to be trained, and an engine for it."""
        gc.unfreeze()  # building the parts of a run froze them
        gc.collect()
        placement = resolve_placement(config.device, config.dtype)
        kept, self._kept = self._kept, None
        agent = config.agent
        wanted = (agent.model, placement, agent.context, agent.slots, _adapters(config))
        if kept is None or kept.wanted != wanted:
            del kept  # before its successor is made
            kept = _Kept(wanted, config.seed, *model_and_engine(config))
        elif kept.seed != config.seed and is_random(config.agent.model):
            kept = replace(kept, seed=config.seed, loaded=_load(config, placement))
        kept.engine.reset_cache()
        kept.engine.reset_counters()
        kept.loaded.model.to("cpu")  # on the card it would only take the learner's place
        self._kept = kept
        return replace(kept.loaded, model=copy.deepcopy(kept.loaded.model).to(placement.device)), kept.engine


def model_and_engine(config: Config) -> tuple[LoadedModel, LocalEngine]:
    """A config's model and an engine for it. What they depend on is what a bench tells configs apart by."""
    loaded = _load(config, resolve_placement(config.device, config.dtype))
    num_trained = 0 if config.learner.lora_rank else sum(p.numel() for p in loaded.model.parameters())
    capacity, reserve = _room_for(config, loaded), _LEARNER_BYTES * num_trained
    slots, length = config.agent.slots or None, config.agent.context
    return loaded, LocalEngine(loaded, slots=slots, length=length, adapters=capacity, reserve=reserve)


def served(config: Config) -> tuple[LoadedModel, LocalEngine]:
    """A config's model to play with and never to train, and an engine for it, which has all the memory it likes."""
    placement = resolve_placement(config.device, config.dtype)
    configure_torch(placement, config.threads)
    loaded = _load(config, placement)
    return loaded, LocalEngine(loaded, slots=config.agent.slots or None, length=config.agent.context)


def _adapters(config: Config) -> tuple[int, int, int]:
    """What the room for adapters depends on: their rank, and how many there may be."""
    return config.learner.lora_rank, config.league.learners, config.league.snapshots


def _room_for(config: Config, loaded: LoadedModel) -> AdapterCapacity | None:
    """Room for the adapters that are played with.

    One alone is added to the weights where these have enough bits for it, or where there is no other way. Those of a
    league are told apart: one for whoever is judged, one for each learner, and one for each snapshot, of which there
    may be one more a learner for a moment: they join before others leave, and the last of a learner's never does.
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
