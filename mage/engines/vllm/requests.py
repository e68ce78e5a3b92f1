"""What vLLM is asked, and how its answers become tokens: free text, or one decision of a constrained answer."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from math import exp, isfinite, log
from typing import Any, NamedTuple

from mage.engines.local.jobs import SampledToken, TokenRequest
from mage.errors import EngineError
from mage.protocols import Sampling

Ids = tuple[int, ...]

MAX_DECISION_IDS = 127
"""Most ids of one request: vLLM takes 128 in `logprob_token_ids`, and one of them is given twice."""
_LEAST_TEMPERATURE = 0.01
"""vLLM raises lower temperatures than this, except 0, without an error."""
_MAX_SEED = 2**63
_ALWAYS: Mapping[str, Any] = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "ignore_eos": True,
    "detokenize": False,
}
"""Set in every request: a model's generation_config may have other defaults, which would bias importance ratios."""


class VllmRequest(NamedTuple):
    """One request: a prompt, and how tokens are sampled after it."""

    prompt: Ids
    params: Mapping[str, Any]
    """The sampling parameters, by vLLM's names."""
    adapter: str
    """The name of the loaded adapter; empty for the model itself."""
    salt: str
    """Prompts are reused from the prefix cache among requests with the same salt only."""


class VllmAnswer(NamedTuple):
    """The tokens that were sampled."""

    tokens: Ids
    logprobs: tuple[Mapping[int, float], ...]
    """For each of them the log-probabilities that were asked for, by id; that of the token is among them."""


def text_params(sampling: Sampling, end: int) -> dict[str, Any]:
    """Sample freely until the end of the turn, with the log-probability of each sampled token."""
    if 0 < sampling.temperature < _LEAST_TEMPERATURE:
        raise EngineError(
            f"vLLM has no temperature of {sampling.temperature:g}; set agent.temperature to 0 or to "
            f"{_LEAST_TEMPERATURE:g} or more"
        )
    return {
        **_ALWAYS,
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "seed": sampling.seed % _MAX_SEED,
        "stop_token_ids": [end],
        "logprobs": 0,
    }


def decision_params(ids: Ids) -> dict[str, Any]:
    """The log-probabilities of some next ids among the whole vocabulary, at temperature 1; `MAX_DECISION_IDS` at most.

    vLLM's mask (`allowed_token_ids`) is not used: version 0.22 loses ids of it for Qwen3 on GPUs
    (vllm-project/vllm#46245). vLLM's own draw is not used either, so it is the greedy one, which needs no random
    generator. A server returns as many entries as `logprobs` says, and the drawn id may be one more than those that
    were asked for, so one of these is given twice.
    """
    named = [*ids, ids[0]]
    return {
        **_ALWAYS,
        "max_tokens": 1,
        "temperature": 0.0,
        "logprob_token_ids": named,
        "logprobs": len(named),
    }


def draw(request: TokenRequest, found: Mapping[int, float]) -> SampledToken:
    """One of the allowed ids, by the request's uniform, from their log-probabilities at temperature 1.

    >>> token = draw(TokenRequest((3, 5), 1.0, 0.75), {3: -0.1, 5: -0.1})
    >>> token.token, round(token.logprob, 3)
    (5, -0.693)
    >>> draw(TokenRequest((3, 5), 0.0, 0.0), {3: -9.0, 5: -0.1})[:2]
    (5, 0.0)
    """
    allowed = request.allowed or ()
    at_one = normalised(of_ids(allowed, found))
    if request.temperature == 0:
        return SampledToken(allowed[at_one.index(max(at_one))], 0.0, tuple(at_one))
    logprobs = normalised([logprob / request.temperature for logprob in at_one])
    cumulated = list(accumulate(exp(logprob) for logprob in logprobs))
    target = request.uniform * cumulated[-1]
    index = next((number for number, total in enumerate(cumulated) if total > target), len(allowed) - 1)
    return SampledToken(allowed[index], min(0.0, logprobs[index]), tuple(logprobs))


def of_ids(ids: Ids, found: Mapping[int, float]) -> list[float]:
    """The log-probabilities of ids that vLLM was asked for."""
    if missing := sum(token not in found for token in ids):
        raise EngineError(f"vLLM gave no log-probability for {missing} of the {len(ids)} ids that it was asked for")
    return [found[token] for token in ids]


def normalised(logprobs: list[float]) -> list[float]:
    """Log-probabilities whose probabilities sum to 1.

    >>> [round(value, 3) for value in normalised([0.0, 0.0])]
    [-0.693, -0.693]
    """
    if not all(map(isfinite, logprobs)):
        raise EngineError("the model's logits are not finite; its weights may have diverged")
    top = max(logprobs)
    total = top + log(sum(exp(logprob - top) for logprob in logprobs))
    return [logprob - total for logprob in logprobs]
