"""Whether a plan fits its cards, and which settings to change where it does not."""

from __future__ import annotations

from collections.abc import Iterator

from mage.config.load import replaced
from mage.errors import ConfigError
from mage.planning.cards import USABLE, Machine, Planned, cards_of, check_machine
from mage.planning.figures import Card
from mage.planning.measured import GIB
from mage.training.combinations import check_combinations

LEAST_BUDGET, LEAST_SLOTS = 1024, 16
"""The smallest numbers that are advised."""
_RANK = 16
"""The rank of an adapter that is advised."""
_SERVER = {"engine": "vllm", "agent.server": "http://127.0.0.1:8000"}
"""The engine that is spread over the cards of a machine, where ours needs the whole model on one."""


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
    return (
        f"{needs}; neither learner.ranks, token_budget, gradient_checkpointing and lora_rank nor agent.slots and "
        "agent.server make it fit; take more or larger cards, or a smaller model"
    )


def advice(plan: Planned) -> list[str]:
    """Settings with which a plan fits: every single one that is enough, or else a few together."""
    singles = [values for values in _changes(plan) if _fits(plan, values)]
    if singles:
        return [_written(_raised(plan, values)) for values in singles]
    together: dict[str, object] = {}
    for values in _changes(plan):
        together |= values
        if _fits(plan, together):
            return [_written(_raised(plan, _needed(plan, together)))]
    return []


def _changes(plan: Planned) -> Iterator[dict[str, object]]:
    """Changes that save memory, those that cost least first; numbers are the least that are tried."""
    learner, machine = plan.config.learner, plan.machine
    if learner.ranks < machine.gpus and learner.token_budget != "auto":
        yield {"learner.ranks": machine.gpus}
    if learner.token_budget != "auto" and learner.token_budget > LEAST_BUDGET:
        yield {"learner.token_budget": LEAST_BUDGET}
    if not 0 < plan.config.agent.slots <= LEAST_SLOTS:
        yield {"agent.slots": LEAST_SLOTS}
    if not learner.gradient_checkpointing:
        yield {"learner.gradient_checkpointing": True}
    if not learner.lora_rank:
        yield {"learner.lora_rank": _RANK}
    if len(plan.config.agent.server) > 1:
        yield {"agent.server": plan.config.agent.server[0]}  # over as many cards as all of them
    if not plan.config.agent.server and not plan.config.rollout.workers:
        yield dict(_SERVER)


def _needed(plan: Planned, values: dict[str, object]) -> dict[str, object]:
    """The changes without those that it fits without."""
    for key in list(values):
        fewer = {name: value for name, value in values.items() if name != key}
        if _fits(plan, fewer):
            values = fewer
    return values


def _raised(plan: Planned, values: dict[str, object]) -> dict[str, object]:
    """The changes with the largest numbers that fit, doubled step by step; the same for all where there are two."""
    learner, agent, batch = plan.config.learner, plan.config.agent, plan.config.batch
    budget = LEAST_BUDGET if learner.token_budget == "auto" else learner.token_budget
    most = {"learner.token_budget": budget, "agent.slots": agent.slots or batch.groups * batch.size}
    numbers = [key for key in most if key in values]
    is_raised = True
    while is_raised:
        is_raised = False
        for key in numbers:
            value = values[key]
            assert isinstance(value, int)
            more = {**values, key: min(most[key], 2 * value)}
            if more != values and _fits(plan, more):
                values, is_raised = more, True
    return values


def _fits(plan: Planned, values: dict[str, object]) -> bool:
    config = replaced(plan.config, values, "the plan")
    try:
        check_machine(config, plan.machine)
        check_combinations(config)
    except ConfigError:
        return False
    return not too_large(cards_of(plan._replace(config=config)), plan.machine)


def _written(values: dict[str, object]) -> str:
    """Settings as overrides on the command line."""
    return " ".join(f"{key}={str(value).lower()}" for key, value in values.items())
