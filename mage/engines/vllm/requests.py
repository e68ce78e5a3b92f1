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

MAX_LOGPROB_IDS = 128
"""Most ids that vLLM takes in `logprob_token_ids`."""
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


def decision_params(allowed: Ids) -> dict[str, Any]:
    """The log-probabilities of the allowed next ids, at temperature 1.

    vLLM's own draw is not used, so it is the greedy one, which needs no random generator.
    """
    ids = list(allowed)
    named = {"logprob_token_ids": ids} if len(ids) <= MAX_LOGPROB_IDS else {}
    return {
        **_ALWAYS,
        "max_tokens": 1,
        "temperature": 0.0,
        "allowed_token_ids": ids,
        "logprobs": len(ids),
        **named,
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
    at_one = normalised([found.get(token, float("nan")) for token in allowed])
    if request.temperature == 0:
        return SampledToken(allowed[at_one.index(max(at_one))], 0.0, tuple(at_one))
    logprobs = normalised([logprob / request.temperature for logprob in at_one])
    cumulated = list(accumulate(exp(logprob) for logprob in logprobs))
    target = request.uniform * cumulated[-1]
    last = max(number for number, logprob in enumerate(logprobs) if logprob > float("-inf"))
    index = next((number for number, total in enumerate(cumulated) if total > target), last)
    return SampledToken(allowed[index], min(0.0, logprobs[index]), tuple(logprobs))


def normalised(logprobs: list[float]) -> list[float]:
    """Log-probabilities whose probabilities sum to 1.

    >>> [round(value, 3) for value in normalised([0.0, 0.0])]
    [-0.693, -0.693]
    """
    top = max(logprobs)
    if not isfinite(top) or any(logprob != logprob for logprob in logprobs):
        raise EngineError("the model's logits are not finite; its weights may have diverged")
    total = top + log(sum(exp(logprob - top) for logprob in logprobs))
    return [logprob - total for logprob in logprobs]
