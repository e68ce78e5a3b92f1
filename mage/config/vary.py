"""One setting of a config at several values: an ordinary key, or a parameter of the world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mage.arguments import as_list, as_settings
from mage.config.load import parse_override, replaced
from mage.config.schedule import Point
from mage.config.schema import Config
from mage.errors import ConfigError
from mage.spec import parse_spec, with_parameters

Scalar = bool | int | float | str
_WORLD = "world."


class VariedSetting(msgspec.Struct, frozen=True):
    """A key, and the values that it takes in turn; `world.NAME` is a parameter of the world."""

    key: str
    values: tuple[Scalar, ...]


def vary_setting(key: str, values: Sequence[object]) -> VariedSetting:
    """A checked setting; where one of its numbers has decimals, all have.

    >>> vary_setting("world.look", [0.1, -1])
    VariedSetting(key='world.look', values=(0.1, -1.0))
    """
    if key == "seed":
        raise ConfigError("seed is not varied: every value is trained with the seeds that --seeds counts")
    for value in values:
        if not isinstance(value, Scalar):
            raise ConfigError(f"{key} = {value!r}: values that vary are numbers, texts, true or false")
    given = [value for value in values if isinstance(value, Scalar)]
    if all(map(is_number, given)) and any(isinstance(value, float) for value in given):
        given = [float(value) for value in given]
    if not given or len({value_text(value) for value in given}) < len(given):
        raise ConfigError(f"{key} needs values that differ, not {', '.join(map(value_text, given)) or 'none'}")
    return VariedSetting(key, tuple(given))


def one_setting(values: Mapping[str, Sequence[object]]) -> VariedSetting:
    """The setting of a mapping from one key to its values."""
    as_settings("vary", values, "a mapping from one key to its values, as in {'world.look': [0.1, -0.4]}")
    if len(values) != 1:
        raise ConfigError(f"vary has one key with its values, not {len(values)}")
    ((key, given),) = values.items()
    return vary_setting(key, as_list(key, given, "a list of values"))


def parse_vary(text: str) -> VariedSetting:
    """Read `KEY=VALUE,VALUE,…`.

    >>> parse_vary("learner.lr=1e-3,2e-3")
    VariedSetting(key='learner.lr', values=(0.001, 0.002))
    """
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise ConfigError(f"cannot read --vary {text!r}; write KEY=VALUE,VALUE,…, as in world.look=0.1,-0.4")
    return vary_setting(key.strip(), [parse_override(f"{key}={value}")[1] for value in values.split(",")])


def is_number(value: object) -> bool:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def value_text(value: Scalar) -> str:
    """A value as an override writes it.

    >>> [value_text(value) for value in (True, -1.0, "grpo")]
    ['true', '-1.0', 'grpo']
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_value(config: Config, key: str, value: Scalar, source: str) -> Config:
    """The config with another value of a key, or of a parameter of its world.

    Where the parameter has a schedule, the points at its end that have the world's value get the new one too.

    >>> config = Config(world="rps(rounds=3)", schedule={"rounds": ((0.5, 1), (0.5, 3))})
    >>> varied = with_value(config, "world.rounds", 5, "here")
    >>> varied.world, varied.schedule["rounds"]
    ('rps(rounds=5)', ((0.5, 1), (0.5, 5)))
    """
    if not key.startswith(_WORLD):
        return replaced(config, {key: value}, source)
    name = key.removeprefix(_WORLD)
    values: dict[str, object] = {"world": with_parameters(config.world, {name: value})}
    if name in config.schedule:
        own = parse_spec(config.world).named.get(name)
        values[f"schedule.{name}"] = _with_last(config.schedule[name], own, value, f"{source}: {key}")
    return replaced(config, values, source)


def _with_last(points: Sequence[Point], own: object, value: Scalar, source: str) -> list[tuple[float, object]]:
    """The points with another value at the end of those that have `own` there."""
    num_kept = len(points)
    while num_kept and points[num_kept - 1][1] == own:
        num_kept -= 1
    if num_kept == len(points):
        at = "has no value of it" if own is None else f"has {own}"
        raise ConfigError(
            f"{source} cannot vary: its schedule ends at {points[-1][1]}, and world {at}; give both the same"
        )
    return [*points[:num_kept], *((share, value) for share, _ in points[num_kept:])]
