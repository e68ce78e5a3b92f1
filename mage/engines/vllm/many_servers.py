"""Several vLLM servers of one model on this machine, which share the requests and all get what is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from torch import Tensor

from mage.aio import all_done
from mage.engines.settings import EngineSettings
from mage.engines.vllm.backend import LoadedAdapter
from mage.engines.vllm.http_server import HttpVllm, load_weights
from mage.engines.vllm.requests import VllmAnswer, VllmRequest
from mage.engines.vllm.router import Router
from mage.models.load import LoadedModel


def open_servers(loaded: LoadedModel, settings: EngineSettings) -> list[HttpVllm]:
    """Check and lock all servers of the settings; where one is refused, the others are free again."""
    with ExitStack() as opened:
        servers: list[HttpVllm] = []
        for address in settings.servers:
            servers.append(HttpVllm(loaded, settings, address))
            opened.callback(servers[-1].close)
        opened.pop_all()
    return servers


class ManyServers:
    """Servers that all play with the same weights; a router says which of them answers a request."""

    def __init__(self, servers: Sequence[HttpVllm]) -> None:
        self._servers = servers
        self._router = Router(len(servers))

    @property
    def length(self) -> int:
        return min(server.length for server in self._servers)

    def close(self) -> None:
        """Let other processes use the servers."""
        for server in self._servers:
            server.close()

    async def generate(self, request: VllmRequest) -> VllmAnswer:
        number = self._router.begin(request.prompt, request.salt)
        try:
            answer = await self._servers[number].generate(request)
        finally:
            self._router.end(number)
        read = request.prompt + answer.tokens[:-1]  # the last token was sampled and not read
        self._router.remember(number, read, request.salt)
        return answer

    async def generate_on_each(self, request: VllmRequest) -> Mapping[str, VllmAnswer]:
        answers = await all_done(server.generate(request) for server in self._servers)
        return {server.name: answer for server, answer in zip(self._servers, answers, strict=True)}

    async def load_model(self, weights: Mapping[str, Tensor]) -> None:
        await load_weights(self._servers, weights)

    async def load_adapter(self, adapter: LoadedAdapter) -> None:
        await all_done(server.load_adapter(adapter) for server in self._servers)

    async def drop_adapter(self, adapter: LoadedAdapter) -> None:
        await all_done(server.drop_adapter(adapter) for server in self._servers)
