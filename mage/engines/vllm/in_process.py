"""vLLM in this process: steps of its engine run in the event loop, each with all requests that are waiting.

A step is begun when all other tasks are waiting, as in the local engine, so that the decisions of many trials share it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from mage.engines.settings import (
    VLLM_CPU_SLOTS,
    VLLM_CUDA_SLOTS,
    VLLM_INFERENCE_SHARE,
    VLLM_TRAINED_SHARE,
    EngineSettings,
)
from mage.engines.vllm.availability import check_vllm
from mage.engines.vllm.backend import LoadedAdapter
from mage.engines.vllm.cpu_options import CPU_BLOCK, CPU_BYTES, CPU_HEADS, cpu_step_tokens
from mage.engines.vllm.locks import starting_on
from mage.engines.vllm.model_files import kept_config, room_for
from mage.engines.vllm.process_state import contained, forget_earlier_engines, free_with, imported, let_go
from mage.engines.vllm.requests import VllmAnswer, VllmRequest
from mage.engines.vllm.shared_weights import EXTENSION, RELOAD
from mage.errors import ConfigError, EngineError, EngineGoneError, MageError, ShortageError, library_errors
from mage.models.load import LoadedModel
from mage.shortage import shortage_of

_QUIET_TICKS = 4
"""Turns of the event loop without a new request before a step: a trial's successor starts within three."""
_LEFT_FREE = 0.01
"""Share of a GPU's memory that is left for what vLLM does not count."""


class InProcessVllm:
    """vLLM's engine in this process. It starts with random weights, because the first publication brings others."""

    def __init__(self, loaded: LoadedModel, settings: EngineSettings) -> None:
        check_vllm(())
        weight = next(loaded.model.parameters())
        self._is_cpu = weight.device.type == "cpu"
        _check_heads(loaded, self._is_cpu)
        limit = getattr(loaded.model.config, "max_position_embeddings", None) or settings.length
        self._length = min(limit, settings.length)
        # vLLM keeps what it compiles by the path of the model, so that must be the same the next time.
        folder = str(kept_config(loaded))
        options = _options(settings, self._is_cpu, self._length)
        dtype = str(weight.dtype).removeprefix("torch.")
        with contained(), library_errors(lambda why: ConfigError(f"vLLM cannot serve {loaded.name}: {why}")):
            engine_args, engine = imported("EngineArgs", "LLMEngine")
            _check_build(weight.device)
            with _alone_on(weight.device):
                if not self._is_cpu:
                    forget_earlier_engines()
                    options["gpu_memory_utilization"] = _share_within(options["gpu_memory_utilization"], weight.device)
                arguments = engine_args(model=folder, max_model_len=self._length, dtype=dtype, **options)
                self._engine: Any = engine.from_engine_args(arguments)
                let_go()
                free_with(self, self._engine)
        self._adapters: dict[str, Any] = {}
        """vLLM's own requests for adapters, by name."""
        self._num_adapters = 0
        self._futures: dict[str, asyncio.Future[VllmAnswer]] = {}
        self._driver: asyncio.Task[None] | None = None
        self._num_added = 0

    @property
    def length(self) -> int:
        return self._length

    async def generate(self, request: VllmRequest) -> VllmAnswer:
        from vllm import SamplingParams

        loop = asyncio.get_running_loop()
        self._num_added += 1
        name = str(self._num_added)
        prompt = {"prompt_token_ids": list(request.prompt), "cache_salt": request.salt}
        with library_errors(lambda why: EngineError(f"vLLM refuses a request: {why}")):
            params = SamplingParams(**request.params)
            self._engine.add_request(name, prompt, params, lora_request=self._adapters.get(request.adapter))
        future: asyncio.Future[VllmAnswer] = loop.create_future()
        self._futures[name] = future
        if self._driver is None or self._driver.get_loop() is not loop:
            self._driver = loop.create_task(self._drive())
            self._driver.add_done_callback(self._on_driver_done)
        try:
            return await future
        finally:
            if self._futures.pop(name, None) is not None and future.cancelled():
                self._engine.abort_request([name])

    async def generate_on_each(self, request: VllmRequest) -> Mapping[str, VllmAnswer]:
        return {"vLLM": await self.generate(request)}

    async def load_model(self, weights: Mapping[str, Tensor]) -> None:
        named = ((name, tensor.detach()) for name, tensor in weights.items())
        with contained(), library_errors(lambda why: EngineError(f"vLLM cannot load the weights: {why}")):
            self._engine.collective_rpc(RELOAD, kwargs={"weights_iterator": named})

    async def load_adapter(self, adapter: LoadedAdapter) -> None:
        from vllm.lora.request import LoRARequest

        self._num_adapters += 1
        request = LoRARequest(adapter.name, self._num_adapters, str(adapter.folder))
        with contained(), library_errors(lambda why: EngineError(f"vLLM cannot load the adapter: {why}")):
            self._engine.add_lora(request)
        self._adapters[adapter.name] = request

    async def drop_adapter(self, adapter: LoadedAdapter) -> None:
        self._engine.remove_lora(self._adapters.pop(adapter.name).lora_int_id)

    async def _drive(self) -> None:
        """Step while there are requests, each time when all other tasks are waiting."""
        while self._futures:
            quiet = 0
            while quiet < _QUIET_TICKS:
                before = self._num_added
                await asyncio.sleep(0)
                quiet = quiet + 1 if self._num_added == before else 0
            self._step()
        self._driver = None

    def _step(self) -> None:
        # The sampler's compiled functions take a minute to compile on a CPU and save nothing there.
        with torch.compiler.set_stance("force_eager" if self._is_cpu else "default"):
            outputs = self._engine.step()
        for output in outputs:
            future = self._futures.get(output.request_id)
            if output.finished and future is not None and not future.done():
                future.set_result(_answer(output.outputs[0]))

    def _on_driver_done(self, driver: asyncio.Task[None]) -> None:
        """Fail or cancel all waiting requests if the driver failed or was cancelled."""
        error = None if driver.cancelled() else driver.exception()
        if not driver.cancelled() and error is None:
            return
        self._driver = None
        waiting, self._futures = self._futures, {}
        self._engine.abort_request(list(waiting))
        for future in waiting.values():
            if not future.done() and error is None:
                future.cancel()
            elif not future.done():
                future.set_exception(_failure(error))


def _options(settings: EngineSettings, is_cpu: bool, length: int) -> dict[str, Any]:
    """The arguments of vLLM's engine that follow from the settings."""
    options: dict[str, Any] = {
        "skip_tokenizer_init": True,
        "load_format": "dummy",
        "enable_prefix_caching": True,
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": -1,
        "worker_extension_cls": EXTENSION,
        "generation_config": "vllm",
        "disable_log_stats": True,
        "max_num_seqs": settings.slots or (VLLM_CPU_SLOTS if is_cpu else VLLM_CUDA_SLOTS),
    }
    if is_cpu:
        options |= {
            "enforce_eager": True,
            "block_size": CPU_BLOCK,
            "kv_cache_memory_bytes": CPU_BYTES,
            # Where a prompt is read in parts, vLLM turns its random generator back, which a CPU's cannot do.
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": cpu_step_tokens(length),
        }
    else:
        share = VLLM_TRAINED_SHARE if settings.is_trained else VLLM_INFERENCE_SHARE
        options["gpu_memory_utilization"] = share * settings.card_share
    if settings.adapter_rank:
        options |= {
            "enable_lora": True,
            "max_loras": settings.policies,
            "max_cpu_loras": settings.policies + 1,  # a new one is loaded before the old one leaves
            "max_lora_rank": room_for(settings.adapter_rank),
        }
    return options


def _check_heads(loaded: LoadedModel, is_cpu: bool) -> None:
    """Refuse sizes of attention heads that vLLM has no CPU kernel for."""
    config = loaded.model.config
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if is_cpu and size not in CPU_HEADS:
        raise ConfigError(
            f"vLLM has no attention on a CPU for heads of {size} numbers, which {loaded.name} has; nano(heads=2) has "
            f"heads of 32, and {', '.join(map(str, CPU_HEADS[1:]))} can be used too"
        )


def _check_build(device: torch.device) -> None:
    """Refuse a build of vLLM that would play on another kind of device than the learner's."""
    from vllm.platforms import current_platform

    if current_platform.is_cpu() != (device.type == "cpu"):
        built = "CPUs" if current_platform.is_cpu() else "GPUs"
        raise ConfigError(f"device = {device.type}: the vLLM that is installed is built for {built} and plays there")


@contextmanager
def _alone_on(device: torch.device) -> Iterator[None]:
    """Wait until no other process starts vLLM on a GPU."""
    if device.type == "cpu":
        yield
        return
    with starting_on(str(torch.cuda.get_device_properties(device).uuid)):
        yield


def _share_within(share: float, device: torch.device) -> float:
    """The share of a GPU's memory that vLLM may ask for: it refuses one that is not free when it starts."""
    gc.collect()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    if free / total <= _LEFT_FREE:
        raise ConfigError(f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB of the GPU are free")
    return min(share, free / total - _LEFT_FREE)


def _answer(output: Any) -> VllmAnswer:
    found = tuple({token: each.logprob for token, each in step.items()} for step in output.logprobs)
    return VllmAnswer(tuple(output.token_ids), found)


def _failure(error: BaseException | None) -> MageError:
    """What waiting calls are told about an error of the driver."""
    if (ran_out := shortage_of(error)) is not None:
        return ShortageError(ran_out)
    return EngineGoneError(f"vLLM failed: {error!r}")
