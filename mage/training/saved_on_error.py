"""Saves a run before an error of what is played ends it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from shlex import quote
from types import TracebackType

from mage.errors import MageError
from mage.training.recorder import RunRecorder


class SavedOnError(AbstractContextManager[None]):
    """A context for what changes neither weights nor statistics: an error in it saves the last completed step.

    An interrupt saves nothing: the second one is to end the run at once. The error goes on, whether saved or not.
    """

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception):
            return
        step, say = self._recorder.step, self._recorder.display.say
        try:
            is_saved = self._recorder.save_before_end()
        except (MageError, OSError, RuntimeError, MemoryError) as fault:
            say(f"step {step} could not be saved: {fault}")
            return
        if is_saved:
            say(f"saved after step {step}; go on with  mage train --resume {quote(str(self._recorder.folder))}")
