"""Errors of a worker as another process can read them: one that cannot be pickled becomes one line."""

from __future__ import annotations

import pickle
from contextlib import AbstractContextManager, ContextDecorator, suppress
from types import TracebackType

from mage.errors import EngineError

_MOST = 300
"""Characters of an error's text that are kept."""


class PortableErrors(AbstractContextManager[None], ContextDecorator):
    """A context that turns errors that cannot be pickled, or not read back, into an `EngineError` with type and text.

    Ray would raise its own traceback in place of the first, and take a worker for dead with the second.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not _is_portable(error):
            text = " ".join(str(error).split())[:_MOST]
            raise EngineError(f"{type(error).__name__}: {text}".rstrip(": ")) from None


def _is_portable(error: Exception) -> bool:
    with suppress(Exception):  # an error may have any object within, and so raise anything
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    return False
