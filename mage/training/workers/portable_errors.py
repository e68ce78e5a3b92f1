"""Errors of a worker as another process can read them: one that is not raised on purpose becomes one line."""

from __future__ import annotations

import pickle
from contextlib import AbstractContextManager, ContextDecorator, suppress
from types import TracebackType

from mage.errors import EngineError, MageError
from mage.shortage import shortage_of

_MOST = 300
"""Characters of an error's text that are kept."""


class PortableErrors(AbstractContextManager[None], ContextDecorator):
    """A context that turns errors into an `EngineError` with type and text; mage's own and shortages stay as they are.

    So do none that cannot be pickled, or not read back: Ray would raise its own traceback in place of the first, and
    take a worker for dead with the second.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not (_is_on_purpose(error) and _is_portable(error)):
            text = " ".join(str(error).split())[:_MOST]
            raise EngineError(f"{type(error).__name__}: {text}".rstrip(": ")) from None


def _is_on_purpose(error: Exception) -> bool:
    return isinstance(error, MageError) or shortage_of(error) is not None


def _is_portable(error: Exception) -> bool:
    with suppress(Exception):  # an error may have any object within, and so raise anything
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    return False
