"""Engines by name: factories of policy servers.

`register_engine` and entry points of the group `mage.engines` add names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mage.engines.settings import EngineSettings
from mage.errors import ConfigError, pick
from mage.models.load import LoadedModel
from mage.plugin_errors import call_factory
from mage.protocols import PolicyServer, ServerLimits
from mage.registry import Registry, require_methods

EngineFactory = Callable[[LoadedModel, EngineSettings], PolicyServer]
_METHODS = ("publish", "policy", "drop", "reset_cache", "clear", "metrics")


def _local(loaded: LoadedModel, settings: EngineSettings) -> PolicyServer:
    from mage.engines.local.server import LocalPolicyServer  # loads torch

    return LocalPolicyServer(loaded, settings)


def _vllm(loaded: LoadedModel, settings: EngineSettings) -> PolicyServer:
    from mage.engines.vllm.make import vllm_server  # loads torch

    return vllm_server(loaded, settings)


def _factory(given: object) -> EngineFactory:
    if not callable(given):
        raise TypeError(f"an engine is registered by a function that makes its policy server, not by {given!r}")
    return given


ENGINES: Registry[EngineFactory] = Registry("engine", {"local": _local, "vllm": _vllm}, _factory, lambda _: False)


def make_server(name: str, loaded: LoadedModel, settings: EngineSettings) -> PolicyServer:
    """The policy server of an engine's name, for a loaded model."""
    factory = pick("engine", ENGINES, name)
    if ENGINES.is_ours(name):
        return factory(loaded, settings)
    server: Any = call_factory(f"engine {name!r}", "(loaded, settings)", factory, loaded, settings)
    require_methods("engine", name, server, _METHODS, "mage.protocols.PolicyServer")
    if not isinstance(getattr(server, "limits", None), ServerLimits):
        raise ConfigError(f"the engine {name!r} lacks limits, a mage.protocols.ServerLimits")
    made: PolicyServer = server
    return made
