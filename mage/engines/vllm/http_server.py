"""vLLM as a server on this machine, asked over HTTP: tokens in, tokens out, weights on a GPU in place or as files.

Weights are loaded through the server's development mode, which asks for no password: the address must be loopback.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from torch import Tensor

from mage.aio import all_done
from mage.engines.settings import SERVER_CONCURRENCY, EngineSettings
from mage.engines.shared_client import SharedClient
from mage.engines.vllm.availability import LOADS_BELOW_ADAPTERS, check_server, server_address
from mage.engines.vllm.backend import LoadedAdapter
from mage.engines.vllm.locks import lock_server
from mage.engines.vllm.model_files import write_weights
from mage.engines.vllm.requests import VllmAnswer, VllmRequest
from mage.engines.vllm.shared_loader import SharedLoader, share_weights
from mage.engines.vllm.shared_weights import EXTENSION, RELOAD
from mage.errors import ConfigError, EngineError, EngineGoneError, library_errors
from mage.models.load import LoadedModel

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S = 600.0
_IDLE_S = 2.0
"""Seconds for which an idle connection is kept: the server closes it after five, maybe while a request is sent."""
_SHOWN = 200
_SIZES = ("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
          "num_key_value_heads")  # fmt: skip
"""Keys of a model's config that must be those of the server's model."""
_FLAGS = "docs/scaling.md has the command that starts it"


class Connection:
    """Requests to one server."""

    def __init__(self, server: str) -> None:
        """`server` is its address."""
        self.name = f"the vLLM server at {server}"
        self.address = server_address(server)
        self._client = SharedClient(_open_client, SERVER_CONCURRENCY)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """What the server answers; None where it says nothing in JSON."""
        import httpx

        async with self._client.connected() as client:
            try:
                answer = await client.post(self.address + path, json=body)
            except httpx.TimeoutException:
                raise EngineError(f"{self.name} has not answered {path} in {_TIMEOUT_S:g} seconds") from None
            except httpx.HTTPError as error:
                raise EngineGoneError(f"{self.name} is gone: {type(error).__name__} {error}".rstrip()) from None
        if answer.status_code != 200:
            said = " ".join(answer.text.split())[:_SHOWN]
            raise EngineError(f"{self.name} answers {answer.status_code} to {path}: {said}")
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.json() if is_json and answer.content else None


class HttpVllm:
    """A vLLM server, which another process has started for the same model."""

    def __init__(self, loaded: LoadedModel, settings: EngineSettings, server: str) -> None:
        """`server` is its address."""
        version = check_server(server)
        self._server = server
        connection = Connection(server)
        self.name, self._address, self._post = connection.name, connection.address, connection.post
        config = self._config()
        limit = getattr(loaded.model.config, "max_position_embeddings", None) or settings.length
        self._length = min(limit, settings.length)
        extension = str(_found(config, "parallel_config", "worker_extension_cls"))
        self._reload = RELOAD if extension == EXTENSION else "reload_weights"
        self._check(config, loaded, settings)
        if settings.adapter_rank and self._reload != RELOAD and version < LOADS_BELOW_ADAPTERS:
            raise self._refused(
                f"vLLM {version[0]}.{version[1]} cannot load the weights below adapters without "
                f"--worker-extension-cls {EXTENSION}; {_FLAGS}"
            )
        self._model = str(_found(config, "model_config", "served_model_name"))
        self.loader = SharedLoader(self.name, self._post, extension)
        self._lock = lock_server(server)
        weakref.finalize(self, self._lock.close)

    @property
    def length(self) -> int:
        return self._length

    def close(self) -> None:
        """Let another process use the server."""
        self._lock.close()

    async def generate(self, request: VllmRequest) -> VllmAnswer:
        body = {
            "model": request.adapter or self._model,
            "token_ids": list(request.prompt),
            "sampling_params": dict(request.params),
            "cache_salt": request.salt,
        }
        found = await self._post("/inference/v1/generate", body)
        try:
            (choice,) = found["choices"]
            logprobs = tuple(_logprobs(position) for position in choice["logprobs"]["content"])
            return VllmAnswer(tuple(choice["token_ids"]), logprobs)
        except (LookupError, TypeError, ValueError) as error:
            raise EngineError(f"{self.name} answers with what is no completion: {error!r}") from None

    async def generate_on_each(self, request: VllmRequest) -> Mapping[str, VllmAnswer]:
        return {self.name: await self.generate(request)}

    async def load_model(self, weights: Mapping[str, Tensor]) -> None:
        await load_weights([self], weights)

    async def load_files(self, folder: Path) -> None:
        """Replace all weights of the model by those in a folder."""
        await self._post("/collective_rpc", {"method": self._reload, "kwargs": {"weights_path": str(folder)}})

    async def load_adapter(self, adapter: LoadedAdapter) -> None:
        await self._post("/v1/load_lora_adapter", {"lora_name": adapter.name, "lora_path": str(adapter.folder)})

    async def drop_adapter(self, adapter: LoadedAdapter) -> None:
        await self._post("/v1/unload_lora_adapter", {"lora_name": adapter.name})

    def _config(self) -> Mapping[str, Any]:
        """The server's own configuration, which it tells in development mode."""
        import httpx

        try:
            answer = httpx.get(
                f"{self._address}/server_info", params={"config_format": "json"}, timeout=_TIMEOUT_S, trust_env=False
            )
        except httpx.HTTPError as error:
            raise self._refused(f"it does not answer /server_info ({type(error).__name__})") from None
        if answer.status_code == 404:
            raise self._refused(f"it was started without VLLM_SERVER_DEV_MODE=1; {_FLAGS}")
        if answer.status_code != 200:
            raise self._refused(f"it answers {answer.status_code} to /server_info")
        found: Mapping[str, Any] = answer.json()["vllm_config"]
        return found

    def _check(self, config: Mapping[str, Any], loaded: LoadedModel, settings: EngineSettings) -> None:
        """Refuse a server that was started for another model, or without what is needed."""
        length = int(_found(config, "model_config", "max_model_len"))
        if length < self._length:
            raise ConfigError(
                f"agent.context = {self._length}: the vLLM server at {self._server} was started for {length} tokens; "
                f"start it with --context {self._length} (vLLM's --max-model-len), or lower agent.context"
            )
        needed = {"logprobs_mode": "processed_logprobs", "max_logprobs": -1}
        for name, value in needed.items():
            if (given := _found(config, "model_config", name)) != value:
                flag = f"--{name.replace('_', '-')} {value}"
                raise self._refused(f"it was started with {name} = {given}, not with {flag}; {_FLAGS}")
        dtype = str(loaded.model.dtype)
        if (given := _found(config, "model_config", "dtype")) != dtype:
            raise self._refused(
                f"it computes in {given}, and the model in {dtype}; set dtype, or start it with --dtype"
            )
        self._check_adapters(config.get("lora_config"), settings)
        self._check_model(str(_found(config, "model_config", "model")), loaded)

    def _check_model(self, name: str, loaded: LoadedModel) -> None:
        """Refuse a server of another model; one without a head of its own cannot serve a model that has one."""
        from transformers import AutoConfig

        with library_errors(lambda why: self._refused(f"its model {name} cannot be read here: {why}")):
            theirs = AutoConfig.from_pretrained(name, trust_remote_code=False)
        ours = loaded.model.config
        for key in _SIZES:
            if getattr(theirs, key, None) != (own := getattr(ours, key, None)):
                raise self._refused(
                    f"its model {name} has {key} = {getattr(theirs, key, None)}, and {loaded.name} {own}"
                )
        if theirs.tie_word_embeddings and not ours.tie_word_embeddings:
            raise self._refused(f"its model {name} has a tied head, and {loaded.name} a head of its own")

    def _check_adapters(self, lora: Any, settings: EngineSettings) -> None:
        if not settings.adapter_rank:
            return
        places, rank = (0, 0) if lora is None else (int(lora["max_loras"]), int(lora["max_lora_rank"]))
        if places < settings.policies or rank < settings.adapter_rank:
            raise self._refused(
                f"it has room for {places} adapters of rank {rank}, and {settings.policies} of rank "
                f"{settings.adapter_rank} are needed; {_FLAGS}"
            )

    def _refused(self, why: str) -> ConfigError:
        return ConfigError(f"agent.server = {self._server}: {why}")


async def load_weights(servers: Sequence[HttpVllm], weights: Mapping[str, Tensor]) -> None:
    """Replace all weights of servers: on the GPU they are on, and for servers that cannot read it by files.

    The files are written once, and all of these servers read them at the same time.
    """
    is_shared = await share_weights([server.loader for server in servers], weights)
    others = [server for server, is_done in zip(servers, is_shared, strict=True) if not is_done]
    if not others:
        return
    with TemporaryDirectory(prefix="mage-vllm-weights-") as folder:
        write_weights(Path(folder), weights)
        await all_done(server.load_files(Path(folder)) for server in others)


def _open_client() -> httpx.AsyncClient:
    import httpx

    most = SERVER_CONCURRENCY
    limits = httpx.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=_IDLE_S)
    return httpx.AsyncClient(timeout=_TIMEOUT_S, limits=limits, trust_env=False)


def _found(config: Mapping[str, Any], section: str, name: str) -> Any:
    """A value of a server's configuration."""
    return (config.get(section) or {}).get(name)


def _logprobs(position: Mapping[str, Any]) -> dict[int, float]:
    """The log-probabilities at one position, by id."""
    return dict(_id_and_logprob(each) for each in (position, *position.get("top_logprobs", ())))


def _id_and_logprob(entry: Mapping[str, Any]) -> tuple[int, float]:
    """An id with its log-probability. Older versions name ids as `token_id:5`; -9999 stands for minus infinity.

    >>> _id_and_logprob({"token": "token_id:5", "logprob": -0.5}), _id_and_logprob({"token_id": 7, "logprob": -9999.0})
    ((5, -0.5), (7, -inf))
    """
    token = entry["token_id"] if "token_id" in entry else entry["token"].removeprefix("token_id:")
    logprob = float(entry["logprob"])
    return int(token), -math.inf if logprob <= -9999.0 else logprob
