"""Time-share one model and optimizer between learners by swapping state.

The state of a learner (an adapter, or all weights of a small model) is copied in and out; the base model and its
compiled functions exist once for any number of learners.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from mage.errors import RecordError
from mage.files import BAD_JSON, write_atomically
from mage.learners.settings import LearnerSettings
from mage.learners.state_files import numbers_of, read_tensors, write_tensors
from mage.protocols import Learner
from mage.weights import LearnerState

NUMBERS = "numbers.json"


class SharedLearner:
    """Several learner states that take turns in one `Learner`.

    The state of the active one is in the `Learner`; its stored entry is out of date until the next one is activated.
    """

    def __init__(self, learner: Learner, settings: Mapping[str, LearnerSettings]) -> None:
        self.learner = learner
        self._settings = dict(settings)
        initial = learner.state().copied()
        self._states = dict.fromkeys(settings, initial)
        self._active: str | None = None

    def activate(self, name: str) -> Learner:
        """Load the state of a learner and return the `Learner`."""
        if name != self._active:
            self._deactivate()
            state = self._states[name]
            self.learner.set_settings(self._settings[name])
            self.learner.restore(state)
            self._active = name
        return self.learner

    def __getitem__(self, name: str) -> LearnerState:
        self._deactivate()
        return self._states[name]

    def replace(self, name: str, state: LearnerState) -> None:
        """Replace the state of a learner."""
        self._deactivate()
        self._states[name] = state

    def set_settings(self, name: str, settings: LearnerSettings) -> None:
        """Change the settings of a learner."""
        self._deactivate()
        self._settings[name] = settings

    @property
    def num_tokens(self) -> int:
        """Tokens that all learners together were trained on."""
        inactive = sum(state.num_tokens for name, state in self._states.items() if name != self._active)
        return inactive + (0 if self._active is None else self.learner.num_tokens)

    def _deactivate(self) -> None:
        """Store the state of the active learner."""
        if self._active is not None:
            self._states[self._active] = self.learner.state().copied()
            self._active = None


def save_state(folder: Path, learner: Learner, base: str) -> None:
    """Write a learner's state to a folder: its tensors and counters."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder, learner, base)
    write_atomically(folder / NUMBERS, msgspec.json.encode(numbers_of(learner)))


def load_state(folder: Path, learner: Learner) -> LearnerState:
    """Read a state that `save_state` wrote for a learner of this kind."""
    if not (folder / learner.weights_file).is_file():
        raise RecordError(f"{folder} holds no learner that can be read: it has no {learner.weights_file}")
    weights, tensors = read_tensors(folder, learner)
    try:
        numbers = msgspec.json.decode((folder / NUMBERS).read_bytes(), type=dict[str, float])
    except (OSError, *BAD_JSON) as error:
        raise RecordError(f"{folder} holds no learner that can be read: {error}") from None
    return LearnerState(weights, tensors, numbers)
