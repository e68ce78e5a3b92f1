"""Places for workers: how many fit on each machine, and on which GPUs. A worker is never split over two machines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mage.config.sections import RolloutConfig
from mage.errors import ConfigError
from mage.models.device import check_processes


class Machine(NamedTuple):
    """What a machine has."""

    gpus: int
    cpus: int | None
    """None: not known, and taken to be enough."""


def machines_of(nodes: Sequence[Mapping[str, object]]) -> list[Machine]:
    """The machines that are alive, from what `ray.nodes` tells.

    >>> node = {"Alive": True, "Resources": {"CPU": 4.0, "GPU": 1.0, "memory": 9e9}}
    >>> machines_of([node, {"Alive": False, "Resources": {}}])
    [Machine(gpus=1, cpus=4)]
    """
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    return [Machine(int(own.get("GPU", 0)), int(own.get("CPU", 0))) for own in alive if isinstance(own, Mapping)]


def machines_with(num_gpus: int, per_node: int) -> list[Machine]:
    """The machines of so many GPUs: `per_node` on each, and on the last one those that are left.

    >>> machines_with(4, 3)
    [Machine(gpus=3, cpus=None), Machine(gpus=1, cpus=None)]
    """
    return [Machine(min(per_node, num_gpus - at), None) for at in range(0, num_gpus, per_node)]


def num_places(machine: Machine, settings: RolloutConfig) -> int:
    """Workers that fit on a machine.

    >>> [num_places(Machine(gpus=3, cpus=4), RolloutConfig(gpus=gpus)) for gpus in (0, 2, 0.4)]
    [4, 1, 4]
    """
    by_cpus = [] if machine.cpus is None else [machine.cpus // settings.cpus]
    by_gpus = [settings.workers_of(machine.gpus)] if settings.gpus else []
    return min(by_cpus + by_gpus, default=settings.workers)


def gpus_of_workers(settings: RolloutConfig, machines: Sequence[Machine]) -> list[int]:
    """The first GPU of each worker, those of all machines counted on; machines are filled from the first one on.

    >>> gpus_of_workers(RolloutConfig(workers=2, gpus=2), machines_with(6, 3))
    [0, 3]
    """
    found: list[int] = []
    before = 0
    for machine in machines:
        found += [before + settings.gpu_of(number) for number in range(num_places(machine, settings))]
        before += machine.gpus
    return found[: settings.workers]


def check_local_workers(settings: RolloutConfig) -> None:
    """Raise a ConfigError for more workers than this machine can hold, where Ray is to be started on it.

    Ray starts a process for each CPU of a worker.
    """
    ray = sys.modules.get("ray")
    if settings.address or (ray is not None and ray.is_initialized()):
        return
    asked = f"rollout.workers = {settings.workers}, rollout.cpus = {settings.cpus}"
    check_processes(asked, settings.workers * settings.cpus)


def check_places(settings: RolloutConfig, machines: Sequence[Machine]) -> None:
    """Refuse workers that the machines have no place for: Ray would wait for more machines."""
    num = sum(num_places(machine, settings) for machine in machines)
    if num >= settings.workers:
        return
    needs: list[tuple[str, float, str]] = []
    if all(machine.cpus is not None for machine in machines):
        needs.append(("rollout.cpus", settings.cpus, "CPU"))
    if settings.gpus:
        needs.append(("rollout.gpus", settings.gpus, "GPU"))
    keys = " and ".join(f"{key} = {value:g}" for key, value, _ in needs)
    each = " and ".join(_count(value, what) for _, value, what in needs)
    raise ConfigError(
        f"rollout.workers = {settings.workers} with {keys}: each needs {each} of one machine, and there are places for "
        f"{num}: {_listed(machines)}"
    )


def _listed(machines: Sequence[Machine]) -> str:
    """The machines, equal ones counted, with most GPUs first."""
    counts = sorted(Counter(machines).items(), reverse=True)
    return ", ".join(f"{_count(num, 'machine')} with {_parts(machine)}" for machine, num in counts)


def _parts(machine: Machine) -> str:
    cpus = "" if machine.cpus is None else f"{_count(machine.cpus, 'CPU')} and "
    return cpus + _count(machine.gpus, "GPU")


def _count(num: float, what: str) -> str:
    return f"{num:g} {what}{'' if num == 1 else 's'}"
