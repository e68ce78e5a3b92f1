"""The engine in this process: PyTorch, batches of whatever is pending, a prefix cache, exact log-probabilities.

It lives in the event loop: no threads and no timers. A batch is formed when no other task has anything to say,
and each call draws from a stream of its own, so the order of arrival changes no token.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from mage.engines.local.adapters import AdapterCapacity, LowRank
from mage.engines.local.executor import Executor, bytes_per_token, make_executor
from mage.engines.local.graph_executor import GraphExecutor
from mage.engines.local.jobs import GenerateJob, Job, ScoreJob, check_request
from mage.engines.local.passes import Passes
from mage.engines.local.prefix_cache import PrefixCache
from mage.engines.local.scheduler import ScheduledJob, Scheduler
from mage.engines.trie import Trie, action_logprobs
from mage.errors import ConfigError, EngineError, listing
from mage.models.load import LoadedModel
from mage.protocols import Sampling
from mage.types import Completion

_QUIET_PASSES = 4
"""The event loop must go round this often without a new call: a trial that ends starts its successor in three."""
_CPU_BYTES = 2**30
_CUDA_SHARE = 0.4
"""Of the memory that is free when the engine is made; the learner needs the rest."""
_MAX_SLOTS = 1024
_MAX_LENGTH = 4096
_MIN_LENGTH = 16
_BASE = -1
"""The number of the model without an adapter."""

_trie = lru_cache(maxsize=4096)(Trie)


class LocalEngine:
    """Serves a copy of a loaded model; `publish` gives the copy new weights.

    `slots` is how many calls may run together and how many streams stay warm; `length` is the most tokens a
    prompt and its answer may have together. Both are derived from the model and a memory budget by default.
    `executor` is how the model is run: auto, flat, ragged or plain. Without `reuse` every call reads its whole
    prompt; that is for measuring what the prefix cache is worth. `adapters` makes room for LoRA adapters beside
    the model's own weights: `publish_adapter` fills it, and `adapter` plays with one of them.
    `reserve` is how many bytes of a GPU's memory others will need.
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
            raise ConfigError(f"the engine needs room for {_MIN_LENGTH} tokens at least, not {self.length}")
        if slots is None:
            weight = next(loaded.model.parameters())
            per_slot = bytes_per_token(config, weight.element_size()) * (self.length + 1)
            slots = max(1, min(_MAX_SLOTS, _budget(weight.device, reserve) // per_slot - 1))
        if slots < 1:
            raise ConfigError(f"the engine needs one slot at least, not {slots}")
        self._executor: Executor = make_executor(loaded.model, slots, self.length, executor, adapters)
        self._end = loaded.chat_format.end
        self._cache = PrefixCache(slots, self._executor.share_tokens)
        self._scheduler = Scheduler(
            self._cache,
            pass_tokens=self._executor.pass_tokens,
            pass_cost=self._executor.pass_cost,
            reuses=reuse and self._executor.reuses,
        )
        self._versions = {_BASE: version}
        self._numbers: dict[str, int] = {}
        """The adapters by name."""
        self.capacity = adapters
        """How many adapters can be published, and of which rank; None where there is no room."""
        self._driver: asyncio.Task[None] | None = None
        self._publishing: list[tuple[Callable[[], None], asyncio.Future[None]]] = []
        self._counts: Counter[str] = Counter()
        self._passes = Passes(self._executor, self._scheduler, self._counts)

    @property
    def capture_s(self) -> float:
        """Seconds spent so far on capturing graphs, each of which is used ever after."""
        return self._executor.capture_s if isinstance(self._executor, GraphExecutor) else 0.0

    @property
    def version(self) -> int:
        """The version of the weights it plays with."""
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
        reply = GenerateJob(ids, sampling, None if options is None else _trie(options), self._end)
        self._counts["calls"] += 1
        completion = reply.result(self._versions[adapter]) if reply.is_done else await self._queued(reply, adapter)
        assert isinstance(completion, Completion)
        self._counts["forced"] += reply.num_forced
        self._counts["sampled"] += len(completion.tokens) - reply.num_forced
        return completion

    async def action_logprobs(
        self, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> tuple[float, ...]:
        """The exact log-probability of each choice: the product along the trie."""
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
        asked = [self._queued(ScoreJob(ids + path, allowed, temperature), adapter) for path, allowed in decisions]
        answers = await asyncio.gather(*asked)
        decided = {path: answer for (path, _), answer in zip(decisions, answers, strict=True)}
        return action_logprobs(options, decided)

    async def publish(self, weights: Mapping[str, Tensor], version: int | None = None) -> None:
        """Copy new weights in place, once the calls that have begun are answered; others wait for the new ones.

        Their version is the next number, or `version`, by which a resumed run goes on counting.
        """
        await self._between_calls(partial(self._load, weights, version))

    async def publish_adapter(self, name: str, factors: Mapping[str, LowRank], version: int | None = None) -> None:
        """Give an adapter new matrices, by the names of the modules they belong to, as `publish` does."""
        if self.capacity is None:
            raise EngineError(f"the engine was made without room for adapters, so {name!r} cannot be published")
        await self._between_calls(partial(self._load_adapter, name, factors, version))

    def drop_adapter(self, name: str) -> None:
        """Forget an adapter that no call plays with; the next new one gets its place."""
        number = self.number_of(name)
        if any(row.adapter == number for row in self._scheduler.rows):
            raise EngineError(f"adapter {name!r} is played with now; it cannot be dropped")
        del self._numbers[name]
        self._cache.clear(number)

    def adapter(self, name: str) -> AdapterEngine:
        """This engine with the adapter that is published under `name`, now or before the first call."""
        return AdapterEngine(self, name)

    def number_of(self, name: str) -> int:
        """Which place an adapter has."""
        if name not in self._numbers:
            raise EngineError(f"no adapter {name!r} was published; there are: {listing(self._numbers) or 'none'}")
        return self._numbers[name]

    async def _between_calls(self, load: Callable[[], None]) -> None:
        """Change weights while no call is under way."""
        if self._scheduler.rows or self._publishing:
            served = asyncio.get_running_loop().create_future()
            self._publishing.append((load, served))
            await served
        else:
            load()

    def reset_cache(self) -> None:
        """Forget all prefixes, so that what follows does not depend on what came before."""
        self._cache.clear()

    def counters(self) -> dict[str, int]:
        """Since the last reset: calls, hits (calls that found a prefix), tokens read, reused from the cache,
        sampled and forced, and forward passes."""
        names = ("calls", "hits", "read", "reused", "sampled", "forced", "passes")
        return {name: self._counts[name] for name in names}

    def reset_counters(self) -> None:
        """Count from zero."""
        self._counts.clear()

    def _queued(self, job: Job, adapter: int) -> asyncio.Future[Any]:
        """What a job will have found once the driver has run it."""
        loop = asyncio.get_running_loop()
        row = ScheduledJob(job, loop.create_future(), adapter)
        if self._driver is None or self._driver.get_loop() is not loop:
            self._passes.drop()
            self._scheduler.drain()  # calls of a loop that was stopped will never be waited for
            self._driver = loop.create_task(self._drive())
            self._driver.add_done_callback(self._stopped)
        self._scheduler.add(row)
        return row.future

    async def _drive(self) -> None:
        """Run passes while there are calls, each when no other task has anything to say."""
        while self._scheduler.has_work or self._publishing:
            quiet = 0
            while quiet < _QUIET_PASSES:
                before = self._scheduler.num_added
                await asyncio.sleep(0)
                quiet = quiet + 1 if self._scheduler.num_added == before else 0
            self._step()
        self._driver = None

    def _stopped(self, driver: asyncio.Task[None]) -> None:
        """Tell everyone who waits when the driver was cancelled or failed."""
        error = None if driver.cancelled() else driver.exception()
        if not driver.cancelled() and error is None:
            return
        self._driver = None
        self._passes.drop()
        waiting = [row.future for row in self._scheduler.drain()] + [future for _, future in self._publishing]
        self._publishing = []
        self._executor.wipe()
        self._cache.clear()
        for future in waiting:
            if not future.done() and error is None:
                future.cancel()
            elif not future.done():
                known = isinstance(error, EngineError)
                future.set_exception(EngineError(str(error) if known else f"the model failed: {error!r}"))

    def _step(self) -> None:
        self._scheduler.finish()
        if not self._scheduler.rows:
            self._serve_publishing()
        if not self._publishing:
            self._admit()
        self._passes.begin()
        self._passes.land()
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

    def _serve_publishing(self) -> None:
        waiting, self._publishing = self._publishing, []
        for load, served in waiting:
            if served.done():  # whoever asked for it was cancelled
                continue
            try:
                load()
                served.set_result(None)
            except EngineError as error:
                served.set_exception(error)

    def _load(self, weights: Mapping[str, Tensor], version: int | None) -> None:
        self._executor.load(weights)
        self._versions[_BASE] = self.version + 1 if version is None else version
        self._cache.clear()

    def _load_adapter(self, name: str, factors: Mapping[str, LowRank], version: int | None) -> None:
        assert isinstance(self._executor, GraphExecutor)
        assert self.capacity is not None
        free = [number for number in range(self.capacity.places) if number not in self._numbers.values()]
        if name not in self._numbers and not free:
            raise EngineError(
                f"the engine has room for {self.capacity.places} adapters, and {name!r} would be one more"
            )
        number = self._numbers[name] if name in self._numbers else free[0]
        self._executor.load_adapter(number, factors)
        self._numbers[name] = number
        self._versions[number] = self._versions.get(number, -1) + 1 if version is None else version
        self._cache.clear(number)


class AdapterEngine:
    """An engine that plays with one of its adapters."""

    def __init__(self, engine: LocalEngine, name: str) -> None:
        self._engine = engine
        self._name = name

    @property
    def version(self) -> int:
        """The version of the adapter."""
        return self._engine._versions[self._engine.number_of(self._name)]

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        return await self._engine._complete(self._engine.number_of(self._name), prompt, sampling, choices)

    async def action_logprobs(
        self, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> tuple[float, ...]:
        """The exact log-probability of each choice: the product along the trie."""
        return await self._engine._action_logprobs(self._engine.number_of(self._name), prompt, choices, temperature)


def _budget(device: torch.device, reserve: int) -> int:
    """Bytes for keys and values."""
    if device.type == "cuda":
        return int(_CUDA_SHARE * max(0, torch.cuda.mem_get_info(device)[0] - reserve))
    return _CPU_BYTES
