"""`mage list`: worlds, opponents, recipes, models, prompting methods and splits, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import product
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from mage.agents.methods.registry import ALL_METHODS
from mage.config.compose import RecipeKind, shipped_recipes
from mage.engines.scripted import MODELS as SCRIPTED
from mage.errors import ConfigError
from mage.evaluation.splits import SplitKind, load_split, split_names
from mage.models.load import MODELS
from mage.opponents.registry import describe_opponents
from mage.protocols import HasPlayers
from mage.registry import Registry
from mage.runs.console import plain_console
from mage.runs.drawings import shown
from mage.spec import show_parameters
from mage.worlds.openspiel.game import WORDED, known_games
from mage.worlds.registry import WORLDS, load_world, world_entries

_KINDS = {
    "worlds": "game, population and splits; each runs as it is",
    "models": "after a world",
    "methods": "memory and credit; after a world or a tuned recipe",
    "variants": "after a world or a tuned recipe",
    "tuned": "combinations with numbers of their own; each runs as it is",
}


class Listing(StrEnum):
    """What can be listed."""

    WORLDS = "worlds"
    OPPONENTS = "opponents"
    RECIPES = "recipes"
    MODELS = "models"
    METHODS = "methods"
    SPLITS = "splits"


def command(
    kind: Listing, everything: Annotated[bool, typer.Option("--all", help="Worlds: OpenSpiel's own too.")] = False
) -> None:
    """List worlds, opponents, recipes, models, methods or splits."""
    others = {"opponents": opponents, "recipes": recipes, "models": models, "methods": methods, "splits": splits}
    plain_console().print(worlds(everything) if kind is Listing.WORLDS else others[kind]())


class ListEntry(NamedTuple):
    """One thing that can be chosen by name."""

    name: str
    parameters: str
    about: str


def entries(title: str, listed: Sequence[ListEntry]) -> RenderableType:
    """A heading, then two lines for each entry: how it is written, and what it is."""
    lines: list[RenderableType] = [Text(title, "bold blue")]
    for entry in listed:
        lines.append(Text.assemble(shown(entry.name, "bold"), "  ", shown(entry.parameters, "dim")))
        lines.append(Padding(shown(entry.about), (0, 0, 0, 4)))
    return Group(*lines)


def worlds(everything: bool) -> RenderableType:
    """Registered worlds and games with words of their own; `everything` adds those with OpenSpiel's strings."""
    worded = [_registered(WORDED, name, 0) for name in WORDED]
    how = "Those that hide nothing and are played in turn also take opening=N: the first N moves are drawn at random."
    registered = [entries("Registered worlds", _worlds()), Text()] if WORLDS else []
    table = Group(*registered, entries("Games with words of their own", worded), Text(), Text(how, "dim"))
    others = [name for name in known_games() if name not in WORDED]
    if not everything:
        more = f"and {len(others)} more of OpenSpiel's, with generic words: mage list worlds --all"
        return Group(table, Text(), Text(more, "dim"))
    return Group(table, Text(), Text("OpenSpiel's games, with generic words", "bold blue"), Text(", ".join(others)))


def opponents() -> RenderableType:
    """Opponents by name, under the games they play, and the players that worlds of one seat have for it."""
    rows = [(f"For {o.games}", ListEntry(o.name, o.parameters, o.about)) for o in describe_opponents()]
    for entry in world_entries():
        with suppress(ConfigError):  # a world that needs parameters
            world = load_world(entry.spec)
            own = world.players if isinstance(world, HasPlayers) else {}
            title = f"For the one seat of {entry.spec}, beside uniform"
            rows += [(title, ListEntry(n, show_parameters(make, 1), _first_line(make))) for n, make in own.items()]
    return _grouped(rows, "Write name, name:value or name(key=value), as in mcts:100 or best-response:conservative.")


def recipes() -> RenderableType:
    """Shipped recipes by kind, with where they run and for how long where that was measured."""
    rows = [
        (f"{kind.capitalize()}: {_KINDS[kind]}", ListEntry(r.name, _where(r.device, r.minutes), r.description))
        for kind, r in product(RecipeKind, shipped_recipes())
        if r.kind is kind
    ]
    how = "Compose with +, where later ones win: mage train rps-base+mage. Minutes are those of training, as measured."
    return _grouped(rows, how)


def splits() -> RenderableType:
    """Shipped splits by name, under what they ask of an agent."""
    rows = [
        (kind.value.capitalize(), ListEntry(s.name, f"{len(s.members)} in {s.world}", s.description))
        for kind, s in product(SplitKind, map(load_split, split_names()))
        if s.kind is kind
    ]
    return _grouped(rows, "All but those that are seen are held out: training against them is refused.")


def _grouped(rows: Iterable[tuple[str, ListEntry]], how: str) -> RenderableType:
    """Entries under their headings, and a last line."""
    groups: dict[str, list[ListEntry]] = {}
    for heading, entry in rows:
        groups.setdefault(heading, []).append(entry)
    parts = [part for heading, listed in groups.items() for part in (entries(heading, listed), Text())]
    return Group(*parts, Text(how, "dim"))


def _where(device: str, minutes: str) -> str:
    """Where a recipe runs and how long.

    >>> _where("CPU", "3 to 4"), _where("GPU", "")
    ('CPU, 3 to 4 minutes', 'GPU')
    """
    return ", ".join(filter(None, (device, minutes and f"{minutes} minutes")))


def _registered(table: Registry[Callable[..., Any]], name: str, num_context: int) -> ListEntry:
    """One entry of a registry; of a plugin that cannot be loaded, why."""
    trouble = table.trouble(name)
    if trouble is not None:
        return ListEntry(name, "", trouble)
    return ListEntry(name, show_parameters(table[name], num_context), _first_line(table[name]))


def methods() -> RenderableType:
    """Prompting methods by name, each with the memories it takes."""
    troubles = {name: ALL_METHODS.trouble(name) for name in ALL_METHODS}
    listed = [
        ListEntry(name, "", trouble)
        if trouble is not None
        else ListEntry(name, f"memory {', '.join(ALL_METHODS[name].memories)}", _first_line(ALL_METHODS[name]))
        for name, trouble in troubles.items()
    ]
    return entries("Prompting methods, for agent.method", listed)


def _worlds() -> list[ListEntry]:
    """Registered worlds, with their seats where they need no parameters; of one that cannot be imported, why."""
    troubled = [(name, WORLDS.trouble(name)) for name in WORLDS]
    listed = [ListEntry(name, "", trouble) for name, trouble in troubled if trouble is not None]
    for spec, parameters, about in world_entries():
        try:
            num_seats = load_world(spec).info.num_seats
            seats = "; 1 seat" if num_seats == 1 else f"; {num_seats} seats"
        except ConfigError:
            seats = ""
        listed.append(ListEntry(spec, f"{parameters or 'no parameters'}{seats}", about))
    return listed


def models() -> RenderableType:
    """Models by name; a directory in Hugging Face layout is a model too."""
    ours = [_registered(MODELS, name, 1) for name in MODELS]
    scripted = [ListEntry(f"scripted:{name}", "", _first_line(answer)) for name, answer in sorted(SCRIPTED.items())]
    more = "and any causal language model: a directory in Hugging Face layout, a name on the hub, or FILE.gguf"
    return Group(
        entries("Models that learn", ours), Text(more, "dim"), Text(), entries("Scripted, for mage trials", scripted)
    )


def _first_line(function: object) -> str:
    return (function.__doc__ or "").split("\n")[0]
