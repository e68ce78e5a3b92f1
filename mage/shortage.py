"""What a process ran out of, in words: disk space, the size of files, open files, memory.

Such an error ends a command in one line and is never recorded as the failure of a trial: it says nothing about the
trial, and whatever was under way can go on once there is room.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

from mage.errors import MageError, ShortageError

_BY_NUMBER = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file has reached the largest size that is allowed (ulimit -f)",
    errno.EMFILE: "too many files are open (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine",
    errno.ENOMEM: "out of memory",
}
_NUMBER = re.compile(r"\(os error (\d+)\)")
"""How libraries written in Rust, such as safetensors and tokenizers, name an error of the system."""
_NO_MEMORY = re.compile(r"can't allocate memory|not enough memory|Cannot allocate memory|out of memory")
"""How torch says that an allocation failed; it is a RuntimeError."""
_NO_THREAD = re.compile(r"can't start new thread|ThreadPoolBuildError")


def shortage_of(error: BaseException | None) -> str | None:
    """What ran out where an error is about that, else None; an error of mage's own has its own words for its cause.

    >>> shortage_of(OSError(28, "No space left on device")), shortage_of(ValueError("28"))
    ('the disk is full', None)
    """
    if error is None:
        return None
    if isinstance(error, MageError):
        is_told = isinstance(error, ShortageError) or shortage_of(error.__cause__) is not None
        return str(error) if is_told else None
    if isinstance(error, OSError) and error.errno is not None:
        return _BY_NUMBER.get(error.errno)
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error))):
        return _BY_NUMBER[errno.ENOMEM]
    if _NO_THREAD.search(str(error)):
        return "no more threads can be started (memory, or ulimit -u)"
    found = _NUMBER.search(str(error))
    return _BY_NUMBER.get(int(found[1])) if found else None


class ShortagesAsErrors(AbstractContextManager[None]):
    """A context that turns an error about a shortage into a `ShortageError`; its line ends with what `way_out` says."""

    def __init__(self, way_out: Callable[[], str] | None = None) -> None:
        self._way_out = way_out

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ran_out = shortage_of(error)
        if ran_out is not None:
            raise ShortageError(ran_out if self._way_out is None else f"{ran_out}; {self._way_out()}") from None
