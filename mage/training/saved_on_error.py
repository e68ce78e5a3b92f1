"""Saves a run before an error of what is played ends it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from mage.errors import MageError, RecordError, library_errors
from mage.plugin_errors import message_of
from mage.training.recorder import RunRecorder


class SavedOnError(AbstractContextManager[None]):
    """A context in which weights and statistics stay as they are: an error in it saves the last completed step.

    An interrupt saves nothing: the second one is to end the run at once. The error goes on, whether saved or not.
    """

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception):
            return
        try:
            with library_errors(RecordError):
                self._recorder.save_before_end(message_of(error))
        except MageError as fault:
            self._recorder.display.say(f"step {self._recorder.step} could not be saved: {fault}")
