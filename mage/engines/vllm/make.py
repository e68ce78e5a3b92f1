"""Makes the policy server of `engine = "vllm"`: in this process, or with a server that runs already."""

from __future__ import annotations

from mage.engines.settings import EngineSettings
from mage.engines.vllm.backend import Backend
from mage.engines.vllm.http_server import HttpVllm
from mage.engines.vllm.in_process import InProcessVllm
from mage.engines.vllm.server import VllmPolicyServer, check_settings
from mage.models.load import LoadedModel


def vllm_server(loaded: LoadedModel, settings: EngineSettings) -> VllmPolicyServer:
    """A policy server for a loaded model."""
    check_settings(settings)
    backend: Backend = HttpVllm(loaded, settings) if settings.server else InProcessVllm(loaded, settings)
    return VllmPolicyServer(loaded, settings, backend)
