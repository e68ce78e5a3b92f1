"""Recipes: TOML files that extend each other and are composed into the values of one config.

A recipe is named by a shipped name, by a path that ends in `.toml`, or by several of these with `+` between them, as in
`rps+grpo`. Files are applied in order: each after those that it extends, and later names after earlier ones. The order
is that of C3, Python's for base classes: a file that is reached twice is applied once.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

from mage.errors import ConfigError, did_you_mean, listing
from mage.plugins import resolved_entry


class RecipeKind(StrEnum):
    """The kinds of shipped recipes. Each value is a folder of `mage/recipes`."""

    WORLD = "worlds"
    MODEL = "models"
    METHOD = "methods"
    VARIANT = "variants"
    TUNED = "tuned"

    @property
    def is_whole(self) -> bool:
        """Whether recipes of this kind can be run alone."""
        return self in (RecipeKind.WORLD, RecipeKind.TUNED)


class Shipped(NamedTuple):
    """A shipped recipe as `mage list recipes` shows it."""

    name: str
    kind: RecipeKind
    description: str
    device: str
    """CPU or GPU; empty for partial recipes that do not set it."""
    minutes: str
    """Measured training time, as in "3 to 4"; empty where it was not measured."""


class _File(NamedTuple):
    parents: tuple[str, ...]
    description: object
    minutes: str
    values: dict[str, Any]


def shipped_recipes() -> list[Shipped]:
    """All shipped recipes, by kind and then by name."""
    return [_shipped(name, kind) for kind in RecipeKind for name, (its, _) in sorted(_places().items()) if its is kind]


def resolved(recipe: str) -> dict[str, Any]:
    """The values of a recipe on top of all that it extends or is composed of.

    >>> resolved("rps+grpo")["credit"]
    {'objective': 'single', 'estimator': 'grpo', 'options': {}}
    """
    names = parts_of(recipe)
    _check_kinds(names, recipe)
    files: dict[str, _File] = {}
    chains = [_order(name, files, ()) for name in reversed(names)]
    values: dict[str, Any] = {}
    for name in reversed(_merged_order([*chains, [*reversed(names)]], recipe)):
        plugins = _plugins(values, files[name].values)
        values = {**merged(values, files[name].values), **plugins}
    return {**values, "description": _description([files[name].description for name in names])}


def parts_of(recipe: str) -> tuple[str, ...]:
    """The names that a recipe is composed of; the path of an existing file is one name, whatever characters it has.

    >>> parts_of("rps+my/own.toml")
    ('rps', 'my/own.toml')
    """
    if recipe.endswith(".toml") and Path(recipe).is_file():
        return (recipe,)
    names = tuple(name.strip() for name in recipe.split("+"))
    if "" in names:
        raise ConfigError(f"cannot read the recipe {recipe!r}; write names with + between them, as in rps+grpo")
    _refuse_repeated(names, f"the recipe {recipe!r}")
    return names


def label_of(recipe: str) -> str:
    """A recipe's name without folders and endings: what runs, sweeps and comparisons call it.

    >>> label_of("rps+my/own.toml")
    'rps+own'
    """
    return "+".join(Path(name).stem for name in parts_of(recipe))


def merged(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged, everything else is replaced, and so are an estimator's options: they belong to it alone.

    >>> merged({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}})
    {'a': {'x': 1, 'y': 3}}
    """
    result = dict(base)
    for key, value in top.items():
        old = result.get(key)
        if isinstance(old, dict) and isinstance(value, dict) and key != "options":
            result[key] = merged(old, value)
        else:
            result[key] = value
    return result


def _shipped(name: str, kind: RecipeKind) -> Shipped:
    files: dict[str, _File] = {}
    devices = [files[one].values["device"] for one in _order(name, files, ()) if "device" in files[one].values]
    device = {"cpu": "CPU", "": ""}.get(devices[0] if devices else "cpu" if kind.is_whole else "", "GPU")
    return Shipped(name, kind, str(files[name].description), device, files[name].minutes)


def _check_kinds(names: Sequence[str], recipe: str) -> None:
    """Refuse compositions without a whole recipe, of two worlds or models, or where a whole one overrides others."""
    kinds = [(name, _places()[name][0]) for name in names if name in _places()]
    partial = [name for name, kind in kinds if not kind.is_whole]
    if partial and len(partial) == len(names):
        raise ConfigError(f"{recipe!r} is no whole recipe; put a world or a tuned recipe first, as in rps+{recipe}")
    for one in (RecipeKind.WORLD, RecipeKind.MODEL):
        same = [name for name, kind in kinds if kind is one]
        if len(same) > 1:
            raise ConfigError(f"the recipe {recipe!r} names two {one}, {same[0]!r} and {same[1]!r}; leave one out")
    late = [name for name, kind in kinds[1:] if kind.is_whole and partial and name in names[names.index(partial[0]) :]]
    if late:
        raise ConfigError(
            f"the recipe {recipe!r} has {late[0]!r} after {partial[0]!r}, and later ones win; put it first"
        )


def _order(name: str, files: dict[str, _File], above: tuple[str, ...]) -> list[str]:
    """A recipe and all that it extends, in reverse order of application. Files that are read are added to `files`."""
    if name in above:
        raise ConfigError(f"recipes extend each other in a circle: {' -> '.join((*above, name))}")
    if name not in files:
        files[name] = _read(name)
    parents = files[name].parents
    chains = [_order(parent, files, (*above, name)) for parent in reversed(parents)]
    return [name, *_merged_order([*chains, [*reversed(parents)]], name)]


def _merged_order(chains: Iterable[list[str]], source: str) -> list[str]:
    """One order with every name once that keeps the order of each chain (C3 linearisation)."""
    result: list[str] = []
    left = [chain for chain in chains if chain]
    while left:
        heads = dict.fromkeys(chain[0] for chain in left)
        free = [head for head in heads if not any(head in chain[1:] for chain in left)]
        if not free:
            raise ConfigError(
                f"{source}: no order of {listing(heads)} suits all; leave out what another one extends already"
            )
        result.append(free[0])
        left = [rest for chain in left if (rest := chain[1:] if chain[0] == free[0] else chain)]
    return result


def _read(name: str) -> _File:
    path = _path_of(name)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} is not valid TOML: {error}") from None
    parents = _parents(name, values.pop("extends", ()))
    description, minutes = values.pop("description", ""), values.pop("minutes", "")
    if not isinstance(minutes, str):
        raise ConfigError(f'{name}: minutes takes text, as in "3 to 4", not {minutes!r}')
    if isinstance(path, Path) and _is_list_of_texts(values.get("plugins")):
        values["plugins"] = [resolved_entry(entry, path.parent) for entry in values["plugins"]]
    return _File(parents, description, minutes, values)


def _plugins(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """The plugins of composed recipes are added up, because each recipe needs its own."""
    both = [values["plugins"] for values in (base, top) if "plugins" in values]
    if len(both) < 2 or not all(map(_is_list_of_texts, both)):
        return {}
    return {"plugins": list(dict.fromkeys(entry for entries in both for entry in entries))}


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _path_of(name: str) -> Traversable:
    if not name.endswith(".toml"):
        if name not in _places():
            names = f"known: {listing(_places())}; or a path.toml; + composes them, as in rps+grpo"
            raise ConfigError(f"unknown recipe {name!r}; {did_you_mean(name, _places())}{names}")
        return _places()[name][1]
    if not Path(name).is_file():
        raise ConfigError(f"unknown recipe {name!r}; give the path of a TOML file that exists")
    return Path(name)


def _parents(name: str, extends: object) -> tuple[str, ...]:
    given = [extends] if isinstance(extends, str) else extends
    if extends == ():
        return ()
    if not isinstance(given, list) or not given or not _is_list_of_texts(given):
        raise ConfigError(f"{name}: extends takes the name of a recipe or a list of names, not {extends!r}")
    names = tuple(part for one in given for part in parts_of(one))
    _refuse_repeated(names, f"{name}: extends")
    return names


def _refuse_repeated(names: Sequence[str], source: str) -> None:
    repeated = [name for number, name in enumerate(names) if name in names[:number]]
    if repeated:
        raise ConfigError(f"{source} names {repeated[0]!r} twice; once is enough")


def _description(found: Sequence[object]) -> object:
    """The descriptions, with a plus between them where there are several."""
    return found[0] if len(found) == 1 else " + ".join(str(one) for one in found if one)


@cache
def _places() -> dict[str, tuple[RecipeKind, Traversable]]:
    """The kind and the file of every shipped recipe by its name."""
    folder = resources.files("mage") / "recipes"
    files = [(kind, file) for kind in RecipeKind for file in (folder / kind).iterdir() if file.name.endswith(".toml")]
    return {file.name.removesuffix(".toml"): (kind, file) for kind, file in files}
