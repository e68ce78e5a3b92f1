"""Limits on remote calls and tokens: both are counted, and calls beyond the limit are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mage.errors import EngineError


class ServiceUnavailableError(EngineError):
    """No other call will be answered either: the budget is spent, the server refuses the key or the model, or it has
    never answered."""


class Budget:
    """Counts calls and tokens. Calls in flight when the limit is reached are finished and may exceed it."""

    def __init__(self, max_calls: int | None = None, max_tokens: int | None = None) -> None:
        self._max_calls = max_calls
        self._max_tokens = max_tokens
        self.calls = 0
        """Requests that were sent, failed ones too."""
        self.tokens = 0
        """Prompt and completion tokens as servers report them; characters / 3 where a server reports none."""

    def take_call(self) -> None:
        """Count one more request, or refuse it."""
        if self._max_calls is not None and self.calls >= self._max_calls:
            raise ServiceUnavailableError(f"the budget of {self._max_calls} remote calls is spent")
        if self._max_tokens is not None and self.tokens >= self._max_tokens:
            raise ServiceUnavailableError(f"the budget of {self._max_tokens} remote tokens is spent")
        self.calls += 1

    def count_tokens(self, num: int) -> None:
        """Count the tokens of an answer."""
        self.tokens += num


_BUDGET: ContextVar[Budget] = ContextVar("budget")


def current_budget() -> Budget:
    """The budget set by `use_budget` in this context; an unlimited one if none was set."""
    return _BUDGET.get(None) or Budget()


@contextmanager
def use_budget(budget: Budget) -> Iterator[None]:
    """Count all remote calls made in this context towards a budget."""
    before = _BUDGET.set(budget)
    try:
        yield
    finally:
        _BUDGET.reset(before)
