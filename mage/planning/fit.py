"""Whether a plan fits its cards, and which settings to change where it does not."""

from __future__ import annotations

from collections.abc import Iterator

from mage.config.load import replaced
from mage.errors import ConfigError
from mage.planning.cards import Machine, Planned, cards_of, check_machine, num_positions
from mage.planning.engine_memory import num_slots
from mage.planning.figures import Card
from mage.planning.measured import GIB

USABLE = 0.9
"""Share of a card that a plan fills at most; the rest is for CUDA, graphs and fragments, which were not measured."""
_LEAST_BUDGET, _LEAST_SLOTS = 1024, 16
_RANK = 16
"""The rank of an adapter that is advised."""


def too_large(cards: list[Card], machine: Machine) -> list[Card]:
    """The cards that do not have the memory they need."""
    return [card for card in cards if machine.gpus and card.num_bytes > USABLE * machine.card_bytes]


def verdict(plan: Planned, cards: list[Card]) -> str:
    """One line: fits, or what does not and which settings to change."""
    machine = plan.machine
    if not machine.gpus:
        return f"needs {sum(card.count * card.num_bytes for card in cards) / GIB:.2f} GiB of memory in all processes"
    worst = max(too_large(cards, machine), key=lambda card: card.num_bytes, default=None)
    most = f"{USABLE:.0%} of {machine.gib:g} GiB"
    if worst is None:
        fullest = max(cards, key=lambda card: card.num_bytes)
        return f"fits: {fullest.name} needs {fullest.num_bytes / GIB:.1f} GiB, and {most} may be used"
    needs = f"does not fit: {worst.name} needs {worst.num_bytes / GIB:.1f} GiB, and {most} may be used"
    found = advice(plan)
    if found:
        return f"{needs}; it fits with {' or with '.join(found)}"
    whole = plan.where.number_bytes * plan.shape.parameters / GIB
    return (
        f"{needs}; no setting makes it fit: the whole weights ({whole:.1f} GiB) must fit on one card beside the "
        "engine's cache; take cards with more memory or a smaller model"
    )


def advice(plan: Planned) -> list[str]:
    """Settings with which a plan fits: single ones, or else the fewest of a list, one after the other."""
    singles = [" ".join(_written(values)) for values in _steps(plan) if _fits(plan, values)]
    if singles:
        return singles
    together: dict[str, object] = {}
    for values in _steps(plan):
        together |= values
        if _fits(plan, together):
            return [" ".join(_written(together))]
    return []


def _steps(plan: Planned) -> Iterator[dict[str, object]]:
    """Changes that save memory, those that cost least first. Numbers are the largest that fit, or the least tried."""
    learner, agent, machine = plan.config.learner, plan.config.agent, plan.machine
    if learner.token_budget != "auto":
        yield _largest(plan, "learner.token_budget", num_positions(plan, 0), _LEAST_BUDGET)
    slots = agent.slots or num_slots(plan.shape, plan.config, plan.where, machine.card_bytes, is_trained=True)
    yield _largest(plan, "agent.slots", slots, _LEAST_SLOTS)
    if not learner.gradient_checkpointing:
        yield {"learner.gradient_checkpointing": True}
    ranks = min(machine.gpus, machine.per_node)
    if learner.ranks < ranks and learner.token_budget != "auto" and not plan.config.league.learners:
        yield {"learner.ranks": ranks}
    if not learner.lora_rank:
        yield {"learner.lora_rank": _RANK}


def _largest(plan: Planned, key: str, now: int, least: int) -> dict[str, object]:
    """The largest half, quarter, … of a number with which a plan fits; the least one where none does."""
    number = now
    while number // 2 >= least:
        number //= 2
        if _fits(plan, {key: number}):
            break
    return {key: number}


def _fits(plan: Planned, values: dict[str, object]) -> bool:
    config = replaced(plan.config, values, "the plan")
    try:
        check_machine(config, plan.machine)
    except ConfigError:
        return False
    return not too_large(cards_of(plan._replace(config=config)), plan.machine)


def _written(values: dict[str, object]) -> list[str]:
    """Settings as overrides on the command line."""
    return [f"{key}={str(value).lower()}" for key, value in values.items()]
