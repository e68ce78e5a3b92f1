"""The policy server on vLLM: one whole model, or adapters on one base; choices are drawn here, along the trie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from time import perf_counter

from mage.aio import all_done
from mage.engines.local.jobs import GenerateJob, check_request
from mage.engines.settings import EngineSettings
from mage.engines.trie import Ids, Trie, action_logprobs
from mage.engines.vllm.backend import Backend, LoadedAdapter
from mage.engines.vllm.base_weights import BaseWeights
from mage.engines.vllm.call_gate import CallGate
from mage.engines.vllm.model_files import RANKS, room_for, write_adapter
from mage.engines.vllm.probe import LEAST_SHARE, Probe
from mage.engines.vllm.requests import (
    MAX_DECISION_IDS,
    VllmAnswer,
    VllmRequest,
    decision_params,
    normalised,
    of_ids,
    text_params,
)
from mage.engines.vllm.requests import draw as draw_token
from mage.errors import ConfigError, EngineError, listing
from mage.models.load import LoadedModel
from mage.protocols import Sampling, ServerLimits
from mage.types import Completion
from mage.weights import PolicyWeights

_trie = lru_cache(maxsize=4096)(Trie)


@dataclass(frozen=True)
class _Publication:
    """What a policy plays with."""

    version: int
    number: int
    """Counts the publications of all policies."""
    adapter: LoadedAdapter | None


def check_settings(settings: EngineSettings) -> None:
    """Raise a ConfigError for policies that vLLM cannot serve."""
    if settings.policies > 1 and not settings.adapter_rank:
        raise ConfigError(
            f"engine = vllm serves one whole model, and {settings.policies} policies are needed; set "
            "learner.lora_rank, or engine = local"
        )
    if settings.adapter_rank and room_for(settings.adapter_rank) is None:
        raise ConfigError(f"learner.lora_rank = {settings.adapter_rank}: vLLM has room for {RANKS[-1]} at most")


class VllmPolicyServer:
    """Serves policies with vLLM.

    Where policies are adapters, their requests share batches; a whole model is the only policy. Prefixes are reused
    within a publication only: each has a salt of its own in vLLM's prefix cache, and `reset_cache` takes new ones.
    """

    def __init__(self, loaded: LoadedModel, settings: EngineSettings, backend: Backend) -> None:
        self._backend = backend
        self._end = loaded.chat_format.end
        self._has_adapters = settings.adapter_rank > 0
        self._places = settings.policies if self._has_adapters else 1
        self._probe = Probe(loaded)
        self._gate = CallGate()
        self._folder = TemporaryDirectory(prefix="mage-vllm-")
        self._mark = Path(self._folder.name).name
        """In the names of adapters and in salts: a server may have those of other runs."""
        self._published: dict[str, _Publication] = {}
        self._retired: list[LoadedAdapter] = []
        """Adapters that no policy uses any more; the next publication removes them from vLLM."""
        self._base = BaseWeights()
        self._num_publications = 0
        self._num_resets = 0
        self._totals: Counter[str] = Counter()
        self._publish_s = 0.0

    @property
    def limits(self) -> ServerLimits:
        return ServerLimits(self._backend.length, self._places)

    async def publish(self, policy: str, weights: PolicyWeights, version: int) -> None:
        begun = perf_counter()
        async with self._gate.publication():
            if policy not in self._published and len(self._published) >= self._places:
                raise EngineError(
                    f"vLLM was started with room for {self._places} policies, and {policy!r} would be one more"
                )
            self._num_publications += 1
            self._retire(self._published.pop(policy, None))  # where loading fails, nothing is served
            adapter = await (self._load_adapter if self._has_adapters else self._load_model)(policy, weights)
            found = _Publication(version, self._num_publications, adapter)
            await self._check(policy, weights, found)
            self._published[policy] = found
        self._publish_s += perf_counter() - begun

    def policy(self, name: str) -> VllmPolicy:
        return VllmPolicy(self, name)

    def drop(self, name: str) -> None:
        self._retire(self._publication_of(name))
        del self._published[name]

    def reset_cache(self) -> None:
        self._num_resets += 1

    def clear(self) -> None:
        for publication in self._published.values():
            self._retire(publication)
        self._published.clear()
        self._base.forget_tensors()
        self.reset_cache()

    def metrics(self) -> Mapping[str, float]:
        return {**{name: float(self._totals[name]) for name in ("requests", "forced")}, "publish_s": self._publish_s}

    async def complete(
        self, name: str, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        """A reply of a policy; with choices a request for each real decision, and none for what is forced."""
        options = None if choices is None else tuple([tuple(choice) for choice in choices])
        ids = tuple(prompt)
        check_request(ids, sampling, options, self._backend.length)
        async with self._gate.call():
            publication = self._publication_of(name)
            job = GenerateJob(ids, sampling, None if options is None else _trie(options), self._end)
            if options is None:
                answer = await self._ask(publication, ids, text_params(sampling, self._end))
                job.accept_free(answer.tokens, _sampled_logprobs(answer, sampling.temperature))
            while not job.is_done:
                request = job.next_request()
                assert request.allowed is not None
                job.accept(draw_token(request, await self._decide(publication, job.ids, request.allowed)))
            self._totals["forced"] += job.num_forced
            return job.result(publication.version)

    async def action_logprobs(
        self, name: str, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float
    ) -> tuple[float, ...]:
        """The exact log-probability of each choice: the sum along the trie."""
        options = tuple(tuple(choice) for choice in choices)
        ids = tuple(prompt)
        check_request(ids, Sampling(temperature, self._backend.length, 0), options, self._backend.length)
        if temperature == 0:
            raise EngineError("at temperature 0 a choice is certain; ask for its log-probability at another one")
        async with self._gate.call():
            publication = self._publication_of(name)
            decisions = list(_trie(options).decisions())
            answers = await all_done([self._decide(publication, ids + path, allowed) for path, allowed in decisions])
        decided: dict[Ids, Mapping[int, float]] = {}
        for (path, allowed), answer in zip(decisions, answers, strict=True):
            found = [logprob / temperature for logprob in of_ids(allowed, answer)]
            decided[path] = dict(zip(allowed, normalised(found), strict=True))
        return action_logprobs(options, decided)

    def _publication_of(self, name: str) -> _Publication:
        if name not in self._published:
            raise EngineError(f"no policy {name!r} was published; there are: {listing(self._published)}")
        return self._published[name]

    async def _decide(self, publication: _Publication, prompt: Ids, allowed: Ids) -> Mapping[int, float]:
        """The log-probabilities of the allowed next ids, over the whole vocabulary."""
        found: dict[int, float] = {}
        for start in range(0, len(allowed), MAX_DECISION_IDS):
            params = decision_params(allowed[start : start + MAX_DECISION_IDS])
            found |= (await self._ask(publication, prompt, params)).logprobs[0]
        return found

    async def _ask(self, publication: _Publication, prompt: Ids, params: Mapping[str, object]) -> VllmAnswer:
        self._totals["requests"] += 1
        return await self._backend.generate(self._request(publication, prompt, params))

    def _request(self, publication: _Publication, prompt: Ids, params: Mapping[str, object]) -> VllmRequest:
        adapter = "" if publication.adapter is None else publication.adapter.name
        return VllmRequest(prompt, params, adapter, f"{self._mark}.{publication.number}.{self._num_resets}")

    async def _load_model(self, policy: str, weights: PolicyWeights) -> None:
        await self._backend.load_model(weights.merged())

    async def _load_adapter(self, policy: str, weights: PolicyWeights) -> LoadedAdapter:
        """Load an adapter beside those that are served, and first the base where it is another one."""
        retired, self._retired = self._retired, []
        for old in retired:
            await self._backend.drop_adapter(old)
            rmtree(old.folder, ignore_errors=True)
        base, self._base = self._base, BaseWeights()  # where loading fails, it is not known
        if base.differ(weights.model):
            await self._backend.load_model(weights.model)
        self._base = base
        folder = Path(self._folder.name) / str(self._num_publications)
        write_adapter(folder, weights.adapter)
        adapter = LoadedAdapter(f"{policy}.{self._num_publications}.{self._mark}", folder)
        await self._backend.load_adapter(adapter)
        return adapter

    def _retire(self, publication: _Publication | None) -> None:
        if publication is not None and publication.adapter is not None:
            self._retired.append(publication.adapter)

    async def _check(self, policy: str, weights: PolicyWeights, publication: _Publication) -> None:
        """Compare a publication with a plain forward pass, on each server that there is."""
        first, *others = self._probe.prompts
        found = {name: [answer] for name, answer in (await self._probed(publication, first)).items()}
        expected = self._probe.expected(weights.merged())
        said = f"does not play with the weights that were published for {policy!r}: log-probabilities"
        for name, answers in found.items():
            gap = self._probe.gap(expected, answers[0])
            if not gap <= self._probe.tolerance:
                raise EngineError(
                    f"{name} {said} differ by {gap:.2g} from those of a plain pass, where {self._probe.tolerance:g} "
                    "is allowed"
                )
        shares = {name: self._probe.share(policy, expected, answers) for name, answers in found.items()}
        if any(share is not None and share < LEAST_SHARE for share in shares.values()):
            for prompt in others:
                for name, answer in (await self._probed(publication, prompt)).items():
                    found[name].append(answer)
            shares = {name: self._probe.share(policy, expected, answers) for name, answers in found.items()}
        for name, share in shares.items():
            if share is not None and share < LEAST_SHARE:
                raise EngineError(
                    f"{name} {said} show {share:.0%} of what has changed since an earlier publication, by a plain pass "
                    "of both"
                )
        self._probe.accept(policy, expected, shares.values())

    async def _probed(self, publication: _Publication, prompt: Ids) -> Mapping[str, Mapping[int, float]]:
        """Each server's log-probabilities after a prompt of the probe."""
        asked = self._request(publication, prompt, decision_params(self._probe.allowed))
        answers = await self._backend.generate_on_each(asked)
        self._totals["requests"] += len(answers)
        return {name: answer.logprobs[0] for name, answer in answers.items()}


class VllmPolicy:
    """A policy of a vLLM server, which may be published later."""

    def __init__(self, server: VllmPolicyServer, name: str) -> None:
        self._server = server
        self._name = name

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        return await self._server.complete(self._name, prompt, sampling, choices)

    async def action_logprobs(
        self, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> tuple[float, ...]:
        """The exact log-probability of each choice: the sum along the trie."""
        return await self._server.action_logprobs(self._name, prompt, choices, temperature)


def _sampled_logprobs(answer: VllmAnswer, temperature: float) -> list[float]:
    """The log-probability of each sampled token; 0 at temperature 0, where it is certain."""
    if temperature == 0:
        return [0.0] * len(answer.tokens)
    logprobs = [found[token] for token, found in zip(answer.tokens, answer.logprobs, strict=True)]
    normalised([*logprobs, 0.0])  # refuses what is not finite
    return [min(0.0, logprob) for logprob in logprobs]
