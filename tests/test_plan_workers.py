"""`mage plan` with workers: their places are those of the run, machine by machine."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from mage.config.load import load_config
from mage.errors import ConfigError
from mage.planning.plan import Plan, plan
from mage.training.workers.places import Machine, check_places

SMALL = ["agent.slots=64", "learner.token_budget=2048"]


def planned(workers: int, gpus: float, cards: int, per_node: int, *values: str) -> Plan:
    rollout = [f"rollout.workers={workers}", f"rollout.gpus={gpus:g}"]
    return plan("rps-llm", [*SMALL, *rollout, *values], gpus=cards, per_node=per_node)


def names(found: Plan) -> list[tuple[str, int]]:
    return [(card.name, card.count) for card in found.cards]


def machines(cards: int, per_node: int) -> list[Machine]:
    """Machines with so many GPUs, and more CPUs than any workers here need."""
    full, left = divmod(cards, per_node)
    return [*[Machine(per_node, 64)] * full, *([Machine(left, 64)] if left else [])]


@pytest.mark.parametrize(
    ("gpus", "cards", "per_node", "most"),
    [
        (2, 6, 3, 2),
        (2, 9, 3, 3),
        (2, 5, 3, 2),
        (2, 4, 3, 1),
        (3, 16, 8, 4),
        (1, 6, 3, 6),
        (0.4, 4, 3, 8),
        (0.6, 4, 3, 4),
    ],
)
def test_the_plan_accepts_as_many_workers_as_the_run(gpus: float, cards: int, per_node: int, most: int) -> None:
    assert planned(most, gpus, cards, per_node).fits
    with pytest.raises(ConfigError) as refused:
        planned(most + 1, gpus, cards, per_node)
    for workers in (most, most + 1):
        rollout = load_config("rps-llm", [f"rollout.workers={workers}", f"rollout.gpus={gpus:g}"]).rollout
        if workers == most:
            check_places(rollout, machines(cards, per_node))
            continue
        with pytest.raises(ConfigError) as told:
            check_places(rollout, machines(cards, per_node))
        without_cpus = re.sub(r"rollout\.cpus = 1 and |1 CPU and |64 CPUs and ", "", str(told.value))
        assert str(refused.value) == f"{without_cpus} (--gpus {cards} --per-node {per_node})"


@pytest.mark.parametrize(
    ("values", "gpus", "per_node", "said"),
    [
        (
            ["rollout.workers=3", "rollout.gpus=2"],
            6,
            3,
            "rollout.workers = 3 with rollout.gpus = 2: each needs 2 GPUs of one machine, and there are places for 2: "
            "2 machines with 3 GPUs (--gpus 6 --per-node 3)",
        ),
        (
            ["rollout.workers=1", "rollout.gpus=4"],
            7,
            3,
            "rollout.workers = 1 with rollout.gpus = 4: each needs 4 GPUs of one machine, and there are places for 0: "
            "2 machines with 3 GPUs, 1 machine with 1 GPU (--gpus 7 --per-node 3)",
        ),
        (
            ["rollout.workers=5", "rollout.gpus=0.4"],
            2,
            8,
            "rollout.workers = 5 with rollout.gpus = 0.4: each needs 0.4 GPUs of one machine, and there are places for "
            "4: 1 machine with 2 GPUs (--gpus 2 --per-node 8)",
        ),
        (
            ["rollout.workers=2", "rollout.gpus=1"],
            0,
            8,
            "rollout.gpus = 1: the model runs on cpu; set it to 0",
        ),
    ],
)
def test_workers_without_a_place_are_refused_in_a_line(
    values: Sequence[str], gpus: int, per_node: int, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        plan("rps-llm", values, gpus=gpus, per_node=per_node)
    assert str(caught.value) == said


def test_a_worker_is_on_cards_of_one_machine() -> None:
    found = planned(2, 2, 6, 3)
    assert names(found) == [("learner and engine + worker", 1), ("unused", 2), ("worker", 1), ("unused", 2)]
    assert "2 workers are on 2 machines; the run joins their Ray by rollout.address." in found.notes
    shared = planned(7, 0.4, 4, 3)
    assert names(shared) == [("learner and engine + 2 workers", 1), ("2 workers", 2), ("worker", 1)]
    assert not [note for note in planned(3, 1, 6, 3).notes if "rollout.address" in note]


def test_ranks_and_workers_share_cards_machine_by_machine() -> None:
    found = planned(2, 2, 6, 3, "learner.ranks=5")
    wanted = [("rank 0 + worker", 1), ("ranks 1 to 2", 2), ("rank 3 + worker", 1), ("rank 4", 1), ("unused", 1)]
    assert names(found) == wanted
    assert "5 ranks are on 2 machines, where torchrun starts them." in found.notes


def test_what_is_advised_with_workers_on_several_machines_fits() -> None:
    found = plan("rps-llm", ["rollout.workers=2", "rollout.gpus=2", "agent.slots=64"], model="7b", gpus=6, per_node=3)
    assert not found.fits
    (advised,) = re.findall(r"it fits with (.*)$", found.verdict)
    for values in advised.split(" or with "):
        again = ["rollout.workers=2", "rollout.gpus=2", "agent.slots=64", *values.split()]
        assert plan("rps-llm", again, model="7b", gpus=6, per_node=3).fits, values


def test_cards_that_are_not_used_are_explained() -> None:
    (wide,) = [note for note in planned(2, 2, 6, 3).notes if "not used" in note]
    assert wide.endswith("up to 6, and a worker plays on the first of its 2 alone.")
    (narrow,) = [note for note in planned(2, 1, 6, 3).notes if "not used" in note]
    assert narrow.endswith("up to 6, rollout.workers with rollout.gpus play on others.")
