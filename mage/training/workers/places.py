"""Places for workers: how many fit on each machine of a cluster. A worker is never split over two machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mage.config.sections import RolloutConfig
from mage.errors import ConfigError


class Machine(NamedTuple):
    """What a machine has."""

    gpus: int
    cpus: int


def machines_of(nodes: Sequence[Mapping[str, object]]) -> list[Machine]:
    """The machines that are alive, from what `ray.nodes` tells.

    >>> node = {"Alive": True, "Resources": {"CPU": 4.0, "GPU": 1.0, "memory": 9e9}}
    >>> machines_of([node, {"Alive": False, "Resources": {}}])
    [Machine(gpus=1, cpus=4)]
    """
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    return [Machine(int(own.get("GPU", 0)), int(own.get("CPU", 0))) for own in alive if isinstance(own, Mapping)]


def num_places(machine: Machine, settings: RolloutConfig) -> int:
    """Workers that fit on a machine.

    >>> [num_places(Machine(gpus=3, cpus=4), RolloutConfig(gpus=gpus)) for gpus in (0, 2, 0.4)]
    [4, 1, 4]
    """
    by_cpus = machine.cpus // settings.cpus
    return min(by_cpus, settings.workers_of(machine.gpus)) if settings.gpus else by_cpus


def check_places(settings: RolloutConfig, machines: Sequence[Machine]) -> None:
    """Refuse workers that the machines have no place for: Ray would wait for more machines."""
    num = sum(num_places(machine, settings) for machine in machines)
    if num >= settings.workers:
        return
    keys, each = f"rollout.cpus = {settings.cpus}", _count(settings.cpus, "CPU")
    if settings.gpus:
        keys += f" and rollout.gpus = {settings.gpus:g}"
        each += f" and {_count(settings.gpus, 'GPU')}"
    raise ConfigError(
        f"rollout.workers = {settings.workers} with {keys}: each needs {each} of one machine, and there are places for "
        f"{num}: {_listed(machines)}"
    )


def _listed(machines: Sequence[Machine]) -> str:
    """The machines, equal ones counted, with most GPUs first."""
    counts = sorted(Counter(machines).items(), reverse=True)
    return ", ".join(
        f"{_count(num, 'machine')} with {_count(machine.cpus, 'CPU')} and {_count(machine.gpus, 'GPU')}"
        for machine, num in counts
    )


def _count(num: float, what: str) -> str:
    return f"{num:g} {what}{'' if num == 1 else 's'}"
