"""Recipes as commands take them: where a world is named in place of one, the error says how to train in it."""

from __future__ import annotations

from collections.abc import Sequence

from mage.config.compose import shipped_recipes
from mage.config.load import load_config
from mage.config.schema import Config
from mage.errors import ConfigError
from mage.evaluation.splits import has_levels
from mage.worlds.registry import is_known_world

_OPPONENTS = "population.split= 'population.members=[\"uniform\"]' 'evaluation.splits=[\"population\"]'"


def is_world(text: str) -> bool:
    """Whether a text names a world and no recipe."""
    is_recipe = text.endswith(".toml") or "+" in text or text in {shipped.name for shipped in shipped_recipes()}
    return not is_recipe and is_known_world(text.partition("(")[0].partition(":")[0].strip())


def load_recipe(recipe: str, overrides: Sequence[str]) -> Config:
    """The config of a recipe and overrides."""
    if not is_world(recipe):
        return load_config(recipe, overrides)
    example = f"doors 'world={recipe}'" if has_levels(recipe) else f"rps 'world={recipe}' {_OPPONENTS}"
    raise ConfigError(
        f"{recipe!r} is a world, and a recipe is needed, which says how to train in it; mage list recipes has them, "
        f"and any can be told another world, as in: mage train {example}"
    )
