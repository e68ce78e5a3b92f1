"""The names that scripts and plugins have registered in this process, and how a test gets rid of them."""

from __future__ import annotations

import pytest

from mage import plugins
from mage.agents.methods.registry import ALL_METHODS
from mage.credit.estimators import ALL
from mage.engines.registry import ENGINES
from mage.learners.registry import LEARNERS
from mage.models.load import MODELS
from mage.opponents.registry import OPPONENTS, _all_policies
from mage.worlds.openspiel.game import WORDED
from mage.worlds.registry import WORLDS, load_world

_TABLES = (WORDED, WORLDS, OPPONENTS, ALL, MODELS, ALL_METHODS, ENGINES, LEARNERS)


def forget_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in another process: nothing is imported or registered, until `monkeypatch` is undone."""
    for table in _TABLES:
        monkeypatch.setattr(table, "_added", {})
    monkeypatch.setattr(plugins, "_known", {})
    load_world.cache_clear()
    _all_policies.cache_clear()
