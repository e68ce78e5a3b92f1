"""A cache of the model and policy server that runs in one process share."""

from __future__ import annotations

import copy
import gc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mage.config.schema import Config
from mage.engines.registry import ENGINES, make_server
from mage.engines.settings import EngineSettings
from mage.errors import pick
from mage.models.device import Placement, configure_torch, num_cores, resolve_placement, share_threads
from mage.models.load import LoadedModel, canonical_worlds, is_random, load_model
from mage.protocols import PolicyServer
from mage.training.build import worlds_of
from mage.types import Device


@dataclass(frozen=True)
class _CacheEntry:
    """An untrained model as loaded, and a server that any run with this model can publish to."""

    key: tuple[object, ...]
    """The settings that a config must have in common with it."""
    seed: int
    loaded: LoadedModel
    server: PolicyServer


class ModelCache:
    """Keeps the last model and its policy server, with captured graphs, for the next run with the same settings.

    A run gets a copy of the model as loaded, so its results are those of a run in a process of its own. The server is
    shared: every run publishes its weights before it plays. Only one model is kept, because two may not fit in memory,
    and memory of a run that has ended is freed first.
    """

    def __init__(self) -> None:
        self._entry: _CacheEntry | None = None

    def get(self, config: Config, tokenizer: Path | None = None) -> tuple[LoadedModel, PolicyServer]:
        """A copy of the config's model to train, and a server for it; `tokenizer` is that of a run that goes on."""
        placement = resolve_placement(config.device, config.dtype)
        key = (config.agent.model, placement, config.engine, engine_settings(config), _words(config, tokenizer))
        loaded: LoadedModel | None = None
        server: PolicyServer | None = None
        if self._entry is not None and self._entry.key == key:
            server = self._entry.server
            if self._entry.seed == config.seed or not is_random(config.agent.model):
                loaded = self._entry.loaded
        self._entry = None  # frees memory before the next model is loaded
        gc.unfreeze()  # building the parts of a run froze them
        gc.collect()
        gc.freeze()  # building the next has little left to look at
        loaded = loaded or _load(config, placement, tokenizer)
        server = server or make_server(config.engine, loaded, engine_settings(config))
        server.clear()
        loaded.model.to("cpu")  # GPU memory is for the learner's copy
        self._entry = _CacheEntry(key, config.seed, loaded, server)
        return replace(loaded, model=copy.deepcopy(loaded.model).to(_loaded_on(config, placement))), server


def model_and_server(config: Config, tokenizer: Path | None = None) -> tuple[LoadedModel, PolicyServer]:
    """A config's model and a policy server for it. They depend on the settings in a `ModelCache`'s key alone."""
    loaded = _load(config, resolve_placement(config.device, config.dtype), tokenizer)
    return loaded, make_server(config.engine, loaded, engine_settings(config))


def model_and_inference_server(
    config: Config, worlds: Sequence[str], tokenizer: Path | None = None
) -> tuple[LoadedModel, PolicyServer]:
    """A config's model and a policy server for inference only, which need not leave memory for a learner.

    `worlds` are those that will be played.
    """
    pick("engine", ENGINES, config.engine)
    placement = resolve_placement(config.device, config.dtype)
    configure_torch(placement)
    loaded = load_model(
        config.agent.model,
        seed=config.seed,
        dtype=placement.dtype,
        device=placement.device,
        worlds=worlds,
        tokenizer=tokenizer,
    )
    share_threads(loaded.model, config.threads or num_cores())
    settings = EngineSettings(config.agent.context, config.agent.slots, is_trained=False, servers=config.agent.server)
    return loaded, make_server(config.engine, loaded, settings)


def engine_settings(config: Config) -> EngineSettings:
    """What a run needs of its policy server.

    A league needs room for one policy for evaluation, one for each learner and one for each snapshot. There can be one
    more snapshot per learner for a moment, because new ones are added before old ones are evicted, and the last one of
    a learner is never evicted.
    """
    league = config.league
    num = 1 + 2 * league.learners + max(league.snapshots, league.learners) if league.learners else 1
    agent, learner = config.agent, config.learner
    return EngineSettings(agent.context, agent.slots, num, learner.lora_rank, ranks=learner.ranks, servers=agent.server)


def _load(config: Config, placement: Placement, tokenizer: Path | None) -> LoadedModel:
    return load_model(
        config.agent.model,
        seed=config.seed,
        dtype=placement.dtype,
        device=_loaded_on(config, placement),
        worlds=worlds_of(config),
        tokenizer=tokenizer,
    )


def _loaded_on(config: Config, placement: Placement) -> str:
    """The device that a model to train is loaded on: the host, where ranks take it from there and a server plays.

    No card needs room for the whole model then.
    """
    return Device.CPU.value if config.learner.ranks > 1 and config.agent.server else placement.device


def _words(config: Config, tokenizer: Path | None) -> object:
    """What the vocabulary of a model depends on that is made in each process; None for other models."""
    if not is_random(config.agent.model):
        return None
    return canonical_worlds(worlds_of(config)) if tokenizer is None else (tokenizer / "tokenizer.json").read_bytes()
