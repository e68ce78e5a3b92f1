"""Load a config from a recipe and overrides, validate it, change values, and write it as TOML.

Overrides are dotted keys: `learner.lr=1e-5`. Unknown keys are errors. `compose.py` reads the recipes.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from mage.arguments import SETTINGS, as_list, as_settings, as_texts, check_kind
from mage.config.compose import resolved
from mage.config.schema import Config
from mage.errors import ConfigError, listing
from mage.plugins import import_plugins

_GONE = {"credit.thought_weight": 1.0}
"""Keys that earlier versions had and runs have on record, with the value that changed nothing."""


def load_config(recipe: str, overrides: Sequence[str] | Mapping[str, object] | None = None) -> Config:
    """The config of a recipe, or of several with `+` between their names, with dotted overrides applied.

    Overrides are texts as on the command line, or values by key. The config's plugins are imported.

    >>> load_config("demo", ["trial.episodes=5"]).trial.episodes
    5
    """
    check_kind("recipe", recipe, str, "a text: a shipped name, the path of a TOML file, or several with +")
    values = resolved(recipe)
    for key, value in _pairs(overrides):
        _set_key(values, key, value)
    config = validated(values, recipe)
    import_plugins(config.plugins)
    return config


def _pairs(overrides: Sequence[str] | Mapping[str, object] | None) -> Iterable[tuple[str, object]]:
    if overrides is None or isinstance(overrides, Mapping):
        return as_settings("overrides", overrides).items()
    texts = as_list("overrides", overrides, f"{SETTINGS}, or a list of texts such as 'learner.lr=1e-3'")
    return map(parse_override, as_texts("overrides", texts))


def replaced(config: Config, values: Mapping[str, object], source: str) -> Config:
    """The config with some values replaced, each named by its dotted key.

    >>> replaced(Config(), {"learner.lr": 0.5, "steps": 3}, "here").learner.lr
    0.5
    """
    plain = config.model_dump(mode="json")
    for key, value in values.items():
        _set_key(plain, key, value)
    return validated(plain, source)


def value_of(config: Config, key: str) -> Any:
    """The value of a dotted key.

    >>> value_of(Config(), "batch.size")
    8
    """
    value: Any = config
    for part in key.split("."):
        if part not in getattr(type(value), "model_fields", {}):
            raise ConfigError(f"there is no setting {key!r}")
        value = getattr(value, part)
    return value


def parse_override(override: str) -> tuple[str, object]:
    """The dotted key and the value of an override.

    >>> parse_override("trial.episodes=5"), parse_override("agent.memory=none")
    (('trial.episodes', 5), ('agent.memory', 'none'))
    """
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"cannot read the override {override!r}; write key=value, as in trial.episodes=5")
    return key.strip(), _literal(text.strip())


def recorded(values: Mapping[str, Any], source: str) -> Config:
    """The config of a run or plan. Keys that are gone are left out where their value changed nothing."""
    kept = {section: _without_gone(section, own) for section, own in values.items()}
    return validated(kept, source)


def _without_gone(section: str, own: Any) -> Any:
    if not isinstance(own, Mapping):
        return own
    return {key: value for key, value in own.items() if _GONE.get(f"{section}.{key}") != value}


def validated(values: Mapping[str, Any], source: str) -> Config:
    """A config from plain values, or a one-line error that names the key."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{source}: {_first_problem(error)}") from None


def to_toml(config: Config) -> str:
    """The config as TOML that reads back equal: what `--dry-run` prints."""
    values = config.model_dump(mode="json", exclude_none=True)
    plain = {k: v for k, v in values.items() if not isinstance(v, dict)}
    tables = {k: v for k, v in values.items() if isinstance(v, dict)}
    lines = [f"{k} = {_toml(v)}" for k, v in plain.items()]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{k} = {_toml(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def _set_key(values: dict[str, Any], key: str, value: object) -> None:
    *tables, last = key.split(".")
    for table in tables:
        inner = values.setdefault(table, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{key!r}: {table!r} is a value, not a section")
        values[table] = inner = dict(inner)
        values = inner
    values[last] = value


def _literal(text: str) -> object:
    """A TOML value, or the text itself where the quotes were left out; in a list each entry may be either."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        is_list = text.startswith("[") and text.endswith("]")
        return [_literal(entry) for entry in _entries(text[1:-1])] if is_list else text


def _entries(text: str) -> list[str]:
    """The entries of a list: texts between commas that stand in no brackets and no quotes.

    >>> _entries('copy, mixture(copy, uniform), "a,b"')
    ['copy', 'mixture(copy, uniform)', '"a,b"']
    """
    pieces, depth, quoted = [""], 0, ""
    for letter in text:
        if quoted or letter in "\"'":
            quoted = "" if letter == quoted else quoted or letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0 and not quoted:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces if piece.strip()]


def _first_problem(error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    problem = problems[0]
    path = [str(part) for part in problem["loc"]]
    where = ".".join(path)
    if problem["type"] == "extra_forbidden":
        return f"unknown key {where!r}; {_meant(path)}known: {listing(_keys(path[:-1]))}"
    if problem["type"] == "literal_error" and len(path) == 3:  # one of several kinds of values: it may be none of them
        where = ".".join(path[:2])
        problems = [other for other in problems if other["loc"][:2] == problem["loc"][:2]]
    else:
        problems = [problem]
    said = " or ".join(dict.fromkeys(f"{other['msg'][0].lower()}{other['msg'][1:]}" for other in problems))
    said = said.replace("a valid tuple", "a list, as in [A, B]")
    return f"{where} = {problem['input']!r}: {said}"


def _meant(path: Sequence[str]) -> str:
    """The key that was probably meant: one that ends alike in another section, else one that is spelled alike."""
    sections = {name: field.annotation for name, field in Config.model_fields.items()}
    inner = {name: getattr(kind, "model_fields", ()) for name, kind in sections.items()}
    keys = [name for name in sections if not inner[name]] + [f"{name}.{key}" for name in inner for key in inner[name]]
    alike = [key for key in keys if key.rpartition(".")[2] == path[-1]]
    own = [key for key in keys if key.rpartition(".")[0] == path[0]] if len(path) > 1 else keys
    names = {key.rpartition(".")[2]: key for key in reversed(own)}
    alike = alike or [names[name] for name in get_close_matches(path[-1], names, n=1)]
    return f"did you mean {' or '.join(alike)}? " if alike else ""


def _keys(path: Sequence[str]) -> list[str]:
    model: Any = Config
    for part in path:
        model = model.model_fields[part].annotation
    return list(model.model_fields)
