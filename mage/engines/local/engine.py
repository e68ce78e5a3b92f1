"""The in-process PyTorch engine: continuous batching, a prefix cache and exact log-probabilities.

It runs in the event loop, without threads and timers. A batch is formed when all other tasks are waiting, and each call
samples from its own seed, so the order of arrival changes no token.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from mage.engines.local.adapters import AdapterCapacity
from mage.engines.local.executor import Executor, bytes_per_token, make_executor
from mage.engines.local.graph_executor import GraphExecutor
from mage.engines.local.jobs import GenerateJob, Job, ScoreJob, check_request
from mage.engines.local.passes import Passes
from mage.engines.local.prefix_cache import PrefixCache
from mage.engines.local.scheduler import ScheduledJob, Scheduler
from mage.engines.settings import CPU_CACHE_BYTES, CUDA_CACHE_SHARE, slots_within
from mage.engines.trie import Trie, action_logprobs
from mage.errors import ConfigError, EngineError, MageError, ShortageError, listing
from mage.models.load import LoadedModel
from mage.protocols import Sampling
from mage.shortage import shortage_of
from mage.types import Completion
from mage.weights import LowRank

_QUIET_TICKS = 4
"""Turns of the event loop without a new call before a batch is formed: a trial's successor starts within three."""
_MAX_LENGTH = 4096
_MIN_LENGTH = 16
_BASE = -1
"""The adapter slot that means the model without an adapter."""

_trie = lru_cache(maxsize=4096)(Trie)


class LocalEngine:
    """Serves a copy of a loaded model; `publish` gives the copy new weights.

    `slots` is the number of KV cache slots: calls that run together, and streams kept for reuse. `length` is the most
    tokens of a prompt with its answer. Both are derived from the model and a memory budget by default. `executor` is
    auto, graph, hf or naive. Without `reuse` there is no prefix cache, for measuring its benefit. `adapters` allows
    LoRA adapters beside the model's own weights: `publish_adapter` sets one, and `adapter` is an engine that uses it.
    `reserve` is how many bytes of GPU memory to leave to others.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        slots: int | None = None,
        length: int | None = None,
        version: int = 0,
        executor: str = "auto",
        reuse: bool = True,
        adapters: AdapterCapacity | None = None,
        reserve: int = 0,
    ) -> None:
        config = loaded.model.config
        limit = getattr(config, "max_position_embeddings", None) or _MAX_LENGTH
        self.length = min(limit, _MAX_LENGTH if length is None else length)
        if self.length < _MIN_LENGTH:
            said = f"not {self.length}; the model's config.json has {limit}"
            raise ConfigError(f"the engine needs room for {_MIN_LENGTH} tokens at least, {said}")
        if slots is None:
            weight = next(loaded.model.parameters())
            per_slot = bytes_per_token(config, weight.element_size()) * (self.length + 1)
            slots = slots_within(_budget(weight.device, reserve), per_slot)
        if slots < 1:
            raise ConfigError(f"the engine needs one slot at least, not {slots}")
        self._executor: Executor = make_executor(loaded.model, slots, self.length, executor, adapters)
        self._loaded = replace(loaded, model=None)
        self._end = loaded.chat_format.end
        self._cache = PrefixCache(slots, self._executor.share_tokens)
        self._scheduler = Scheduler(
            self._cache,
            pass_tokens=self._executor.pass_tokens,
            pass_cost=self._executor.pass_cost,
            reuses=reuse and self._executor.reuses,
        )
        self._versions = {_BASE: version}
        self._adapter_slots: dict[str, int] = {}
        """Slots of the published adapters by name."""
        self.capacity = adapters
        """How many adapters can be published, and their largest rank; None for none."""
        self._driver: asyncio.Task[None] | None = None
        self._pending_publishes: list[tuple[Callable[[], None], asyncio.Future[None]]] = []
        self._counts: Counter[str] = Counter()
        self._passes = Passes(self._executor, self._scheduler, self._counts)

    @property
    def served(self) -> LoadedModel:
        """The copy of the model that is served, with the weights published last."""
        return replace(self._loaded, model=self._executor.model)

    @property
    def capture_s(self) -> float:
        """Seconds spent so far on capturing CUDA graphs."""
        return self._executor.capture_s if isinstance(self._executor, GraphExecutor) else 0.0

    @property
    def version(self) -> int:
        """The version of the weights."""
        return self._versions[_BASE]

    def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Coroutine[Any, Any, Completion]:
        return self._complete(_BASE, prompt, sampling, choices)

    async def _complete(
        self, adapter: int, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        options = None if choices is None else tuple([tuple(choice) for choice in choices])
        ids = tuple(prompt)
        check_request(ids, sampling, options, self.length)
        job = GenerateJob(ids, sampling, None if options is None else _trie(options), self._end)
        self._counts["calls"] += 1
        completion = job.result(self._versions[adapter]) if job.is_done else await self._enqueue(job, adapter)
        assert isinstance(completion, Completion)
        self._counts["forced"] += job.num_forced
        self._counts["sampled"] += len(completion.tokens) - job.num_forced
        return completion

    async def action_logprobs(
        self, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> tuple[float, ...]:
        """The exact log-probability of each choice: the sum along the trie."""
        return await self._action_logprobs(_BASE, prompt, choices, temperature)

    async def _action_logprobs(
        self, adapter: int, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float
    ) -> tuple[float, ...]:
        options = tuple(tuple(choice) for choice in choices)
        ids = tuple(prompt)
        check_request(ids, Sampling(temperature, self.length, 0), options, self.length)
        if temperature == 0:
            raise EngineError("at temperature 0 a choice is certain; ask for its log-probability at another one")
        decisions = list(_trie(options).decisions())
        asked = [self._enqueue(ScoreJob(ids + path, allowed, temperature), adapter) for path, allowed in decisions]
        answers = await asyncio.gather(*asked)
        decided = {path: answer for (path, _), answer in zip(decisions, answers, strict=True)}
        return action_logprobs(options, decided)

    async def publish(self, weights: Mapping[str, Tensor], version: int | None = None) -> None:
        """Copy new weights in place, after the calls in flight are answered; queued calls use the new weights.

        The version is the next number, or `version`, so that a resumed run continues counting.
        """
        await self._between_calls(partial(self._load, weights, version))

    async def publish_adapter(self, name: str, factors: Mapping[str, LowRank], version: int | None = None) -> None:
        """Set an adapter's matrices, keyed by module name; as `publish` otherwise."""
        if self.capacity is None:
            raise EngineError(f"the engine was made without room for adapters, so {name!r} cannot be published")
        await self._between_calls(partial(self._load_adapter, name, factors, version))

    def drop_adapter(self, name: str) -> None:
        """Remove an adapter that no call uses; its slot becomes free."""
        number = self.slot_of(name)
        if any(row.adapter == number for row in self._scheduler.rows):
            raise EngineError(f"adapter {name!r} is played with now; it cannot be dropped")
        del self._adapter_slots[name]
        self._cache.clear(number)

    def drop_adapters(self) -> None:
        """Remove all adapters; for an engine that is not in use."""
        self._adapter_slots.clear()
        self._cache.clear()

    def adapter(self, name: str) -> AdapterEngine:
        """This engine with the adapter `name`, which must be published before the first call."""
        return AdapterEngine(self, name)

    def slot_of(self, name: str) -> int:
        """The slot of a published adapter."""
        if name not in self._adapter_slots:
            raise EngineError(f"no adapter {name!r} was published; there are: {listing(self._adapter_slots) or 'none'}")
        return self._adapter_slots[name]

    async def _between_calls(self, load: Callable[[], None]) -> None:
        """Change weights while no call is in flight."""
        if self._scheduler.rows or self._pending_publishes:
            published = asyncio.get_running_loop().create_future()
            self._pending_publishes.append((load, published))
            await published
        else:
            load()

    def reset_cache(self) -> None:
        """Clear the prefix cache, so that later results do not depend on earlier calls."""
        self._cache.clear()

    def counters(self) -> dict[str, int]:
        """Since the last reset: calls, hits (calls that found a prefix), tokens computed (read), reused from the cache,
        sampled and forced, and forward passes."""
        names = ("calls", "hits", "read", "reused", "sampled", "forced", "passes")
        return {name: self._counts[name] for name in names}

    def reset_counters(self) -> None:
        """Count from zero."""
        self._counts.clear()

    def _enqueue(self, job: Job, adapter: int) -> asyncio.Future[Any]:
        """Queue a job; the future has its result once the driver has run it."""
        loop = asyncio.get_running_loop()
        row = ScheduledJob(job, loop.create_future(), adapter)
        if self._driver is None or self._driver.get_loop() is not loop:
            self._passes.drop()
            self._scheduler.drain()  # calls of a stopped event loop are never awaited
            self._driver = loop.create_task(self._drive())
            self._driver.add_done_callback(self._on_driver_done)
        self._scheduler.add(row)
        return row.future

    async def _drive(self) -> None:
        """Run passes while there are calls, each when all other tasks are waiting."""
        while self._scheduler.has_work or self._pending_publishes:
            quiet = 0
            while quiet < _QUIET_TICKS:
                before = self._scheduler.num_added
                await asyncio.sleep(0)
                quiet = quiet + 1 if self._scheduler.num_added == before else 0
            self._step()
        self._driver = None

    def _on_driver_done(self, driver: asyncio.Task[None]) -> None:
        """Fail all waiting calls if the driver was cancelled or failed."""
        error = None if driver.cancelled() else driver.exception()
        if not driver.cancelled() and error is None:
            return
        self._driver = None
        self._passes.drop()
        waiting = [row.future for row in self._scheduler.drain()] + [future for _, future in self._pending_publishes]
        self._pending_publishes = []
        self._executor.wipe()
        self._cache.clear()
        for future in waiting:
            if not future.done() and error is None:
                future.cancel()
            elif not future.done():
                future.set_exception(_failure(error))

    def _step(self) -> None:
        self._scheduler.finish()
        if not self._scheduler.rows:
            self._apply_publishes()
        if not self._pending_publishes:
            self._admit()
        self._passes.begin()
        self._passes.collect()
        for row in self._scheduler.finish():
            if not row.future.done():
                row.future.set_result(row.job.result(self._versions[row.adapter]))

    def _admit(self) -> None:
        admitted, copies = self._scheduler.admit()
        for source, length, targets in copies:
            self._executor.copy(source, targets, length)
        for row in admitted:
            row.filled = row.filled if self._executor.reuses else 0
            self._counts["hits"] += row.filled > 0
            self._counts["reused"] += row.filled

    def _apply_publishes(self) -> None:
        waiting, self._pending_publishes = self._pending_publishes, []
        for load, published in waiting:
            if published.done():  # its caller was cancelled
                continue
            try:
                load()
                published.set_result(None)
            except EngineError as error:
                published.set_exception(error)

    def _load(self, weights: Mapping[str, Tensor], version: int | None) -> None:
        self._executor.load(weights)
        self._versions[_BASE] = self.version + 1 if version is None else version
        self._cache.clear()

    def _load_adapter(self, name: str, factors: Mapping[str, LowRank], version: int | None) -> None:
        assert isinstance(self._executor, GraphExecutor)
        assert self.capacity is not None
        free = [number for number in range(self.capacity.places) if number not in self._adapter_slots.values()]
        if name not in self._adapter_slots and not free:
            raise EngineError(
                f"the engine has room for {self.capacity.places} adapters, and {name!r} would be one more"
            )
        number = self._adapter_slots[name] if name in self._adapter_slots else free[0]
        self._executor.load_adapter(number, factors)
        self._adapter_slots[name] = number
        self._versions[number] = self._versions.get(number, -1) + 1 if version is None else version
        self._cache.clear(number)


class AdapterEngine:
    """A local engine with one of its adapters."""

    def __init__(self, engine: LocalEngine, name: str) -> None:
        self._engine = engine
        self._name = name

    @property
    def version(self) -> int:
        """The version of the adapter."""
        return self._engine._versions[self._engine.slot_of(self._name)]

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        return await self._engine._complete(self._engine.slot_of(self._name), prompt, sampling, choices)

    async def action_logprobs(
        self, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> tuple[float, ...]:
        """The exact log-probability of each choice: the sum along the trie."""
        return await self._engine._action_logprobs(self._engine.slot_of(self._name), prompt, choices, temperature)


def _budget(device: torch.device, reserve: int) -> int:
    """Bytes for keys and values."""
    if device.type == "cuda":
        return int(CUDA_CACHE_SHARE * max(0, torch.cuda.mem_get_info(device)[0] - reserve))
    return CPU_CACHE_BYTES


def _failure(error: BaseException | None) -> MageError:
    """What waiting calls are told about an error of the driver."""
    if (ran_out := shortage_of(error)) is not None:
        return ShortageError(ran_out)
    return EngineError(str(error) if isinstance(error, EngineError) else f"the model failed: {error!r}")
