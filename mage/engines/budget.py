"""What remote models may cost: calls and tokens are counted, and refused when they are spent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mage.errors import EngineError


class ServiceUnavailableError(EngineError):
    """No other call will be answered either: the budget is spent, or the server refuses the key or the model."""


class Budget:
    """Counts what was asked and what it took. Calls that are under way when it is spent may exceed it by theirs."""

    def __init__(self, max_calls: int | None = None, max_tokens: int | None = None) -> None:
        self._max_calls = max_calls
        self._max_tokens = max_tokens
        self.calls = 0
        """Requests that were sent, failed ones too."""
        self.tokens = 0
        """Read and written, as servers count them; a third of the characters where one does not say."""

    def take_call(self) -> None:
        """Count one more request, or refuse it."""
        if self._max_calls is not None and self.calls >= self._max_calls:
            raise ServiceUnavailableError(f"the budget of {self._max_calls} remote calls is spent")
        if self._max_tokens is not None and self.tokens >= self._max_tokens:
            raise ServiceUnavailableError(f"the budget of {self._max_tokens} remote tokens is spent")
        self.calls += 1

    def count_tokens(self, num: int) -> None:
        """Count what an answer took."""
        self.tokens += num


_BUDGET: ContextVar[Budget] = ContextVar("budget")


def current_budget() -> Budget:
    """The budget of whoever is asking; without one nothing is refused."""
    return _BUDGET.get(None) or Budget()


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Let everything that is asked meanwhile count towards a budget."""
    before = _BUDGET.set(budget)
    try:
        yield
    finally:
        _BUDGET.reset(before)
