"""Worlds by name: a spec becomes a world here and nowhere else.

`register_world` and entry points of the group `mage.worlds` add names; every other name is one of OpenSpiel's games.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from mage.errors import ConfigError, did_you_mean
from mage.protocols import World
from mage.registry import Registry, require_methods
from mage.spec import call_with, parse_spec, show_parameters, without_defaults
from mage.types import WorldInfo
from mage.worlds.alfworld.factory import make_alfworld
from mage.worlds.hidden import HiddenTable
from mage.worlds.minesweeper.world import MineSweeper
from mage.worlds.openspiel.game import WORDED
from mage.worlds.openspiel.rules import is_known
from mage.worlds.openspiel.world import OpenSpielWorld
from mage.worlds.sokoban.world import Sokoban
from mage.worlds.solo import SoloWorld
from mage.worlds.webshop.world import WebShop

_METHODS = ("rules", "new_env", "opponent", "check_opponent", "check_level")


def _factory(given: object) -> Callable[..., Any]:
    if not callable(given):
        raise TypeError(f"a world is registered by a class or function that makes it, not by {given!r}")
    return given


WORLDS: Registry[Callable[..., Any]] = Registry(
    "world",
    {
        "alfworld": make_alfworld,
        "hidden": HiddenTable,
        "minesweeper": MineSweeper,
        "sokoban": Sokoban,
        "webshop": WebShop,
    },
    _factory,
    lambda name: name in WORDED or is_known(name),
)
"""Factories of worlds by name, except for OpenSpiel's games. Parameters of a spec are those of its factory."""


def add_game(name: str, builder: object) -> None:
    """Register an OpenSpiel game; a world has precedence, so a game with the name of one would never be played."""
    if isinstance(name, str) and name in WORLDS:
        raise ConfigError(f"the game {name!r} cannot be registered: a world has this name; take another one")
    WORDED.add(name, builder)


@lru_cache(maxsize=1024)
def load_world(spec: str) -> World:
    """The world of a spec, made once; a run may have one for each of its wordings.

    >>> load_world("rps(rounds=3)").info.num_seats
    2
    """
    parsed = parse_spec(spec)
    if parsed.name not in WORLDS:
        _check_known(parsed.name)
        return OpenSpielWorld(spec)
    factory = WORLDS[parsed.name]
    if isinstance(factory, type) and issubclass(factory, SoloWorld):
        needs = [name for name in vars(SoloWorld) if name in SoloWorld.__abstractmethods__]
        lacking = [name for name in needs if name in factory.__abstractmethods__]
        if lacking:
            listed = f"{', '.join(lacking)}; mage.SoloWorld needs {', '.join(needs)}"
            raise ConfigError(f"the world {parsed.name!r} lacks {listed}")
    world = call_with("world", parsed, factory)
    require_methods("world", parsed.name, world, _METHODS, "mage.protocols.World")
    if not isinstance(getattr(world, "info", None), WorldInfo):
        raise ConfigError(f"the world {parsed.name!r} lacks info, a mage.types.WorldInfo")
    if isinstance(world, SoloWorld):
        world._asked.name = spec
    found: World = world
    return found


def normal_world(spec: str) -> str:
    """The spec as worlds are compared: in canonical form, without parameters that have their default.

    >>> normal_world("rps( rounds=3 )") == normal_world("rps(3)") == normal_world("rps")
    True
    """
    parsed = parse_spec(spec)
    maker = WORLDS[parsed.name] if parsed.name in WORLDS else WORDED.get(parsed.name)
    return str(parsed if maker is None else without_defaults(parsed, maker, 0))


def is_known_world(name: str) -> bool:
    """Whether there is a world of this name."""
    return name in WORLDS or name in WORDED or is_known(name)


def _check_known(name: str) -> None:
    if not is_known_world(name):
        registered = f"registered: {', '.join(WORLDS)}; " if WORLDS else ""
        guess = did_you_mean(name, (*WORLDS, *WORDED))
        raise ConfigError(
            f"unknown world {name!r}; {guess}{registered}with words: {', '.join(WORDED)}; "
            "`mage list worlds --all` names OpenSpiel's; --import FILE adds your own"
        )


class WorldEntry(NamedTuple):
    """A registered world as lists show it."""

    spec: str
    parameters: str
    about: str


def world_entries(table: Registry[Callable[..., Any]] = WORLDS) -> list[WorldEntry]:
    """The worlds of a table that can be imported; a factory that has `listed` is shown by the specs that it lists."""
    found: list[WorldEntry] = []
    for name in table:
        if table.trouble(name) is None:
            factory = table[name]
            about = (factory.__doc__ or "").partition("\n")[0]
            own = [(name, show_parameters(factory, 0), about)]
            found += [WorldEntry(*entry) for entry in (factory.listed() if hasattr(factory, "listed") else own)]
    return found
