"""The advantage estimators by name, one file each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import cast

import msgspec

from mage.credit.estimators.agent_specific import AgentSpecific
from mage.credit.estimators.base import Advantages, Estimator
from mage.credit.estimators.cloning import Cloning
from mage.credit.estimators.gigpo import Gigpo
from mage.credit.estimators.grpo import Grpo
from mage.credit.estimators.ppo import Ppo
from mage.credit.estimators.reinforce import Reinforce
from mage.credit.estimators.rloo import Rloo
from mage.errors import ConfigError, pick
from mage.registry import Registry

__all__ = ["ALL", "ESTIMATORS", "Advantages", "Estimator", "make_estimator"]

ESTIMATORS: Mapping[str, type[Estimator]] = {
    "agent-specific": AgentSpecific,
    "cloning": Cloning,
    "gigpo": Gigpo,
    "grpo": Grpo,
    "ppo": Ppo,
    "reinforce": Reinforce,
    "rloo": Rloo,
}


def _estimator(given: object) -> type[Estimator]:
    if not (isinstance(given, type) and issubclass(given, msgspec.Struct) and hasattr(given, "estimate")):
        raise TypeError(f"an estimator is a frozen msgspec.Struct with a method estimate, not {given!r}")
    return cast(type[Estimator], given)


ALL: Registry[type[Estimator]] = Registry("estimator", ESTIMATORS, _estimator, lambda _: False)
"""All estimators, those of plugins included."""


def make_estimator(
    name: str, parameters: Mapping[str, object], table: Mapping[str, type[Estimator]] = ALL
) -> Estimator:
    """An estimator from its name and parameters; a ConfigError lists the parameters where they do not fit.

    `table` maps names to frozen msgspec structs with an `estimate` method.

    >>> make_estimator("gigpo", {"weight": 0.5}).weight
    0.5
    """
    kind = pick("estimator", table, name)
    try:
        return msgspec.convert(parameters, type=kind)
    except msgspec.ValidationError as error:
        fields = msgspec.structs.fields(cast(type[msgspec.Struct], kind))
        takes = ", ".join(f"{field.name}={_choices(field.default)}" for field in fields)
        raise ConfigError(f"estimator {name!r} with {dict(parameters)}: {error}; it takes {takes}") from None


def _choices(default: object) -> str:
    """A default as error messages show it: for an enum, all its values."""
    return "|".join(type(default)) if isinstance(default, StrEnum) else str(default)
