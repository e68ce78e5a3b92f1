"""The terminal drawing of WebShop's pages, from structured facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.types import Episode, Observation


class ShopDrawing:
    """A page of the shop. In other words than usual its text is shown: a picture would give the world away."""

    def __init__(self, is_reworded: bool) -> None:
        self._is_reworded = is_reworded

    def private(self, observation: Observation) -> str:
        return ""

    def position(self, observation: Observation) -> RenderableType | None:
        if self._is_reworded:
            return None
        facts: Mapping[str, Any] = observation.facts
        left = Text(f"Turns left: {facts['turns_left']}", "dim")
        return Group(Text(facts["asked"], "bold yellow"), *_page(facts), left, *_typed(facts))

    def revealed(self, episode: Episode) -> RenderableType:
        facts: Mapping[str, Any] = episode.result.facts
        return Group(Text(facts["asked"], "yellow"), *_page(facts), Text(f"goal {facts['hidden']}", "dim"))

    def menu(self, observation: Observation) -> str:
        return ""


def _typed(facts: Mapping[str, Any]) -> Iterator[RenderableType]:
    """What can be typed where search is free, and what could not."""
    if facts.get("unknown"):
        yield Text(f"Nothing here is called {facts['unknown']!r}.", "yellow")
    if "clicks" in facts:
        clicks = ", ".join(f"[{name}]" for name in facts["clicks"])
        yield Text(f"Type one of: {clicks}" if clicks else "Type what to search for.", "dim")


def _page(facts: Mapping[str, Any]) -> Iterator[RenderableType]:
    if "results" in facts:
        yield Text(f"Page {facts['number']} of {facts['num_pages']} for: {facts['query']}", "dim")
        table = Table.grid(padding=(0, 2))
        for number, title, price in facts["results"]:
            table.add_row(Text(number, "cyan"), Text(title), Text(f"${price:g}", "green"))
        yield table if facts["results"] else Text("Nothing was found.", "yellow")
    if "item" in facts:
        tag = Text.assemble(
            (facts["item"], "cyan"), "  ", (facts["title"], "bold"), "  ", (f"${facts['price']:g}", "green")
        )
        yield tag
        for (name, *values), chosen in zip(facts["options"], facts["chosen"], strict=True):
            shown = [Text(f" {value} ", "reverse" if value == chosen else "") for value in values]
            yield Text.assemble((f"{name}:", "dim"), *shown)
    if "text" in facts:
        yield Text(facts["text"], "italic")
