"""Ray: a cluster that is joined, or started on this machine; its actors, and its errors as those of mage."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mage.config.sections import RolloutConfig
from mage.errors import ConfigError, EngineError, MageError, library_errors
from mage.extras import require
from mage.training.workers.cluster_address import check_address
from mage.training.workers.places import check_places, machines_of
from mage.training.workers.worker import Worker

Actor = Any
"""A handle of a `Worker` in another process."""


class WorkerLostError(Exception):
    """A worker has died, or cannot be reached; says why in one line."""


class RayCluster:
    """A cluster of Ray that runs workers. One that this process had joined before is used and left running."""

    def __init__(self, settings: RolloutConfig) -> None:
        require("ray", f"rollout.workers = {settings.workers} needs")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._ray: Any = ray
        self._settings = settings
        self._is_own = not ray.is_initialized()
        if self._is_own:
            check_address(settings.address)
            with _signals_kept():
                _join(ray, settings)
        try:
            check_places(settings, machines_of(ray.nodes()))
        except ConfigError:
            self.stop()
            raise

    def put(self, value: object) -> object:
        """Put a value where all workers can read it; it stays while the result is held."""
        return self._ray.put(value)

    def new_actor(self) -> Actor:
        """A new process for a worker. Ray does not rebuild it: it would lack weights."""
        actors = self._ray.remote(Worker).options(
            num_cpus=self._settings.cpus, num_gpus=self._settings.gpus, max_restarts=0, max_task_retries=0
        )
        return actors.remote()

    async def ask(self, actor: Actor, method: str, *values: object, most_s: float | None = None) -> Any:
        """Call a method of a worker. What it raises is raised here; a `WorkerLostError` where it does not answer."""
        errors = self._ray.exceptions
        try:
            return await asyncio.wait_for(_answer(getattr(actor, method).remote(*values)), most_s)
        except errors.RayTaskError as error:
            raise error.cause from None
        except TimeoutError:
            raise WorkerLostError(f"it was not there after {most_s:.0f} s") from None
        except errors.RayError as error:
            raise WorkerLostError(_reason(error)) from None

    def kill(self, actor: Actor) -> None:
        """End the process of a worker."""
        self._ray.kill(actor)

    def stop(self) -> None:
        """End all processes of a cluster that was started here, or leave one that was joined."""
        if self._is_own:
            with _signals_kept():
                self._ray.shutdown()


def _join(ray: Any, settings: RolloutConfig) -> None:
    """Join the cluster at an address, or start one on this machine. What it calls CPUs need not be cores."""
    quiet = {"log_to_driver": False, "configure_logging": True, "logging_level": logging.CRITICAL}

    def refused(why: str) -> MageError:
        if settings.address:
            return ConfigError(f"rollout.address = {settings.address!r}: Ray does not join it: {_line(why)}")
        return EngineError(f"Ray cannot be started on this machine: {_line(why)}")

    with library_errors(refused):  # where its processes do not start, Ray raises a plain `Exception`
        if settings.address:
            ray.init(address=settings.address, **quiet)
        else:
            num_cpus = settings.workers * settings.cpus
            ray.init(address="local", num_cpus=num_cpus, include_dashboard=False, **quiet)


async def _answer(reference: Any) -> Any:
    return await reference


def _reason(error: Exception) -> str:
    """Why an actor died: Ray explains at length; the exit detail says most, or else the end of a traceback."""
    text = str(error).strip()
    _, found, detail = text.partition("Worker exit detail: ")
    return _line(detail if found else text.splitlines()[-1] if text else type(error).__name__)


def _line(text: str) -> str:
    """The first sentence of a text."""
    return text.strip().partition("\n")[0].partition(". ")[0].rstrip(".")


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
