"""Learners by name.

`register_learner` and entry points of the group `mage.learners` add names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mage.errors import ConfigError, pick
from mage.learners.settings import LearnerSettings
from mage.plugin_errors import call_factory
from mage.protocols import Learner
from mage.registry import Registry, require_methods

LearnerFactory = Callable[..., Learner]
"""Called with (model, settings, with_values, imitates): a causal language model of transformers, `LearnerSettings`,
whether values are needed, and whether a teacher chose the tokens, which are then to be imitated."""
_METHODS = ("update", "evaluate_tokens", "values", "weights", "state", "restore", "save", "set_settings")


def _local(model: Any, settings: LearnerSettings, with_values: bool, imitates: bool) -> Learner:
    if settings.config.ranks > 1:
        from mage.learners.sharded.learner import ShardedLearner  # loads torch

        return ShardedLearner(model, settings, with_values=with_values, imitates=imitates)
    from mage.learners.local import LocalLearner

    return LocalLearner(model, settings, with_values=with_values, imitates=imitates)


def _factory(given: object) -> LearnerFactory:
    if not callable(given):
        raise TypeError(f"a learner is registered by a class or function that makes it, not by {given!r}")
    return given


LEARNERS: Registry[LearnerFactory] = Registry("learner", {"local": _local}, _factory, lambda _: False)


def make_learner(name: str, model: Any, settings: LearnerSettings, *, with_values: bool, imitates: bool) -> Learner:
    """The learner of a name, for a model that it may change in place."""
    factory, given = pick("learner", LEARNERS, name), (model, settings, with_values, imitates)
    if LEARNERS.is_ours(name):
        return factory(*given)
    wanted = "(model, settings, with_values, imitates)"
    made: Learner = call_factory(f"learner {name!r}", wanted, factory, *given)
    require_methods("learner", name, made, _METHODS, "mage.protocols.Learner")
    from mage.learners.checked import checked_learner  # loads torch

    learner = checked_learner(made)
    if with_values and not learner.has_values:
        raise ConfigError(f"learner.kind = {name}: it has no values, which the estimator needs")
    return learner
