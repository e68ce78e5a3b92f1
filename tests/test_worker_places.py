"""Places for workers are counted machine by machine, CPUs and GPUs together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mage.config.sections import RolloutConfig
from mage.errors import ConfigError
from mage.training.workers.places import Machine, check_places, num_places

THREES = [Machine(gpus=3, cpus=4)] * 3


@pytest.mark.parametrize(
    ("machine", "cpus", "gpus", "wanted"),
    [
        (Machine(0, 4), 1, 0, 4),
        (Machine(0, 4), 3, 0, 1),
        (Machine(3, 4), 1, 1, 3),
        (Machine(3, 4), 1, 2, 1),
        (Machine(3, 4), 1, 4, 0),
        (Machine(3, 2), 1, 1, 2),
        (Machine(3, 0), 1, 1, 0),
        (Machine(2, 16), 1, 0.5, 4),
        (Machine(2, 16), 1, 0.4, 4),
        (Machine(2, 16), 1, 0.3333, 6),
        (Machine(2, 16), 1, 0.6, 2),
        (Machine(2, 3), 1, 0.5, 3),
        (Machine(0, 4), 1, 0.5, 0),
        (Machine(5, None), 8, 2, 2),
    ],
)
def test_places_of_one_machine(machine: Machine, cpus: int, gpus: float, wanted: int) -> None:
    assert num_places(machine, RolloutConfig(cpus=cpus, gpus=gpus)) == wanted


@pytest.mark.parametrize(
    ("settings", "machines"),
    [
        (RolloutConfig(workers=3, gpus=2), THREES),
        (RolloutConfig(workers=4, gpus=2), [*THREES, Machine(2, 1)]),
        (RolloutConfig(workers=12), THREES),
        (RolloutConfig(workers=18, cpus=1, gpus=0.5), [Machine(3, 6)] * 3),
    ],
)
def test_as_many_workers_as_there_are_places_may_be(settings: RolloutConfig, machines: Sequence[Machine]) -> None:
    check_places(settings, machines)
    with pytest.raises(ConfigError, match=f"there are places for {settings.workers}: "):
        check_places(RolloutConfig(workers=settings.workers + 1, cpus=settings.cpus, gpus=settings.gpus), machines)


@pytest.mark.parametrize(
    ("settings", "machines", "said"),
    [
        (
            RolloutConfig(workers=4, gpus=2),  # there are nine GPUs, and three are left over
            THREES,
            "rollout.workers = 4 with rollout.cpus = 1 and rollout.gpus = 2: each needs 1 CPU and 2 GPUs of one "
            "machine, and there are places for 3: 3 machines with 4 CPUs and 3 GPUs",
        ),
        (
            RolloutConfig(workers=3, cpus=2, gpus=1),  # six CPUs and four GPUs, but not on the same machines
            [Machine(0, 4), Machine(4, 2)],
            "rollout.workers = 3 with rollout.cpus = 2 and rollout.gpus = 1: each needs 2 CPUs and 1 GPU of one "
            "machine, and there are places for 1: 1 machine with 2 CPUs and 4 GPUs, 1 machine with 4 CPUs and 0 GPUs",
        ),
        (
            RolloutConfig(workers=2, cpus=3),
            [Machine(0, 4)],
            "rollout.workers = 2 with rollout.cpus = 3: each needs 3 CPUs of one machine, and there are places for 1: "
            "1 machine with 4 CPUs and 0 GPUs",
        ),
        (
            RolloutConfig(workers=2, gpus=0.5),
            [Machine(0, 4)],
            "rollout.workers = 2 with rollout.cpus = 1 and rollout.gpus = 0.5: each needs 1 CPU and 0.5 GPUs of one "
            "machine, and there are places for 0: 1 machine with 4 CPUs and 0 GPUs",
        ),
    ],
)
def test_what_has_no_place_is_refused_with_what_each_machine_has(
    settings: RolloutConfig, machines: Sequence[Machine], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_places(settings, machines)
    assert str(caught.value) == said
