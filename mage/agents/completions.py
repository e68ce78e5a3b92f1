"""What an engine returns, checked where it comes back: a learner would train on any numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from mage.errors import EngineError
from mage.plugin_errors import shown_value
from mage.protocols import ChatFormat, Engine
from mage.types import Completion

_ROUNDING = 1e-3
"""By how much a log-probability may exceed 0."""
_INT: frozenset[type] = frozenset({int})
_FLOAT: frozenset[type] = frozenset({float, int})
_IDS: frozenset[type] = frozenset({tuple})


def check_completion(
    engine: Engine, given: object, chat_format: ChatFormat, max_tokens: int, choices: Sequence[Sequence[int]] | None
) -> None:
    """Raise an EngineError where what an engine returned breaks its contract."""
    if not isinstance(given, Completion):
        raise _error(engine, shown_value(given), "a mage.types.Completion")
    tokens, logprobs = given.tokens, given.logprobs
    if not _is_tuple_of(_INT, tokens):
        raise _error(engine, f"the tokens {shown_value(tokens)}", "a tuple of ids")
    if choices is not None and tokens not in choices:
        raise EngineError(f"the engine answered {chat_format.decode(tokens)!r}, which is not a choice")
    if len(tokens) > max_tokens:
        raise EngineError(f"the engine sampled {len(tokens)} tokens where {max_tokens} were allowed")
    if given.truncated == (tokens[-1:] == (chat_format.end,)):
        raise EngineError("a reply of the engine must either end its turn or be marked as cut short")
    if not _is_tuple_of(_FLOAT, logprobs):
        raise _error(engine, f"the log-probabilities {shown_value(logprobs)}", "a tuple of floats")
    if len(logprobs) != len(tokens):
        raise _error(engine, f"{len(logprobs)} log-probabilities for {len(tokens)} tokens", "one for each")
    if not (isfinite(sum(logprobs)) and max(logprobs, default=0.0) <= _ROUNDING):
        raise _error(engine, f"the log-probabilities {shown_value(logprobs)}", "finite numbers of at most 0")
    if choices is not None and not _are_allowed(tokens, given.allowed):
        shown = f"allowed = {shown_value(given.allowed)} where choices were given"
        raise _error(engine, shown, "the ids of each token, with its own")


def _is_tuple_of(kinds: frozenset[type], given: object) -> bool:
    """Whether it is a tuple of values of these types, or of subclasses; usually there is one, which is found fast."""
    if not isinstance(given, tuple):
        return False
    found = set(map(type, given))
    return found <= kinds or all(issubclass(each, tuple(kinds)) for each in found)


def _are_allowed(tokens: Sequence[int], allowed: object) -> bool:
    """Whether there are ids for each token, and it is one of them."""
    if not (isinstance(allowed, tuple) and len(allowed) == len(tokens) and _is_tuple_of(_IDS, allowed)):
        return False
    return all(token in ids for token, ids in zip(tokens, allowed, strict=True))


def _error(engine: Engine, returned: str, wanted: str) -> EngineError:
    return EngineError(f"the engine {type(engine).__name__} returned {returned}; allowed is {wanted}")
