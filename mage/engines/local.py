"""The engine in this process: PyTorch, batches of whatever is pending, a prefix cache, exact log-probabilities.

It lives in the event loop: no threads and no timers. A batch is formed when no other task has anything to say,
and each call draws from a stream of its own, so the order of arrival changes no token.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from torch import Tensor

from mage.engines.cache import PrefixCache
from mage.engines.draw import draw_tokens
from mage.engines.executor import Executor, Work, bytes_per_token, make_executor
from mage.engines.jobs import Job, Question, Reply, check_request
from mage.engines.scheduler import Row, Scheduler
from mage.engines.trie import Trie, action_logprobs
from mage.errors import ConfigError, EngineError
from mage.models.load import Loaded
from mage.protocols import Sampling
from mage.types import Sampled

_QUIET_PASSES = 4
"""The event loop must go round this often without a new call: a trial that ends starts its successor in three."""
_BUDGET_BYTES = 2**30
_MAX_SLOTS = 1024
_MAX_LENGTH = 4096
_MIN_LENGTH = 16

_trie = lru_cache(maxsize=4096)(Trie)


class LocalEngine:
    """Serves a copy of a loaded model; `publish` gives the copy new weights.

    `slots` is how many calls may run together and how many streams stay warm; `length` is the most tokens a
    prompt and its answer may have together. Both are derived from the model and a memory budget by default.
    """

    def __init__(
        self, loaded: Loaded, *, slots: int | None = None, length: int | None = None, version: int = 0
    ) -> None:
        config = loaded.model.config
        limit = getattr(config, "max_position_embeddings", None) or _MAX_LENGTH
        self.length = min(limit, _MAX_LENGTH if length is None else length)
        if self.length < _MIN_LENGTH:
            raise ConfigError(f"the engine needs room for {_MIN_LENGTH} tokens at least, not {self.length}")
        if slots is None:
            number_bytes = next(loaded.model.parameters()).element_size()
            per_slot = bytes_per_token(config, number_bytes) * (self.length + 1)
            slots = max(1, min(_MAX_SLOTS, _BUDGET_BYTES // per_slot))
        if slots < 1:
            raise ConfigError(f"the engine needs one slot at least, not {slots}")
        self._executor: Executor = make_executor(loaded.model, slots, self.length)
        self._end = loaded.codec.end
        self._cache = PrefixCache(slots)
        self._scheduler = Scheduler(self._cache)
        self._version = version
        self._driver: asyncio.Task[None] | None = None
        self._publishing: list[tuple[Mapping[str, Tensor], int | None, asyncio.Future[None]]] = []
        self._counts: Counter[str] = Counter()

    @property
    def version(self) -> int:
        """The version of the weights it plays with."""
        return self._version

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Sampled:
        options = None if choices is None else tuple(tuple(choice) for choice in choices)
        ids = tuple(prompt)
        check_request(ids, sampling, options, self.length)
        reply = Reply(ids, sampling, None if options is None else _trie(options), self._end)
        self._counts["calls"] += 1
        sampled = reply.result(self._version) if reply.is_done else await self._run(reply)
        assert isinstance(sampled, Sampled)
        self._counts["forced"] += reply.num_forced
        self._counts["sampled"] += len(sampled.tokens) - reply.num_forced
        return sampled

    async def action_logprobs(
        self, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> tuple[float, ...]:
        """The exact log-probability of each choice: the product along the trie."""
        options = tuple(tuple(choice) for choice in choices)
        ids = tuple(prompt)
        check_request(ids, Sampling(temperature, self.length, 0), options, self.length)
        if temperature == 0:
            raise EngineError("at temperature 0 a choice is certain; ask for its log-probability at another one")
        decisions = list(_trie(options).decisions())
        asked = [self._run(Question(ids + path, allowed, temperature)) for path, allowed in decisions]
        answers = await asyncio.gather(*asked)
        decided = {path: answer for (path, _), answer in zip(decisions, answers, strict=True)}
        return action_logprobs(options, decided)

    async def publish(self, weights: Mapping[str, Tensor], version: int | None = None) -> None:
        """Copy new weights in place, once the calls that have begun are answered; others wait for the new ones.

        Their version is the next number, or `version`, by which a resumed run goes on counting.
        """
        if self._scheduler.rows or self._publishing:
            served = asyncio.get_running_loop().create_future()
            self._publishing.append((weights, version, served))
            await served
        else:
            self._load(weights, version)

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

    async def _run(self, job: Job) -> Any:
        loop = asyncio.get_running_loop()
        row = Row(job, loop.create_future())
        if self._driver is None or self._driver.get_loop() is not loop:
            self._scheduler.drain()  # calls of a loop that was stopped will never be waited for
            self._driver = loop.create_task(self._drive())
            self._driver.add_done_callback(self._stopped)
        self._scheduler.add(row)
        return await row.future

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
        waiting = [row.future for row in self._scheduler.drain()] + [future for *_, future in self._publishing]
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
        for rows in self._scheduler.groups():
            self._pass(rows)
        for row in self._scheduler.finish():
            if not row.future.done():
                row.future.set_result(row.job.result(self._version))

    def _admit(self) -> None:
        admitted, copies = self._scheduler.admit()
        for source, length, targets in copies:
            self._executor.copy(source, targets, length)
        for row in admitted:
            row.filled = row.filled if self._executor.reuses else 0
            self._counts["hits"] += row.filled > 0
            self._counts["reused"] += row.filled

    def _pass(self, rows: Sequence[Row]) -> None:
        logits_RV = self._executor.forward([Work(row.slot, row.filled, row.job.ids) for row in rows])
        self._counts["passes"] += 1
        self._counts["read"] += sum(row.num_new for row in rows)
        draws = draw_tokens(logits_RV, [row.job.ask() for row in rows])
        for row, draw in zip(rows, draws, strict=True):
            row.filled = len(row.job.ids) if self._executor.reuses else 0
            if row.kept == 0:
                self._scheduler.remember(row)
            row.job.take(draw)

    def _serve_publishing(self) -> None:
        for weights, version, served in self._publishing:
            try:
                self._load(weights, version)
                served.set_result(None)
            except EngineError as error:
                served.set_exception(error)
        self._publishing = []

    def _load(self, weights: Mapping[str, Tensor], version: int | None) -> None:
        self._executor.load(weights)
        self._version = self._version + 1 if version is None else version
        self._cache.clear()
