"""What each card holds: ranks of the learner, the engine of rank 0, and workers. On a CPU, what each process holds."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from mage.config.schema import Config
from mage.errors import ConfigError
from mage.learners.settings import AUTO_BUDGET, AUTO_SHARE
from mage.planning.engine_memory import engine_parts, num_slots, server_parts, vllm_parts
from mage.planning.figures import Basis, Card, MemoryPart
from mage.planning.learner_memory import Placement, activation_part, position_bytes, state_parts
from mage.planning.measured import GIB
from mage.planning.shapes import Shape
from mage.training.combinations import check_worker_gpus
from mage.training.workers.places import check_places, gpus_of_workers, machines_with
from mage.types import Device

USABLE = 0.9
"""Share of a card that a plan fills at most; the rest is for CUDA, graphs and fragments, which were not measured."""


class Machine(NamedTuple):
    """What there is to run on."""

    gpus: int
    """0: a CPU."""
    gib: float
    """Memory of a card; 0 on a CPU, whose memory is not asked for."""
    per_node: int
    """Cards of one machine."""

    @property
    def card_bytes(self) -> int:
        """Bytes of a card."""
        return int(self.gib * GIB)


class Planned(NamedTuple):
    """A model, a config and a machine."""

    shape: Shape
    config: Config
    where: Placement
    machine: Machine

    @property
    def serving(self) -> int:
        """Cards that vLLM servers are on, of the first machine; 0 where the engine is the run's own."""
        return self.server_cards * len(self.config.agent.server)

    @property
    def server_cards(self) -> int:
        """Cards that one vLLM server is over: of its share as many as it can divide the attention heads by."""
        share = _serving(self.config, self.machine) // max(1, len(self.config.agent.server))
        heads, pairs = self.shape.num_attention_heads, self.shape.num_key_value_heads
        usable = (n for n in range(share, 0, -1) if heads % n == 0 and max(pairs, n) % min(pairs, n) == 0)
        return next(usable, 0)

    @property
    def num_engines(self) -> int:
        """Engines that share the play: those of workers, servers with cards of their own, or one."""
        return self.config.rollout.workers or (len(self.config.agent.server) if self.serving else 1)

    @property
    def worker_cards(self) -> list[int]:
        """The card that each worker plays on, the first of its own: Ray gives them out from the first one on."""
        return gpus_of_workers(self.config.rollout, machines_with(self.machine.gpus, self.machine.per_node))


class _Content(NamedTuple):
    """What is on one card."""

    rank: int | None
    num_workers: int
    serves: bool
    """Whether it has a part of a vLLM server."""


def _serving(config: Config, machine: Machine) -> int:
    """Cards of the first machine that servers may be on."""
    return min(machine.gpus, machine.per_node) if config.agent.server else 0


def check_machine(config: Config, machine: Machine) -> None:
    """Raise a ConfigError where the processes of a config do not get a card."""
    ranks, rollout, gpus = config.learner.ranks, config.rollout, machine.gpus
    check_worker_gpus(config, Device.CUDA if gpus else Device.CPU)
    if not gpus:
        return
    if ranks > gpus:
        raise ConfigError(f"learner.ranks = {ranks}: each rank needs a GPU of its own, and --gpus is {gpus}")
    try:
        check_places(rollout, machines_with(gpus, machine.per_node))
    except ConfigError as error:
        raise ConfigError(f"{error} (--gpus {gpus} --per-node {machine.per_node})") from None
    servers, cards = len(config.agent.server), _serving(config, machine)
    if servers and cards % servers:
        raise ConfigError(
            f"agent.server names {servers} servers: each is planned with as many cards as the others, and the first "
            f"machine has {cards}"
        )


def cards_of(plan: Planned) -> list[Card]:
    """The cards in order, equal neighbours as one."""
    contents = _contents(plan)
    # All ranks but the first are alike.
    kinds = [(None if one.rank is None else min(1, one.rank), one.num_workers, one.serves) for one in contents]
    cards: list[Card] = []
    at = 0
    for _, same in groupby(kinds):
        count = len(list(same))
        cards.append(_card(plan, contents[at : at + count]))
        at += count
    return cards


def _contents(plan: Planned) -> list[_Content]:
    config, machine = plan.config, plan.machine
    ranks, rollout = config.learner.ranks, config.rollout
    if not machine.gpus:
        others = (_Content(None, 1, False) for _ in range(rollout.workers))
        return [*(_Content(rank, 0, False) for rank in range(ranks)), *others]
    workers = [0] * machine.gpus
    for card in plan.worker_cards:
        workers[card] += 1
    return [
        _Content(card if card < ranks else None, workers[card], card < plan.serving) for card in range(machine.gpus)
    ]


def _card(plan: Planned, contents: list[_Content]) -> Card:
    shape, config, where = plan.shape, plan.config, plan.where
    first, ranks = contents[0], config.learner.ranks
    state = state_parts(shape, config.learner, where) if first.rank is not None else []
    engine: list[MemoryPart] = []
    if first.rank == 0 and not config.agent.server:
        engine = _engine_parts(plan, is_trained=True)
    served = server_parts(shape, config, where, plan.server_cards) if first.serves else []
    parts = [*state, *engine, *served, *(_worker_parts(plan, first.num_workers) if first.num_workers else [])]
    start = 0
    if first.rank is not None:
        kept = sum(part.num_bytes for part in parts)
        parts.append(activation_part(shape, config.learner, where, num_positions(plan, kept)))
        if ranks > 1 and engine:
            start = where.number_bytes * shape.parameters + sum(part.num_bytes for part in engine)
    return Card(_name(contents, config), len(contents), tuple(parts), start)


def _engine_parts(plan: Planned, *, is_trained: bool) -> list[MemoryPart]:
    """The engine of a process."""
    shape, config, where, machine = plan
    if config.engine == "vllm":
        return vllm_parts(shape, config, where, machine.card_bytes, is_trained=is_trained)
    slots = num_slots(shape, config, where, machine.card_bytes, is_trained=is_trained)
    return engine_parts(shape, config, where, slots)


def _worker_parts(plan: Planned, num: int) -> list[MemoryPart]:
    """The engines of workers; each also holds the model as it was loaded, with LoRA always, else while it is built."""
    shape, config, where = plan.shape, plan.config, plan.where
    loaded = where.number_bytes * shape.parameters
    how = "kept below the adapter" if config.learner.lora_rank else "while the worker is built"
    parts = [MemoryPart("loaded weights", loaded, Basis.COMPUTED, how), *_engine_parts(plan, is_trained=False)]
    times = "" if num == 1 else f", {num} workers"
    return [MemoryPart(f"worker: {part.name}", num * part.num_bytes, part.basis, part.source + times) for part in parts]


def num_positions(plan: Planned, kept: int) -> int:
    """Positions of the largest micro-batch on a card that holds `kept` bytes besides."""
    budget = plan.config.learner.token_budget
    if budget == "auto" and plan.where.is_cuda:
        free = AUTO_SHARE * max(0.0, USABLE * plan.machine.card_bytes - kept)
        budget = int(free / position_bytes(plan.shape, plan.config.learner, plan.where))
    elif budget == "auto":
        budget = AUTO_BUDGET
    # A sample that is longer than the budget goes alone.
    return max(budget, plan.config.agent.context)


def _name(contents: list[_Content], config: Config) -> str:
    first, last = contents[0], contents[-1]
    names = []
    if first.rank == 0:
        alone = "learner" if config.agent.server else "learner and engine"
        names.append("rank 0" if config.learner.ranks > 1 else alone)
    elif first.rank is not None:
        names.append(f"rank {first.rank}" if first.rank == last.rank else f"ranks {first.rank} to {last.rank}")
    if first.serves:
        names.append("server")
    if first.num_workers:
        names.append("worker" if first.num_workers == 1 else f"{first.num_workers} workers")
    return " + ".join(names) or "unused"
