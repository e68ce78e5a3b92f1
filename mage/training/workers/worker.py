"""A worker: a world and an engine that play jobs with the weights published last. It knows nothing of Ray."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from mage.aio import run_sync
from mage.config.schema import Config
from mage.credit.estimators import make_estimator
from mage.engines.registry import make_server
from mage.engines.settings import EngineSettings
from mage.errors import ConfigError
from mage.league.matches import play_jobs
from mage.models.device import configure_torch, resolve_placement, share_threads
from mage.models.load import LoadedModel, load_model
from mage.plugins import import_sources
from mage.protocols import AgentFactory, PolicyServer
from mage.training.parts import CONCURRENCY, LEARNER, teacher_for, training_agents
from mage.training.step_resources import host_gib
from mage.training.workers.health import WorkerProcess
from mage.training.workers.order import WorkerOrder, read_jobs, read_order, to_bytes
from mage.training.workers.packed_weights import PackedWeights, unpack
from mage.training.workers.portable_errors import PortableErrors
from mage.version import __version__
from mage.weights import Tensor


class _Built:
    """What an order is built into."""

    def __init__(self, order: WorkerOrder) -> None:
        if order.version != __version__:
            raise ConfigError(
                f"a worker has mage {__version__}, the run {order.version}; install the same on all machines"
            )
        import_sources(order.plugins)
        config = Config.model_validate_json(order.config)
        loaded = _loaded(config, order)
        settings = EngineSettings(
            config.agent.context,
            config.agent.slots,
            adapter_rank=config.learner.lora_rank,
            is_trained=False,
            card_share=min(1.0, config.rollout.gpus or 1.0),
        )
        self.server: PolicyServer = make_server(config.engine, loaded, settings)
        self.base: dict[str, Tensor] = dict(loaded.model.state_dict()) if config.learner.lora_rank else {}
        """The weights below an adapter. The engine serves a copy, so they stay as they were loaded."""
        estimator = make_estimator(config.credit.estimator, config.credit.options)
        self.make_agents: Callable[[int], AgentFactory] = training_agents(
            config, self.server.policy(LEARNER), loaded.chat_format, teacher_for(config, estimator)
        )


class Worker:
    """Plays the jobs of a run. `build` comes first, then `publish`, then any number of `play`."""

    @PortableErrors()
    def build(self, order: bytes) -> WorkerProcess:
        """Build world and engine; returns where the process is."""
        self._built = _Built(read_order(order))
        return WorkerProcess(socket.gethostname(), os.getpid())

    @PortableErrors()
    def publish(self, weights: PackedWeights, step: int) -> float | None:
        """Play with these weights, those after `step` updates, from now on; returns the memory of the process."""
        run_sync(self._built.server.publish(LEARNER, unpack(weights, self._built.base), step))
        return host_gib()

    @PortableErrors()
    def play(self, jobs: bytes, step: int) -> bytes:
        """Play jobs; outcomes depend on the jobs and on the weights alone, not on what was played before."""
        self._built.server.reset_cache()
        factories = {LEARNER: self._built.make_agents(step)}
        return to_bytes(run_sync(play_jobs(read_jobs(jobs), factories, CONCURRENCY)))


def _loaded(config: Config, order: WorkerOrder) -> LoadedModel:
    placement = resolve_placement(config.device, config.dtype)
    configure_torch(placement)
    with TemporaryDirectory(prefix="mage-tokenizer-") as folder:
        for name, content in order.tokenizer.items():
            (Path(folder) / name).write_bytes(content)
        loaded = load_model(
            config.agent.model,
            seed=config.seed,
            dtype=placement.dtype,
            device=placement.device,
            worlds=order.worlds,
            tokenizer=Path(folder) if order.tokenizer else None,
        )
    share_threads(loaded.model, config.threads)
    return loaded
