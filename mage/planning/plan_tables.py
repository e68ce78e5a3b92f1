"""A plan as tables for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.planning.figures import Card, PlanReport, Rate
from mage.planning.measured import GIB
from mage.runs.console import metrics_table
from mage.runs.drawings import shown


def plan_table(plan: PlanReport) -> RenderableType:
    """All tables of a plan, and the verdict."""
    where = f"{plan.gpus} cards of {plan.gib:g} GiB" if plan.gpus > 1 else f"one card of {plan.gib:g} GiB"
    head = (
        f"{plan.recipe} with {plan.shape.name}: {plan.parameters:,} parameters, {plan.trained_parameters:,} trained, "
        f"{plan.dtype}, {where if plan.gpus else 'on a CPU'}"
    )
    parts: list[RenderableType] = [shown(head, "bold"), shown(f"sizes from {plan.shape.source}", "dim"), Text()]
    for card in (card for card in plan.cards if card.parts):
        parts += [shown(_title(card, plan.gpus > 0), "bold"), _memory(card), Text()]
    parts += [Text("speed", "bold"), _speed(plan.rates), Text(), shown(plan.verdict, "bold")]
    return Group(*parts, *([Text(), *(shown(note, "dim") for note in plan.notes)] if plan.notes else []))


def _title(card: Card, is_gpu: bool) -> str:
    kind = "card" if is_gpu else "process"
    many = f"each of {card.count} {kind}{'es' if kind == 'process' else 's'}" if card.count > 1 else f"one {kind}"
    return f"memory of {many}: {card.name}"


def _memory(card: Card) -> Table:
    table = _table("part", "GiB")
    for part in card.parts:
        table.add_row(part.name, gib(part.num_bytes), part.basis, shown(part.source))
    table.add_row("all", gib(sum(part.num_bytes for part in card.parts)), "", "")
    if card.start_bytes == card.num_bytes > 0:
        table.add_row(
            "at the start",
            gib(card.start_bytes),
            "computed",
            "the engine and the whole weights before they are sharded",
        )
    return table


def _speed(rates: tuple[Rate, ...]) -> Table:
    table = _table("part", "")
    for rate in rates:
        number = f"{rate.value:,.0f}" if rate.value >= 100 else f"{rate.value:.3g}"
        table.add_row(rate.name, f"{number} {rate.unit}", rate.basis, shown(rate.source))
    return table


def _table(first: str, second: str) -> Table:
    table = metrics_table(first, second)
    table.add_column("known", justify="left")
    table.add_column("from", justify="left", overflow="fold")
    return table


def gib(num_bytes: int) -> str:
    """Bytes in GiB, small ones with more digits.

    >>> gib(3 * 2**29), gib(10 * 2**20), gib(0)
    ('1.50', '0.0098', '0.00')
    """
    size = num_bytes / GIB
    return f"{size:.2g}" if 0 < size < 0.01 else f"{size:,.2f}"
