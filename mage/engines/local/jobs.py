"""The two kinds of jobs of the local engine: generate a reply, or score the allowed next tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from mage.engines.trie import Trie
from mage.errors import EngineError
from mage.protocols import Sampling
from mage.seeds import nth_uniform
from mage.types import Completion

Ids = tuple[int, ...]


class TokenRequest(NamedTuple):
    """How the next token is to be sampled."""

    allowed: Ids | None
    """The allowed ids; None for all."""
    temperature: float
    uniform: float
    """The uniform number for inverse-CDF sampling, in [0, 1)."""


class SampledToken(NamedTuple):
    """A sampled token."""

    token: int
    logprob: float
    """Under the distribution it was sampled from; 0 at temperature 0."""
    logprobs: tuple[float, ...]
    """Of the allowed ids, in their order; empty if all ids are allowed."""


class Job(Protocol):
    """A call that needs the model's next-token distribution once or several times."""

    ids: Ids
    """The prompt and the tokens so far."""
    is_done: bool

    @property
    def order(self) -> tuple[int, Ids]:
        """Sort key: jobs are served in this order, independent of arrival."""

    @property
    def free_tokens(self) -> int:
        """How many unconstrained tokens may follow if none of them is the end token."""

    def next_request(self) -> TokenRequest: ...

    def accept(self, sampled: SampledToken) -> None: ...

    def result(self, version: int) -> object:
        """The answer, marked with the version of the weights."""


class GenerateJob:
    """One reply, token by token. Forced tokens need no pass and have log-probability 0."""

    def __init__(self, prompt: Ids, sampling: Sampling, trie: Trie | None, end: int) -> None:
        self.ids = prompt
        self.is_done = False
        self._sampling = sampling
        self._trie = trie
        self._end = end
        self._tokens: list[int] = []
        self._logprobs: list[float] = []
        self._allowed: list[Ids] = []
        self._num_joined = 0
        """How many of the reply's tokens are in `ids`."""
        self.num_forced = 0
        self._force()
        if self._tokens:
            self.ids += tuple(self._tokens)
            self._num_joined = len(self._tokens)

    @property
    def order(self) -> tuple[int, Ids]:
        return self._sampling.seed, self.ids

    def next_request(self) -> TokenRequest:
        allowed = None if self._trie is None else self._trie.allowed
        uniform = nth_uniform(self._sampling.seed, len(self._tokens)) if self._sampling.temperature > 0 else 0.0
        return TokenRequest(allowed, self._sampling.temperature, uniform)

    @property
    def free_tokens(self) -> int:
        return self._sampling.max_tokens - len(self._tokens) if self._trie is None else 0

    @property
    def sampling(self) -> Sampling:
        return self._sampling

    @property
    def num_tokens(self) -> int:
        """How many tokens were sampled or forced."""
        return len(self._tokens)

    def accept(self, sampled: SampledToken) -> None:
        self._append(sampled.token, sampled.logprob)
        self._force()
        self.ids += tuple(self._tokens[self._num_joined :])
        self._num_joined = len(self._tokens)

    def accept_free(self, tokens: Sequence[int], logprobs: Sequence[float]) -> None:
        """Accept the tokens of a burst up to the end token; the rest are discarded."""
        num = min(self.free_tokens, len(tokens))
        num = tokens.index(self._end, 0, num) + 1 if self._end in tokens[:num] else num
        self.ids += tuple(tokens[:num])
        self._tokens += tokens[:num]
        self._num_joined = len(self._tokens)
        self._logprobs += logprobs[:num]
        self.is_done = self._tokens[-1] == self._end or self.free_tokens == 0

    def result(self, version: int) -> Completion:
        allowed = None if self._trie is None else tuple(self._allowed)
        is_cut = self._trie is None and self._tokens[-1] != self._end
        return Completion(tuple(self._tokens), tuple(self._logprobs), allowed, version, is_cut)

    def _force(self) -> None:
        while self._trie is not None and len(self._trie.allowed) == 1:
            self._append(self._trie.allowed[0], 0.0)
            self.num_forced += 1

    def _append(self, token: int, logprob: float) -> None:
        self._tokens.append(token)
        self._logprobs.append(logprob)
        if self._trie is not None:
            self._allowed.append(self._trie.allowed)
            self._trie = self._trie.after(token)
            self.is_done = not self._trie.allowed
        else:
            self.is_done = token == self._end or len(self._tokens) == self._sampling.max_tokens


class ScoreJob:
    """The log-probabilities of the allowed next ids."""

    def __init__(self, ids: Ids, allowed: Ids, temperature: float) -> None:
        self.ids = ids
        self.is_done = False
        self._allowed = allowed
        self._temperature = temperature
        self._logprobs: tuple[float, ...] = ()

    @property
    def order(self) -> tuple[int, Ids]:
        return -1, self.ids

    @property
    def free_tokens(self) -> int:
        return 0

    def next_request(self) -> TokenRequest:
        return TokenRequest(self._allowed, self._temperature, 0.0)

    def accept(self, sampled: SampledToken) -> None:
        self._logprobs = sampled.logprobs
        self.is_done = True

    def result(self, version: int) -> dict[int, float]:
        return dict(zip(self._allowed, self._logprobs, strict=True))


def check_request(prompt: Ids, sampling: Sampling, choices: tuple[Ids, ...] | None, length: int) -> None:
    """Refuse a request that cannot be served."""
    longest = sampling.max_tokens if choices is None else max(map(len, choices), default=0)
    if not prompt:
        raise EngineError("the prompt is empty; it needs one token at least")
    if not sampling.temperature >= 0:
        raise EngineError(f"the temperature must be 0 or more, not {sampling.temperature}")
    if sampling.max_tokens < 1 or longest > sampling.max_tokens:
        raise EngineError(f"max_tokens is {sampling.max_tokens}, but the longest answer has {max(longest, 1)} tokens")
    if len(prompt) + longest > length:
        raise EngineError(
            f"a prompt of {len(prompt)} tokens and an answer of {longest} do not fit the engine's {length}; "
            "lower agent.context or use a model with a longer context"
        )
