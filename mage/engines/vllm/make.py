"""Makes the policy server of `engine = "vllm"`: in this process, or with servers that run already."""

from __future__ import annotations

from mage.engines.settings import EngineSettings
from mage.engines.vllm.availability import check_named_once
from mage.engines.vllm.backend import Backend
from mage.engines.vllm.in_process import InProcessVllm
from mage.engines.vllm.many_servers import ManyServers, open_servers
from mage.engines.vllm.server import VllmPolicyServer, check_settings
from mage.models.load import LoadedModel


def vllm_server(loaded: LoadedModel, settings: EngineSettings) -> VllmPolicyServer:
    """A policy server for a loaded model."""
    check_settings(settings)
    return VllmPolicyServer(loaded, settings, _backend(loaded, settings))


def _backend(loaded: LoadedModel, settings: EngineSettings) -> Backend:
    if not settings.servers:
        return InProcessVllm(loaded, settings)
    check_named_once(settings.servers)
    servers = open_servers(loaded, settings)
    return servers[0] if len(servers) == 1 else ManyServers(servers)
