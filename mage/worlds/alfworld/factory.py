"""The spec `alfworld(…)`: made of our own engine, or of the package `alfworld`."""

from __future__ import annotations

from inspect import signature
from typing import Any

from mage.worlds.alfworld.game_files import FileGames
from mage.worlds.alfworld.package import PackageWorld
from mage.worlds.alfworld.world import AlfWorld, Settings


def make_alfworld(*values: Any, **named: Any) -> AlfWorld | PackageWorld:
    """ALFWorld, household tasks in text: find, heat, cool, clean and place things; the same game in all episodes."""
    settings = Settings(*values, **named)
    settings.check()
    world = AlfWorld(settings)
    games = settings.source
    if str(settings.engine) == "package" and isinstance(games, FileGames):
        return PackageWorld(world, games, settings.turns)
    return world


make_alfworld.__signature__ = signature(Settings)  # type: ignore[attr-defined]
